"""What a claim may ask of the run store: one number per seed, from runs named by their settings."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._identity import key_of
from fedcopl_lab.config import PROFILES, PromptConfig, RunConfig, configure
from fedcopl_lab.data import known_manifests
from fedcopl_lab.paper._judge import LEAST_SEEDS
from fedcopl_lab.paper.items._columns import ALL_SPLITS, SETS_OF
from fedcopl_lab.store import Run, Store

Rows = list[dict[str, Any]]
"""A run's rounds as stored, first to last."""

Read = Callable[[Rows], float]
"""One number from a run's rounds; None or NaN in the rows comes out as NaN, a missing log as KeyError."""

Settings = Mapping[str, Any]

SKEWS: Mapping[str, Settings] = ALL_SPLITS
"""The paper's label skews."""

_ENCODERS: Mapping[str, tuple[str, ...]] = {"mini": ("mini",), "paper": ("ViT-B-32", "ViT-B-16", "RN50")}
_SMALL_ENCODERS = ("tiny", "tiny-p1", "tiny-rn")


class NotTestedError(FedCoPLError):
    """A claim cannot be judged here; the text says why."""


class Evidence:
    """The stored runs of one profile, as one claim sees them; remembers which it used and what it did without.

    Args:
        profile: whose runs.
        store: where they are.
        seeds: which seeds to look for; seeds that are not stored are left out.
        cache: rows already read, shared between claims.
        changes: settings that all runs have, such as ``device``.
    """

    def __init__(
        self,
        profile: str,
        store: Store,
        seeds: Sequence[int],
        cache: dict[Hashable, Any] | None = None,
        changes: Settings | None = None,
    ) -> None:
        self.profile, self.store, self.seeds = profile, store, tuple(seeds)
        self.keys: set[str] = set()
        self.left_out: list[str] = []
        self.stand_in = False
        self.reads_zero_shot = False
        self._spare: tuple[str, ...] = ()
        self._cache = {} if cache is None else cache
        self._changes = dict(changes or {})

    @property
    def sets(self) -> dict[str, Settings]:
        """The profile's data sets by name, with the settings that choose them."""
        if self.profile not in SETS_OF and self.profile not in PROFILES:
            raise NotTestedError(f"profile {self.profile} has no runs of FedCoPL")
        return dict(SETS_OF.get(self.profile) or {configure(self.profile).dataset: {}})

    @property
    def encoders(self) -> tuple[str, ...]:
        """The profile's frozen models, the default first."""
        return _ENCODERS.get(self.profile, _SMALL_ENCODERS)

    @property
    def resnet(self) -> str:
        """The profile's ResNet among its frozen models.

        Raises:
            NotTestedError: it has none.
        """
        if len(self.encoders) < len(_SMALL_ENCODERS):
            raise NotTestedError(f"about a ResNet, which profile {self.profile} does not have")
        return self.encoders[-1]

    def columns(self, *skews: str) -> dict[str, Settings]:
        """Column name -> settings: every data set at each of the named skews, all of the paper's by default."""
        chosen = {name: SKEWS[name] for name in skews or SKEWS}
        alone = len(self.sets) == 1
        self.stand_in |= alone
        return {
            skew if alone else f"{name}, {skew}": {**there, **own}
            for name, there in self.sets.items()
            for skew, own in chosen.items()
        }

    def panels(self) -> dict[str, Settings]:
        """The data sets at β = 0.1; where the profile has one set, its label skews stand for the others if stored."""
        if len(self.sets) > 1:
            return self.columns("β = 0.1")
        self._spare = tuple(name for name in SKEWS if name != "β = 0.1")
        return self.columns()

    def needs_set(self, *names: str) -> dict[str, Settings]:
        """The settings of data sets that a claim is about.

        Raises:
            NotTestedError: the profile lacks one of them.
        """
        missing = [name for name in names if name not in self.sets]
        if missing:
            raise NotTestedError(f"about {', '.join(missing)}, which profile {self.profile} does not have")
        return {name: self.sets[name] for name in names}

    def values(self, read: Read, **settings: Any) -> pd.Series:
        """One number per seed with a stored run of these settings.

        Args:
            read: takes the number from a run's rounds.
            settings: as for :func:`fedcopl_lab.configure`.

        Returns:
            Numbers indexed by seed, at least three.

        Raises:
            NotTestedError: fewer than three seeds are stored, the settings do not exist in this version, or the
                rows lack what is read.
        """
        return self._read(lambda rows: read(*rows), settings)

    def split_values(self, read: Callable[[dict[str, Any]], float], **settings: Any) -> pd.Series:
        """The same from the stored split of each run: who holds which images."""
        found = {}
        for seed in self.seeds:
            key, rows = self._rows(seed, settings)
            if rows is not None:
                found[seed] = self._number(partial(_of_split, self.store.run(key), read), [rows], [settings])
                self.keys.add(key)
        if len(found) < LEAST_SEEDS:
            raise NotTestedError(f"needs {LEAST_SEEDS} seeds of {_named(settings)}; {len(found)} stored")
        return pd.Series(found, dtype=float)

    def paired(self, read: Callable[[Rows, Rows], float], own: Settings, other: Settings) -> Callable[[], pd.Series]:
        """One number per seed from two runs of that seed, read when called."""
        return lambda: self._read(lambda rows: read(*rows), own, other)

    def later(self, read: Read, **settings: Any) -> Callable[[], pd.Series]:
        """The same as :meth:`values`, read when called."""
        return lambda: self.values(read, **settings)

    def gap(
        self, read: Read, own: Settings, other: Settings, read_other: Read | None = None
    ) -> Callable[[], pd.Series]:
        """What one run is ahead of another, paired over seeds, read when called."""
        return self.paired(lambda first, second: read(first) - (read_other or read)(second), own, other)

    def lead(self, read: Read, own: Settings, others: Mapping[str, Settings], **column: Any) -> Callable[[], pd.Series]:
        """What one run is ahead of the best of several rows of the same column, read when called."""
        return lambda: self.values(read, **{**own, **column}) - self.best_other(read, others, **column)

    def in_columns(self, read: Read, columns: Mapping[str, Settings], **settings: Any) -> dict[str, pd.Series]:
        """The same number in every column whose runs are stored."""
        return self.cells({name: self.later(read, **{**settings, **there}) for name, there in columns.items()})

    def cells(self, wanted: Mapping[str, Callable[[], pd.Series]], least: int = 1) -> dict[str, pd.Series]:
        """The cells whose runs are stored; the others are remembered as left out.

        Args:
            wanted: name -> what computes the cell.
            least: fewest cells that make sense; 0 for what only adds to a note, which nobody misses.

        Raises:
            NotTestedError: fewer than ``least`` are stored; the reason of the first missing one, if any is wanted.
        """
        found: dict[str, pd.Series] = {}
        missing: dict[str, NotTestedError] = {}
        for name, compute in wanted.items():
            try:
                found[name] = compute()
            except NotTestedError as why:
                missing[name] = why
        if len(found) < least:
            nothing = NotTestedError(f"about a comparison that profile {self.profile} does not have")
            raise next(iter(missing.values()), nothing)
        missed = [name for name in missing if least and not any(spare in name for spare in self._spare)]
        self.left_out += [name for name in missed if name not in self.left_out]
        return found

    def sweep(self, read: Read, field: str, levels: Sequence[Any], least: int = 2, **settings: Any) -> pd.DataFrame:
        """One line per seed, one column per stored value of a setting, for seeds that have all of them."""
        names = {f"{field} = {level}": level for level in levels}
        found = self.cells({name: self.later(read, **{**settings, field: at}) for name, at in names.items()}, least)
        return pd.DataFrame({names[name]: values for name, values in found.items()}).dropna()

    def best_other(self, read: Read, rows: Mapping[str, Settings], **column: Any) -> pd.Series:
        """The row that is best on average over the seeds; its name is the series' name.

        Raises:
            NotTestedError: one of the rows is not stored, so that nothing is known about the best.
        """
        found = {name: self.values(read, **{**row, **column}) for name, row in rows.items()}
        best = max(found, key=lambda name: float(found[name].mean()))
        return found[best].rename(best)

    def _read(self, read: Callable[[list[Rows]], float], *wanted: Settings) -> pd.Series:
        found: dict[int, float] = {}
        for seed in self.seeds:
            stored = [self._rows(seed, settings) for settings in wanted]
            if all(rows is not None for _, rows in stored):
                found[seed] = self._number(read, [rows for _, rows in stored if rows is not None], wanted)
                self.keys |= {key for key, _ in stored}
        if len(found) < LEAST_SEEDS:
            which = " and ".join(map(_named, wanted))
            raise NotTestedError(f"needs {LEAST_SEEDS} seeds of {which}; {len(found)} stored")
        return pd.Series(found, dtype=float)

    def _number(self, read: Callable[[list[Rows]], float], rows: list[Rows], wanted: Sequence[Settings]) -> float:
        try:
            value = read(rows)
        except KeyError as missing:
            which = " or ".join(map(_named, wanted))
            raise NotTestedError(f"the stored rows of {which} lack {missing}") from missing
        return float("nan") if value is None else float(value)

    def _rows(self, seed: int, settings: Settings) -> tuple[str, Rows | None]:
        """The key and rows of one seed's run; None for the rows where it is not stored complete."""
        key = self._key(self._config(seed, settings))
        self.reads_zero_shot |= settings.get("method") == "zero-shot"
        if key not in self._cache:
            run = self.store.run(key)
            self._cache[key] = run.records() if run.complete else None
        return key, self._cache[key]

    def _config(self, seed: int, settings: Settings) -> RunConfig:
        wanted = {**settings, **self._changes, "seed": seed}
        name = frozenset(wanted.items())
        if name not in self._cache:
            try:
                self._cache[name] = configure(self.profile, **wanted)
            except FedCoPLError as unknown:
                raise NotTestedError(str(unknown)) from unknown
        config: RunConfig = self._cache[name]
        return config

    def _key(self, config: RunConfig) -> str:
        if config not in self._cache:
            inputs = (config.dataset, *([config.clip] if isinstance(config, PromptConfig) else []))
            if inputs not in self._cache:
                self._cache[inputs] = _are_here(config)
            if not self._cache[inputs]:
                raise NotTestedError(f"{' or '.join(inputs)} is not here")
            self._cache[config] = key_of(config)
        return str(self._cache[config])


def _of_split(run: Run, read: Callable[[dict[str, Any]], float], _: list[Rows]) -> float:
    return read(run.split)


def _are_here(config: RunConfig) -> bool:
    """Whether the data and weights of a run have a known content, without which it has no key."""
    if isinstance(config, PromptConfig) and config.clip not in known_manifests("weights"):
        return False
    try:
        key_of(config)
    except FedCoPLError:  # says how to get them, with this machine's paths: not for a table that is committed
        return False
    return True


def _named(settings: Settings) -> str:
    """Settings in words, such as ``FedCoPL (beta=0.1)``."""
    rest = ", ".join(f"{name}={value}" for name, value in settings.items() if name != "method")
    return settings.get("method", "FedCoPL") + (f" ({rest})" if rest else "")
