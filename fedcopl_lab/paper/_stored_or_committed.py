"""What this machine has computed, and the committed measurements for the rest; which runs would settle which claims."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from fedcopl_lab._identity import has_key, key_of
from fedcopl_lab.config import RunConfig
from fedcopl_lab.paper._collect import RUN_COLUMNS, TIDY_COLUMNS, collect, keys_by_cell, runs_of
from fedcopl_lab.paper._measured import in_file_order, measured, measured_claims, measured_profiles, measured_runs
from fedcopl_lab.paper._sage_reached import with_speed_ups
from fedcopl_lab.paper.items import ITEMS, SEEDS, Item, find_items
from fedcopl_lab.store import Store

_RUN = ["series", "column", "seed"]


def stored_or_committed(
    item: Item | str, profile: str = "smoke", seeds: Sequence[int] = SEEDS, store: Store | None = None, **changes: Any
) -> pd.DataFrame:
    """The numbers of an item: of the runs that are stored here, and the committed ones for the rest.

    Args:
        item: the item or its id.
        profile: whose numbers.
        seeds: which stored seeds; the committed ones are those of the item.
        store: where the runs are; None takes the default store.
        changes: settings of the runs, such as ``rounds``; and ``machine``, of :meth:`Item.runs`.

    Returns:
        As :func:`fedcopl_lab.paper.collect` gives them, and a column origin: ``"computed here"`` or ``"committed"``.
        Committed numbers of settings that the item no longer asks for are left out. Empty where nothing is there.

    >>> stored_or_committed("fedcopl_main_table6")["origin"].unique().tolist()
    ['committed']

    Shown in notebook ``fedcopl_main_table1``.
    """
    known = find_items([item])[0] if isinstance(item, str) else item
    fresh = collect(known, profile, seeds, store, partial="runs", **changes).assign(origin="computed here")
    both = [fresh, _rest(known, profile, fresh, changes).assign(origin="committed")]
    numbers = pd.concat([lines for lines in both if len(lines)] or both[:1], ignore_index=True)
    return in_file_order(with_speed_ups(numbers)[[*TIDY_COLUMNS, "origin"]])


def _rest(item: Item, profile: str, fresh: pd.DataFrame, changes: Mapping[str, Any]) -> pd.DataFrame:
    """The committed numbers of an item's present settings and these changes, but for the runs of ``fresh``."""
    if profile not in measured_profiles():
        return fresh[:0]
    keys = keys_by_cell(item, profile, cards=True, **changes).values()
    lines, asked_for = measured(profile, item.id), set().union(*keys)
    lines = lines[lines["key"].fillna("").isin(asked_for | {""})]
    return lines[~pd.MultiIndex.from_frame(lines[_RUN]).isin(pd.MultiIndex.from_frame(fresh[_RUN]))]


def judged_here(fresh: pd.DataFrame, profile: str) -> pd.DataFrame:
    """Verdicts on this machine's runs where it has all that the committed ones rest on, else the committed ones.

    Args:
        fresh: as :func:`fedcopl_lab.paper.verdicts` gives it.
        profile: whose committed verdicts.

    Returns:
        The same lines and a column origin, as of :func:`stored_or_committed`.

    >>> judged_here(measured_claims("smoke"), "smoke")["origin"].unique().tolist()
    ['computed here', 'committed']
    """
    if profile not in measured_profiles():
        return fresh.assign(origin="computed here")
    before = {row["number"]: row for row in measured_claims(profile).to_dict("records")}
    rows = []
    for row in fresh.to_dict("records"):
        old = before.get(row["number"], row)
        here = row["verdict"] != "not tested" and set(old["runs"].split()) <= set(row["runs"].split())
        rows.append((row | {"origin": "computed here"}) if here else (old | {"origin": "committed"}))
    return pd.DataFrame(rows, columns=[*fresh.columns, "origin"])


def runs_to_settle(profile: str, store: Store, cost: Callable[[RunConfig], float]) -> Iterator[RunConfig]:
    """The runs that the committed verdicts rest on and that are not stored, those of the cheapest claim first.

    A claim costs what its missing runs take once those of the claims before it are there.

    Args:
        profile: whose claims.
        store: where the runs are.
        cost: seconds of a run.
    """
    left = unsettled(profile, store)
    seconds = {config: cost(config) for runs in left.values() for config in runs}
    done = set[RunConfig]()
    while left := {number: rest for number, runs in left.items() if (rest := runs - done)}:
        cheapest = min(left, key=lambda number: (sum(seconds[config] for config in left[number]), number))
        for config in sorted(left[cheapest], key=lambda config: (-seconds[config], config.label, key_of(config))):
            done.add(config)
            yield config


def unsettled(profile: str, store: Store) -> dict[int, set[RunConfig]]:
    """Number of each claim with a committed verdict -> the runs behind it that are not stored here.

    >>> len(unsettled("smoke", Store())) > 0
    True
    """
    if profile not in measured_profiles():
        return {}
    configs = {key_of(config): config for _, _, config in runs_of(ITEMS, profile) if has_key(config)}
    tested = measured_claims(profile).query("verdict != 'not tested'")
    missing = {
        int(number): {configs[key] for key in runs.split() if key in configs and not store.run(key).complete}
        for number, runs in zip(tested["number"], tested["runs"], strict=True)
    }
    return {number: runs for number, runs in missing.items() if runs}


def committed_seconds(profile: str) -> Callable[[RunConfig], float]:
    """Function: seconds that a run took when it was committed, else its method on the same data; NaN where none did."""
    timed = measured_runs(profile) if profile in measured_profiles() else pd.DataFrame(columns=RUN_COLUMNS)
    of_run = timed.set_index("key")["seconds"].to_dict()
    alike = timed.groupby(["method", "dataset"])["seconds"].mean().to_dict()

    def seconds(config: RunConfig) -> float:
        mean = alike.get((config.method, config.dataset), float("nan"))
        return float(of_run.get(key_of(config), mean) if has_key(config) else mean)

    return seconds
