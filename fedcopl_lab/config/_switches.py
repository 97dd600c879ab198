"""Which of SAGE's methods reads which setting: one that would change nothing is refused, not ignored."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fedcopl_lab._errors import FedCoPLError

_FIXMATCH = ("FixMatch-LPL", "FixMatch-GPL", "FedProx+FixMatch", "FedAvg+FlexMatch")

READERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "supervised_schedule": ("FedAvg", "FedProx", "FedAvg-SL"),
        "kappa": ("SAGE",),
        "fixed_weight": ("SAGE",),
        "use_cpg": ("SAGE",),
        "use_cdsc": ("SAGE",),
        "target": (*_FIXMATCH, "FedDB", "SAGE"),  # FedLoKe's are soft in any case, the others' hard
        "pl_bn": (*_FIXMATCH, "FedDure", "FedDB", "SAGE"),
        "kl": (*_FIXMATCH, "FedMatch", "FedLabel", "FedLoKe", "FedDB", "SAGE"),
        "lambda_u": (*_FIXMATCH, "FedLoKe", "FedDure", "FedDB", "SAGE"),
        "mu_prox": ("FedProx", "FedProx+FixMatch"),
    }
)
"""Settings that some methods have no use for, and the methods that read them."""

_OWN = {
    "flexmatch_": "FedAvg+FlexMatch",
    "fedmatch_": "FedMatch",
    "fedlabel_": "FedLabel",
    "fedloke_": "FedLoKe",
    "feddure_": "FedDure",
    "feddb_": "FedDB",
}


def readers_of(setting: str) -> tuple[str, ...] | None:
    """The methods that a setting means something to; None for all.

    >>> readers_of("mu_prox")
    ('FedProx', 'FedProx+FixMatch')
    """
    own = next((method for prefix, method in _OWN.items() if setting.startswith(prefix)), None)
    return (own,) if own else READERS.get(setting)


def check_is_read(config: Any) -> None:
    """Refuse a setting away from its default that the configuration's method does not read.

    Raises:
        FedCoPLError: which setting, and who reads it.
    """
    for field in dataclasses.fields(config):
        value, readers = getattr(config, field.name), readers_of(field.name)
        if readers is None or config.method in readers or value == field.default:
            continue
        raise FedCoPLError(
            f"{field.name}={value!r} would change nothing in {config.method}; it is read by {', '.join(readers)}: "
            f"leave it at {field.default!r}"
        )
