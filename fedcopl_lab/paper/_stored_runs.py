"""Runs named by their settings, as evidence for claims: a profile's stored ones, and what the papers print."""

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._identity import has_key, key_of
from fedcopl_lab.config import PROFILES, PromptConfig, RunConfig, configure
from fedcopl_lab.paper._evidence import Evidence, Named, NotTestedError, Read, RegimeNotReachedError, Rows, Settings
from fedcopl_lab.paper._gates import Place, failed_gates, place_of
from fedcopl_lab.paper.items._fedcopl_columns import ALL_SPLITS, SETS, SETS_OF, reads_untrained_patches
from fedcopl_lab.paper.items._item import changes_of
from fedcopl_lab.store import Store

_ENCODERS = {"mini": ("mini-traits",), "paper": ("ViT-B-32", "ViT-B-16", "RN50")}
_SMALL_ENCODERS = ("tiny", "tiny-p1", "tiny-rn")


class StoredRuns(Evidence):
    """The stored runs of one profile.

    Args:
        profile: whose runs.
        store: where they are.
        seeds: which seeds to look for; seeds that are not stored are left out.
        changes: settings that all runs have, such as ``rounds``; and ``machine``, of :meth:`Item.runs`.
        gates: as :func:`fedcopl_lab.paper.gates` gives them; None asks for none.
    """

    def __init__(
        self,
        profile: str,
        store: Store,
        seeds: Sequence[int],
        changes: Settings | None = None,
        gates: pd.DataFrame | None = None,
    ) -> None:
        super().__init__(seeds)
        self.profile, self.store, self.about = profile, store, f"profile {profile}"
        self._cache: dict[Hashable, Any] = {}
        self._changes, self._gates = dict(changes or {}), gates

    def _start(self, closed: Container[Hashable] = ()) -> None:
        super()._start(closed)
        self.stand_in = self.reads_zero_shot = self._without_images = False
        self._places: dict[str, Place] = {}

    def failed_gates(self, letters: str) -> Mapping[Place, Sequence[str]]:
        """The data sets and splits used that do not pass; see :func:`fedcopl_lab.paper.gates`."""
        places = sorted({place for key, place in self._places.items() if key in self.keys})
        return {} if self._gates is None else failed_gates(self._gates, letters, places)

    def reader(self, name: str) -> Read:
        """A reader of stored rounds; see ``statistics/_readers.py`` for the names."""
        from fedcopl_lab.paper.statistics._sage_readers import reader

        return reader(name)

    def image_error(self, read: Read, *rows: Rows) -> float | None:
        """See ``statistics/_readers.py``."""
        from fedcopl_lab.paper.statistics._readers import ACCURACIES, image_error

        error = image_error(read, *rows)
        self._without_images |= read in ACCURACIES and error is None
        return error

    def group(self, name: str) -> Named | None:
        """Rows or columns of the papers' tables in this profile."""
        from fedcopl_lab.paper.statistics._groups import COLUMNS, ROWS

        return COLUMNS[name](self) if name in COLUMNS else ROWS.get(name)

    def named(self, settings: Settings) -> str:
        """Settings in words, such as ``FedCoPL (beta=0.1)``."""
        rest = super().named({name: value for name, value in settings.items() if name != "method"})
        return settings.get("method", "FedCoPL") + (f" ({rest})" if rest else "")

    def remarks(self) -> tuple[str, ...]:
        """What stands for the paper's data sets, and what the row before training is."""
        said = [f"The label skews of {next(iter(self.sets))} stand for the paper's data sets."] if self.stand_in else []
        if self.profile == "mini" and self.reads_zero_shot:
            said.append(
                "Zero-shot is here: prompted, before training; the model has seen other labelled pictures of these "
                "classes."
            )
        if self._without_images:
            said.append("The interval leaves out the sampling of test images: these runs stored no result per image.")
        return tuple(said)

    @property
    def sets(self) -> dict[str, Settings]:
        """The profile's data sets by name, with the settings that choose them."""
        if self.profile not in SETS_OF and self.profile not in PROFILES:
            raise NotTestedError(f"profile {self.profile} has no runs of FedCoPL")
        return dict(SETS_OF.get(self.profile) or {configure(self.profile).dataset: {}})

    @property
    def encoders(self) -> tuple[str, ...]:
        """The profile's frozen models: the default, one with smaller patches, a ResNet."""
        return _ENCODERS.get(self.profile, _SMALL_ENCODERS)

    @property
    def resnet(self) -> str:
        """The profile's ResNet among its frozen models; without one the claim is not tested."""
        if len(self.encoders) < 3:
            raise NotTestedError(f"about a ResNet, which profile {self.profile} does not have")
        return self.encoders[-1]

    def needs_set(self, *names: str) -> Named:
        """The settings of data sets that a claim is about; where the profile lacks one it is not tested."""
        missing = [name for name in names if name not in self.sets]
        if missing:
            raise NotTestedError(f"about {', '.join(missing)}, which profile {self.profile} does not have")
        return {name: self.sets[name] for name in names}

    def columns(self, *skews: str) -> Named:
        """Column name -> settings: every data set at each of the named skews, all of the paper's by default."""
        chosen = {name: ALL_SPLITS[name] for name in skews or ALL_SPLITS}
        self.stand_in |= len(self.sets) == 1
        return {
            f"{name}, {skew}" if name in SETS else skew: {**there, **own}
            for name, there in self.sets.items()
            for skew, own in chosen.items()
        }

    def panels(self) -> Named:
        """The data sets at β = 0.1; a profile without most of the paper's takes its other label skews too if stored."""
        if self.profile == "paper":
            return self.columns("β = 0.1")
        self._spare = tuple(name for name in ALL_SPLITS if name != "β = 0.1")
        return self.columns()

    def split_values(self, read: Callable[[dict[str, Any]], float], **settings: Any) -> pd.Series:
        """One number per seed from the stored split of each run: who holds which images."""

        def split_of(seed: int, there: Settings) -> tuple[str, Rows | None]:
            key, rows = self.rows_of(seed, there)
            return key, None if rows is None else self.store.run(key).split

        return self._values(lambda found: read(*found), settings, rows_of=split_of)

    def rows_of(self, seed: int, settings: Settings) -> tuple[str, Rows | None]:
        """The key and the rounds of one seed's run; None for the rounds where it is not stored complete."""
        config = self._config(seed, settings)
        if reads_untrained_patches(config):
            raise RegimeNotReachedError(f"FedOTP reads patches, which {self.profile}'s model did not train for texts")
        key = self._key(config)
        self.reads_zero_shot |= settings.get("method") == "zero-shot"
        if key not in self._cache:
            run = self.store.run(key)
            self._cache[key] = run.records() if run.complete else None
        if self._cache[key] is not None:
            place = place_of(config)
            if place in self._closed:
                raise RegimeNotReachedError(f"the regime of {self.named(settings)} is not reached")
            self._places[key] = place
        return key, self._cache[key]

    def _config(self, seed: int, settings: Settings) -> RunConfig:
        wanted = {**settings, **changes_of(settings.get("method", ""), self._changes), "seed": seed}
        machine = wanted.pop("machine", None)
        name = frozenset(wanted.items())
        if name not in self._cache:
            try:
                config = configure(self.profile, **wanted)
                self._cache[name] = machine(config) if machine else config
            except FedCoPLError as unknown:
                raise NotTestedError(str(unknown)) from unknown
        found: RunConfig = self._cache[name]
        return found

    def _key(self, config: RunConfig) -> str:
        inputs = (config.dataset, *([config.clip] if isinstance(config, PromptConfig) else []))
        if inputs not in self._cache:
            self._cache[inputs] = has_key(config)
        if not self._cache[inputs]:
            raise NotTestedError(f"{' or '.join(inputs)} is not here")
        return key_of(config)
