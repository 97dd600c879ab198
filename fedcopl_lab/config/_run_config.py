"""What the runs of both papers have in common, the flat names of nested settings, and the key that names a result."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._html import folded, table
from fedcopl_lab.config._checks import check_fields
from fedcopl_lab.config._registered import REGISTERED, settings_like

NUMERICS = 2
"""Raised whenever a change of code changes a result, so that stored runs of older code are not reused."""

STORED_NAMES: Mapping[str, str] = {"fedprox_mu": "mu_prox", "label_fraction": "label_share"}
"""Settings that stored configurations, and so run keys, spell in another way."""

_FIXMATCH = ("FixMatch-LPL", "FixMatch-GPL", "FedProx+FixMatch", "FedAvg+FlexMatch")
READERS: Mapping[str, tuple[str, ...]] = {
    "prox": ("PromptProx",),
    "cache": ("pFedPrompt",),
    "ot": ("FedOTP",),
    "fedprox": ("FedProx", "FedProx+FixMatch"),
    "flexmatch": ("FedAvg+FlexMatch",),
    "fedmatch": ("FedMatch",),
    "fedlabel": ("FedLabel",),
    "fedloke": ("FedLoKe",),
    "feddure": ("FedDure",),
    "feddb": ("FedDB",),
    "supervised_schedule": ("FedAvg", "FedProx", "FedAvg-SL"),
    "kappa": ("SAGE",),
    "fixed_weight": ("SAGE",),
    "use_cpg": ("SAGE",),
    "use_cdsc": ("SAGE",),
    "target": (*_FIXMATCH, "FedDB", "SAGE"),  # FedLoKe's are soft in any case, the others' hard
    "pl_bn": (*_FIXMATCH, "FedDure", "FedDB", "SAGE"),
    "kl": (*_FIXMATCH, "FedMatch", "FedLabel", "FedLoKe", "FedDB", "SAGE"),
    "lambda_u": (*_FIXMATCH, "FedLoKe", "FedDure", "FedDB", "SAGE"),
}
"""Setting, or first word of several, that some methods have no use for -> the methods that read it."""

READ_WITH: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "alpha": ("scheme", ("pairwise_balanced", "dirichlet")),
    "beta": ("scheme", ("dirichlet",)),
    "fraction": ("scheme", ("quantity",)),
    "epsilon": ("count_noise", ("laplace", "gaussian")),
}
"""Setting -> the other setting that it belongs to, and at which values of it a run has it; else it is None."""

_TODAY = {stored: name for name, stored in STORED_NAMES.items()}
Rules = Iterator[tuple[str, bool, str]]
_Config = TypeVar("_Config", bound="RunConfig")


@dataclass(frozen=True)
class MethodSettings:
    """Settings of one method, nested in a configuration: ``fedmatch.helpers`` is the setting ``fedmatch_helpers``."""

    def __post_init__(self) -> None:
        check_fields(self, lambda field: f"{type(self).__name__.lower()}_{field}")


@dataclass(frozen=True, kw_only=True, repr=False)
class RunConfig:
    """Everything that decides the numbers of one federated run; the papers' own settings are in its two kinds.

    Build one with :func:`configure`, which fills it from a profile and a method's preset; change one with
    :func:`dataclasses.replace`. The letters in brackets are the papers' symbols.
    """

    profile: str
    method: str
    seed: int = 0
    dataset: str
    n_clients: int  # [K]
    participation: float = 1.0  # [R] share of the clients that train in a round
    rounds: int  # [T]
    local_epochs: int  # [E]
    batch_size: int  # [B]
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float
    device: str = "cpu"
    threads: int = 1

    _ADDED: ClassVar[Mapping[str, tuple[Any, str, str]]] = MappingProxyType({})
    """Settings younger than stored runs: what those ran with, and the field and value that reads it, if not all do."""

    _SHOWN: ClassVar = ("profile", "dataset", "n_clients", "rounds", "local_epochs", "batch_size", "lr", "seed")

    def __post_init__(self) -> None:
        check_fields(self)
        for name, holds, expected in self._rules():
            if not holds:
                raise FedCoPLError(f"{name}={getattr(self, name)!r} is not valid; expected {expected}")
        defaults = flat_defaults(type(self))
        for name, value in flat(vars(self)).items():
            if value != defaults[name] and not is_read(name, self.method):
                raise FedCoPLError(
                    f"{name}={value!r} would change nothing in {self.method}; it is read by "
                    f"{', '.join(readers_of(name) or ())}: leave it at {defaults[name]!r}"
                )

    def _rules(self) -> Rules:
        """What single ranges cannot say: a setting, whether it is right beside the others, and what would be."""
        for name, (field, values) in READ_WITH.items():
            if name in vars(self):
                read, there = getattr(self, field) in values, getattr(self, name) is not None
                yield name, there == read, f"{'a number' if read else 'None'} with {field}={getattr(self, field)!r}"

    @classmethod
    def unused(cls, settings: Mapping[str, Any]) -> dict[str, None]:
        """The numbers that a run with these settings has no use for, such as ``beta`` of equal shards, as None."""
        own = {name: told for name, told in READ_WITH.items() if hasattr(cls, name)}
        return {name: None for name, (field, values) in own.items() if settings.get(field, values[0]) not in values}

    @property
    def clients_per_round(self) -> int:
        """Clients that train in a round: their share, rounded down, and at least one."""
        return max(int(round(self.participation * self.n_clients, 9)), 1)  # 0.29 * 100 is 28.999999999999996

    @property
    def like(self) -> str:
        """The method of this package whose settings the method has: itself, unless it was registered."""
        return settings_like(self.method)

    @property
    def label(self) -> str:
        """A short name for progress bars and lists."""
        return f"{self.method} {self.dataset} seed={self.seed}"

    def as_dict(self) -> dict[str, Any]:
        """The configuration as flat plain JSON values, by the names that stored runs have."""
        return {STORED_NAMES.get(name, name): value for name, value in flat(vars(self)).items()}

    def identity(self) -> dict[str, Any]:
        """What of the configuration a run key is made of: a younger setting counts where it changes a result."""
        read = vars(self) | {"method": self.like}
        unread = {
            name for name, (before, field, reader) in self._ADDED.items()
            if read[name] == before or (field and read[field] != reader)
        }  # fmt: skip
        return {name: value for name, value in self.as_dict().items() if name not in unread}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.profile}: {self.label})"

    def _repr_html_(self) -> str:
        every = flat(vars(self))
        shown = [(name, every[name]) for name in self._SHOWN]
        return table(shown, caption=self.label) + folded(f"all {len(every)} settings", table(list(every.items())))


def readers_of(setting: str) -> tuple[str, ...] | None:
    """The methods that a setting means something to; None for all of its half.

    >>> readers_of("fedprox_mu")
    ('FedProx', 'FedProx+FixMatch')
    """
    return READERS.get(setting, READERS.get(setting.partition("_")[0]))


def is_read(setting: str, method: str) -> bool:
    """Whether a setting means something to a method; to a registered one that is not known here any may."""
    readers = readers_of(setting)
    known_here = method not in REGISTERED or REGISTERED[method].known_here
    return readers is None or not known_here or settings_like(method) in readers


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by flat name: those of a method's settings one by one, as ``fedmatch_helpers``."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        own = vars(value) if isinstance(value, MethodSettings) else {}
        found |= {f"{name}_{field}": one for field, one in own.items()} or {name: value}
    return found


def flat_defaults(kind: type[RunConfig]) -> dict[str, Any]:
    """Flat name of every setting of that kind of run -> its default; ... where a profile has to give it."""
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    return {name: ... if one is dataclasses.MISSING else one for name, one in flat(defaults).items()}


def current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings with a spelling of stored configurations replaced by today's."""
    return {_TODAY.get(name, name): value for name, value in settings.items()}


def from_stored(kind: type[_Config], settings: Mapping[str, Any]) -> _Config:
    """A configuration that was stored, perhaps before some of today's settings existed or some were refused."""
    every = {name: before for name, (before, *_) in kind._ADDED.items()} | dict(settings)
    once_accepted = {name for name in every if name.startswith(("prox_", "cache_", "ot_"))}  # in any method's run
    dropped = {name for name in once_accepted if not is_read(name, str(every.get("method")))}
    kept = {name: value for name, value in (every | kind.unused(every)).items() if name not in dropped}
    return from_flat(kind, kept)


def from_flat(kind: type[_Config], settings: Mapping[str, Any]) -> _Config:
    """A configuration from settings by flat name, as :meth:`RunConfig.as_dict` writes them."""
    values = current_names(settings)
    for field in dataclasses.fields(kind):
        if isinstance(field.default, MethodSettings):
            names = [name for name in values if name.startswith(f"{field.name}_")]
            own = {name.removeprefix(f"{field.name}_"): values.pop(name) for name in names}
            values[field.name] = type(field.default)(**own)
    return kind(**values)


def run_key(config: RunConfig, *, data_sha: str, weights_sha: str) -> str:
    """The name of a result: a hash of everything that can change one of its numbers.

    Args:
        config: the run's configuration, seeds, device and thread count included.
        data_sha: sha256 of the data set's pixels, labels and split.
        weights_sha: sha256 of the frozen model's weights.

    Returns:
        16 hexadecimal digits.

    >>> len(run_key(configure("smoke"), data_sha="a", weights_sha="b"))
    16
    """
    identity: dict[str, Any] = {
        "numerics": NUMERICS,
        "config": config.identity() | {"device": config.device.split(":")[0]},
        "data": data_sha,
        "weights": weights_sha,
    }
    if config.method in REGISTERED:
        identity["version"] = REGISTERED[config.method].version
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
