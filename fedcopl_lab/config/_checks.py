"""What every configuration checks: names that exist, choices, ranges; each error says what would be right."""

import dataclasses
import math
import numbers
from collections.abc import Callable
from functools import lru_cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from fedcopl_lab._errors import FedCoPLError, check_choice
from fedcopl_lab.config._registered import REGISTERED

_Test = Callable[[Any], bool]


def check(name: str, value: Any, holds: _Test, expected: str) -> None:
    """Refuse a value for which ``holds`` is false, or which it cannot even compare."""
    try:
        good = bool(holds(value))
    except TypeError:
        good = False
    if not good:
        raise FedCoPLError(f"{name}={value!r} is not valid; expected {expected}")


def choices_of(annotation: Any) -> tuple[Any, ...]:
    """The values that a type of literals, or of literals and None, names; empty for other types."""
    arms = [annotation, *get_args(annotation)]
    literals = next((get_args(arm) for arm in arms if get_origin(arm) is Literal), ())
    return (*literals, None) if literals and NoneType in arms else literals


def check_fields(settings: Any, name_of: Callable[[str], str] = str) -> None:
    """Check choices, names and :data:`RANGES` of a dataclass's fields, and make its numbers floats where they are.

    Args:
        settings: a frozen dataclass under construction.
        name_of: a field's name -> the setting's name in errors and in RANGES.
    """
    for field, choices, optional in _fields_of(settings.__class__):
        name, value = name_of(field.name), getattr(settings, field.name)
        if choices and not (name == "method" and value in REGISTERED):
            check_choice(name, value, choices)
        if field.type is str:
            check(name, value, lambda v: isinstance(v, str) and v != "", "a name in quotes")
        if field.type is bool:
            check(name, value, lambda v: isinstance(v, bool), "True or False; true or false on the command line")
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if number and field.type in (float, float | None):
            object.__setattr__(settings, field.name, float(value))  # beta=1 and beta=1.0 are one run, one key
        elif isinstance(value, numbers.Integral) and not isinstance(value, bool | int):
            object.__setattr__(settings, field.name, int(value))  # of numpy, such as a seed from np.arange
        if name in RANGES and not (optional and value is None):
            expected, holds = RANGES[name]
            check(name, value, holds if number else lambda v: False, expected + (", or None" if optional else ""))


@lru_cache
def _fields_of(kind: type) -> list[tuple[dataclasses.Field[Any], tuple[Any, ...], bool]]:
    """A dataclass's fields, the values that each may have if they are named, and whether None is one."""
    return [(one, choices_of(one.type), NoneType in get_args(one.type)) for one in dataclasses.fields(kind)]


def _whole(least: int) -> tuple[str, _Test]:
    return f"a whole number, {least} or more", lambda v: isinstance(v, numbers.Integral) and int(v) >= least


_SHARE: tuple[str, _Test] = ("in [0, 1]", lambda v: 0 <= v <= 1)
_QUANTILE: tuple[str, _Test] = ("a quantile level in [0, 1]", _SHARE[1])
_BELOW_ONE: tuple[str, _Test] = ("in [0, 1)", lambda v: 0 <= v < 1)
_UP_TO_ONE: tuple[str, _Test] = ("a share in (0, 1]", lambda v: 0 < v <= 1)
_POSITIVE: tuple[str, _Test] = ("above 0", lambda v: 0 < v < math.inf)
_FROM_ZERO: tuple[str, _Test] = ("0 or more", lambda v: 0 <= v < math.inf)
_RANGES: tuple[tuple[tuple[str, _Test], str], ...] = (
    (_whole(0), "rounds seed refresh_every min_train min_test warmup_epochs n_probe fedmatch_helpers fedlabel_burn_in"),
    (_whole(1), "n_clients local_epochs batch_size threads n_text n_visual shots clients_per_forward ot_iterations"),
    (
        _whole(1),
        "unlabelled_batch_size steps_per_epoch labelled_per_class fedmatch_lookup_every fedloke_ramp test_stride",
    ),
    (_whole(0), "visual_depth"),
    (_whole(8), "image_size"),
    (_QUANTILE, "q_conf q_ent cpl_alpha cpl_beta"),
    (_SHARE, "upl_confident threshold fixed_weight fedmatch_threshold fedlabel_threshold feddure_threshold fedloke_mu"),
    (_BELOW_ONE, "momentum fedmatch_psi_share feddb_momentum"),
    (("a share of the clients in (0, 1]", _UP_TO_ONE[1]), "participation"),
    (("a share of the classes in (0, 1]", _UP_TO_ONE[1]), "fraction"),
    (_UP_TO_ONE, "ot_mass bn_momentum lr_at_end"),
    (("a share in (0, 1), such as 0.1", lambda v: 0 < v < 1), "label_fraction"),
    (("a positive learning rate", _POSITIVE[1]), "lr"),
    (("a positive privacy budget", _POSITIVE[1]), "epsilon"),
    (("a positive Dirichlet concentration", _POSITIVE[1]), "beta alpha"),
    (_POSITIVE, "fedmatch_lambda_s"),
    (("a regularisation of 0.006 or more", lambda v: 0.006 <= v < math.inf), "ot_epsilon"),
    (_FROM_ZERO, "weight_decay prox_mu cache_weight cache_sharpness cpl_gamma ot_threshold kappa lambda_u fedprox_mu"),
    (_FROM_ZERO, "fedmatch_lambda_i fedmatch_lambda_a fedmatch_lambda_l2 fedmatch_lambda_l1 fedmatch_zero"),
    (_FROM_ZERO, "fedmatch_unsent fedlabel_lambda_u fedlabel_lambda_c fedlabel_pull fedloke_entropy"),
)
RANGES = {name: limits for limits, names in _RANGES for name in names.split()}
"""Setting -> what is expected of its value, in words and as a test; None is right where the field's type has it."""
