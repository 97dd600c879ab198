"""Tables and figures drawn one by one while their runs come, and the report that holds what is there."""

import time
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from pathlib import Path

import pandas as pd

from fedcopl_lab import paper
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.cli._machine import Machine
from fedcopl_lab.config import RunConfig
from fedcopl_lab.paper import Item
from fedcopl_lab.report import against_committed, agreement_text, save_item, write_report
from fedcopl_lab.store import Store

_SECONDS_BETWEEN = 15.0  # the report is not written more often than that, but at the end


class Drawing:
    """The files of some items, in this order: of the runs that are stored, and the committed numbers beside them.

    ``seeds`` are those of the items that leave them open; ``machine`` makes each run what this machine computes.
    """

    def __init__(
        self, items: Sequence[Item], profile: str, seeds: Sequence[int], machine: Machine, store: Store, folder: Path,
        pictures: Sequence[str],
    ) -> None:  # fmt: skip
        self.items, self.profile, self.seeds, self.machine = items, profile, seeds, machine
        self.store, self.folder, self.pictures = store, folder, pictures
        self.report = folder / "report.html"
        self.numbers = dict[str, pd.DataFrame]()
        self._is_committed = profile in paper.measured_profiles()
        self._origins = paper.measured_runs(profile) if self._is_committed else paper.run_table([])
        self._written_at = -_SECONDS_BETWEEN
        self._left = dict[str, set[RunConfig]]()
        self._further = False  # whether runs came that no item waited for

    def wanted(self, item: Item) -> list[RunConfig]:
        """The runs of an item at the seeds that are asked for."""
        return [config for _, config in item.runs(self.profile, self.seeds, machine=self.machine)]

    def begin(self, missing: Sequence[RunConfig]) -> str:
        """Draw the items whose runs are all there, and before them the first whose committed numbers are."""
        self._left = {item.id: set(self.wanted(item)) & set(missing) for item in self.items}
        ready = [item for item in self.items if not self._left[item.id]]
        waiting = [item for item in self.items if item not in ready]
        for item in [*islice(filter(self._whole, waiting), 1), *ready]:
            if self._draw(item):
                self._write()
        return self._told()

    def _whole(self, item: Item) -> bool:
        known = set(paper.measured(self.profile, item.id)["key"]) if self._is_committed else set()
        return set().union(*paper.keys_by_cell(item, self.profile).values()) <= known

    def add(self, config: RunConfig) -> str:
        """Draw the items of which this was the last run; how far it is, in words."""
        waiting = [item for item in self.items if config in self._left[item.id]]
        self._further |= not waiting
        for item in waiting:
            self._left[item.id].remove(config)
            if not self._left[item.id] and self._draw(item):
                self._write()
        return self._told()

    def finish(self) -> list[str]:
        """Draw what has changed since and judge the claims; how all of it compares with the committed numbers."""
        for item in self.items:
            if self._left[item.id] or self._further:
                self._draw(item)
        if not self.numbers:
            raise FedCoPLError("nothing can be drawn: no run of these items is stored or committed; the same command "
                               "with more --budget, or without, computes them")  # fmt: skip
        found = paper.verdicts(self.profile, self.store, self.seeds, machine=self.machine)
        judged = paper.judged_here(found, self.profile)
        told = self._compared(judged)
        self._write(judged, f"{'. '.join(told)}.")
        return told

    def _draw(self, item: Item) -> bool:
        """Write an item's files where its numbers have changed."""
        lines = paper.stored_or_committed(item, self.profile, self.seeds, self.store, machine=self.machine)
        before = self.numbers.get(item.id)
        if (lines.empty and item.reads != "nothing") or (before is not None and lines.equals(before)):
            return False
        self.numbers[item.id] = lines
        here = sorted(set(lines.loc[lines["origin"] == "computed here", "key"].dropna()) - {""})
        fresh = paper.run_table([self.store.run(key) for key in here])
        old = self._origins[~self._origins["key"].isin(here)]
        self._origins = pd.concat([table for table in (old, fresh) if len(table)] or [old], ignore_index=True)
        save_item(item, lines, self._origins, self.folder, self.profile, self.pictures)
        return True

    def _write(self, judged: pd.DataFrame | None = None, note: str = "") -> None:
        if not note and time.monotonic() < self._written_at + _SECONDS_BETWEEN:
            return
        drawn = [item for item in self.items if item.id in self.numbers]
        if judged is None and self._is_committed:
            judged = paper.measured_claims(self.profile)
        note = note or f"{self._told()}; the others follow. Verdicts are the committed ones."
        write_report(self.folder, drawn, self.numbers, self._origins, self.profile, judged, note=note)
        self._written_at = time.monotonic()

    def _told(self) -> str:
        return f"{sum(not left for left in self._left.values())} of {len(self.items)} tables and figures"

    def _compared(self, judged: pd.DataFrame) -> list[str]:
        if not self._is_committed:
            return [f"nothing measured in profile {self.profile} is committed to compare with"]
        numbers = pd.concat(self.numbers.values())
        told = [agreement_text(against_committed(numbers, paper.measured(self.profile)))]
        here = judged[judged["origin"] == "computed here"]
        both = paper.same_verdicts(here, paper.measured_claims(self.profile))
        off = both[~both["same"]].to_dict("records")
        changed = "".join(f"; {row['number']}: {row['committed']} -> {row['fresh']}" for row in off)
        told.append(f"{len(here)} of {len(judged)} claims are judged on runs computed here, "
                    f"{len(both) - len(off)} of them as committed{changed}")  # fmt: skip
        left = paper.unsettled(self.profile, self.store)
        left = {claim: runs for claim, runs in left.items() if self.machine(one := next(iter(runs))) == one}
        if left:
            runs = {config for configs in left.values() for config in configs}
            minutes = sum(map(paper.committed_seconds(self.profile), runs)) / 60
            told.append(f"{len(left)} claims are not: {_spans(left)}; their {len(runs)} missing runs take "
                        f"{minutes:.0f} min of one core (--budget 30m for some of them, --seeds all)")  # fmt: skip
        return told


def _spans(numbers: Iterable[int]) -> str:
    """``1-3, 5`` for 1, 2, 3 and 5."""
    groups = groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0])
    ends = [[number for _, number in group] for _, group in groups]
    return ", ".join(str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in ends)
