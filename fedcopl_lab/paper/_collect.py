"""From stored runs to tidy numbers: one line per item, series, column, metric, round and seed."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._identity import has_key, key_of
from fedcopl_lab.config import LAST_ROUNDS
from fedcopl_lab.data import load_manifest
from fedcopl_lab.paper._sage_reached import reached_lines, with_speed_ups
from fedcopl_lab.paper._sage_rounds import confidence_lines, gate_numbers, last_five, pseudo_label_numbers, theory_lines
from fedcopl_lab.paper.items import ITEMS, PAPER_SETS, SEEDS, Cell, Item, ways_on_cards
from fedcopl_lab.store import Run, Store

VALUE_COLUMNS = ["item", "series", "column", "metric", "x", "y", "seed", "value", "key"]
"""Columns of the committed files."""
SETTING_COLUMNS = ["profile", "dataset", "swept", "level", "row_level", "role"]
"""What tidy numbers say besides: where they are from, as data."""
TIDY_COLUMNS = [*VALUE_COLUMNS, *SETTING_COLUMNS]
LAST_FIVE = "accuracy_last5"
RUN_COLUMNS = ["key", "profile", "method", "dataset", "clip", "seed", "seconds", "hardware", "threads", "packages"]


def collect(
    item: Item,
    profile: str,
    seeds: Sequence[int] = SEEDS,
    store: Store | None = None,
    *,
    partial: bool | Literal["runs"] = False,
    **changes: Any,
) -> pd.DataFrame:
    """The measured numbers of an item, from runs that are stored.

    Args:
        item: from :data:`fedcopl_lab.paper.ITEMS`.
        profile: which profile's runs.
        seeds: which seeds.
        store: where the runs are; None takes the default store.
        partial: leave out cells of which a run is not stored, or with ``"runs"`` those runs alone, instead of an
            error; never filled in.
        changes: settings changed in every run, such as ``rounds``; and ``machine``, of :meth:`Item.runs`.

    Returns:
        Columns item, series, column, metric, x (round, class, bin of confidence or target), y (client), seed, value
        (accuracies as shares in [0, 1]) and key; and what each line is from: profile, dataset (its name), swept (the
        setting that differs along the columns; empty for none), level (its number there; NaN for none), row_level
        (the same of the rows) and role of the row (``"own"``, ``"reference"``, ``"before training"``, ``"other"``).

    Raises:
        FedCoPLError: a run is not there yet.

    >>> collect(find_items(["fedcopl_supp_table1"])[0], "smoke")["dataset"].unique().tolist()[0]
    'dtd'
    """
    if item.reads == "manifests":
        return with_settings(pd.DataFrame(_statistics(item), columns=VALUE_COLUMNS), profile)
    store = store or Store()
    lines = []
    asked = item.runs(profile, seeds, **changes)
    if partial == "runs":
        asked = [(cell, config) for cell, config in asked if has_key(config) and store.run(key_of(config)).complete]
    elif partial:  # a cell whose data set is not here is a cell whose runs are not
        absent = {(cell.series, cell.column) for cell, config in asked if not has_key(config)}
        asked = [(cell, config) for cell, config in asked if (cell.series, cell.column) not in absent]
    wanted = [(cell, config, store.run(key_of(config))) for cell, config in asked]
    missing = {(cell.series, cell.column) for cell, _, run in wanted if not run.complete}
    for cell, config, run in wanted:
        if not run.complete and not partial:
            raise FedCoPLError(
                f"{item.id} needs the run {config.label}, which is not stored; run `fedcopl-lab reproduce`"
            )
        if (cell.series, cell.column) in missing:
            continue
        fixed = {"item": item.id, "series": cell.series, "column": cell.column, "seed": config.seed, "key": run.key}
        lines += [fixed | value for value in _values(item, run, cell)]
    return with_settings(with_speed_ups(pd.DataFrame(lines, columns=VALUE_COLUMNS)), profile)


def with_settings(numbers: pd.DataFrame, profile: str) -> pd.DataFrame:
    """Numbers with what each line is from, looked up in the items' cells: the further columns of :func:`collect`.

    Args:
        numbers: with the columns item, series and column.
        profile: whose numbers they are. A cell that it does not have leaves dataset and swept empty.

    >>> cell = pd.DataFrame({"item": ["sage_supp_fig14"], "series": ["SAGE"], "column": ["6"]})
    >>> with_settings(cell, "smoke")[["swept", "level", "role"]].values.tolist()
    [['kappa', 6.0, 'own']]
    """
    cells, there = ["item", "series", "column"], set(numbers["item"].unique())
    found = {
        (item.id, cell.series, cell.column): _setting(item, cell)
        for item in ITEMS
        if item.id in there
        for cell in item.cells(profile)
    }
    asked = numbers[cells].drop_duplicates()
    lines = []
    for name, series, column in asked.itertuples(index=False):
        unknown = {"dataset": PAPER_SETS.get(series, ""), "swept": "", "role": "other"}
        lines.append({"profile": profile, **found.get((name, series, column), unknown)})
    told = pd.DataFrame(lines, index=asked.index, columns=SETTING_COLUMNS)
    told = asked.join(told.astype({"level": float, "row_level": float}))
    numbers = numbers.drop(columns=SETTING_COLUMNS, errors="ignore")
    return numbers.merge(told, on=cells, how="left").set_axis(numbers.index)


def _setting(item: Item, cell: Cell) -> dict[str, Any]:
    own = {name: getattr(cell, name) for name in ("swept", "level", "row_level")}
    return own | {"dataset": cell.config.dataset, "role": item.role(cell.series)}


def run_table(runs: Sequence[Run]) -> pd.DataFrame:
    """Where and how fast each run was computed: hardware, seconds, versions."""
    lines = []
    for run in runs:
        there, config = run.environment, run.config
        packages = " ".join(f"{name}={number}" for name, number in sorted(there["packages"].items()))
        line = {name: getattr(config, name) for name in ("profile", "method", "dataset", "seed")}
        line |= {"key": run.key, "clip": config.as_dict().get("clip", "ResNet-8"), "seconds": run.seconds}
        lines.append(line | {"hardware": there["hardware"], "threads": there["threads"], "packages": packages})
    return pd.DataFrame(lines, columns=RUN_COLUMNS).drop_duplicates("key").sort_values("key", ignore_index=True)


def runs_of(
    items: Sequence[Item], profile: str, seeds: Sequence[int] = SEEDS, first: int | None = None, **changes: Any
) -> list[tuple[Item, Cell, Any]]:
    """Every (item, cell, run configuration) of several items; runs they share come once for each."""
    return [(item, cell, config) for item in items for cell, config in item.runs(profile, seeds, first, **changes)]


def keys_by_cell(item: Item, profile: str, cards: bool = False, **changes: Any) -> dict[tuple[str, str], set[str]]:
    """(series, column) -> the keys of the runs that the cell asks for at all its seeds, stored or not.

    With ``cards`` also those under which cards compute the same runs of the profile ``paper``; ``changes`` are those of
    :func:`collect`.

    >>> len(keys_by_cell(find_items(["main Table 3"])[0], "mini"))
    8
    """
    found: dict[tuple[str, str], set[str]] = {}
    for cell, config in item.runs(profile, **changes | {"machine": None}):  # those of every machine
        ways = ways_on_cards(config) if cards else [config]
        found.setdefault((cell.series, cell.column), set()).update(key_of(way) for way in ways if has_key(way))
    return found


def _statistics(item: Item) -> list[dict[str, Any]]:
    """Counts that stand in the manifests of the paper's data sets."""
    return [
        {"item": item.id, "series": name, "column": "manifest", "metric": metric, "x": 0, "y": None, "seed": 0,
         "value": float(count), "key": ""}
        for name, manifest in ((name, load_manifest(known)) for name, known in PAPER_SETS.items())
        for metric, count in zip(
            item.metrics, (len(manifest.classes), manifest.n_train, manifest.n_test), strict=True
        )
    ]  # fmt: skip


def _values(item: Item, run: Run, cell: Cell) -> Iterator[dict[str, Any]]:
    if item.reads == "split":
        for part in item.metrics:
            for client, counts in enumerate(run.split["class_counts"][part]):
                for label, count in enumerate(counts):
                    yield {"metric": part, "x": label, "y": client, "value": count}
    elif item.reads == "confidences":
        yield from confidence_lines(run.records(), item.metrics)
    elif item.reads == "reached":
        yield from reached_lines(run.records(), cell.column)
    elif item.reads == "theory":
        yield from theory_lines(run.records(), item.metrics)
    else:
        yield from _of_records(item, run)


def _of_records(item: Item, run: Run) -> Iterator[dict[str, Any]]:
    for record in _records(item, run):
        for metric in item.metrics:
            value = record.get(metric)
            if value is not None:
                yield {"metric": metric, "x": record["round"], "y": None, "value": value}


def _records(item: Item, run: Run) -> list[dict[str, Any]]:
    """The rows that an item takes its values from."""
    if item.reads == "final" and LAST_FIVE not in item.metrics:
        return [run.result]
    if item.reads == "final":
        return [run.result | {LAST_FIVE: last_five(run.records(LAST_ROUNDS))}]
    records = run.records()
    if item.reads == "gate":
        return [run.result | gate_numbers(records)]
    if item.reads == "first":
        return records[:1]
    if item.reads == "labels":
        phases = [record | upload_distances(record["labels"]) for record in records if "labels" in record]
        # the last round's accuracy is the run's result, also when no label phase fell into it
        return phases if "labels" in records[-1] else [*phases, records[-1]]
    if item.reads == "pseudo_labels":
        return [{"round": record["round"]} | pseudo_label_numbers(record) for record in records]
    return records


def upload_distances(labels: dict[str, Any]) -> dict[str, float]:
    """Total variation between each client's true class shares and what the server may guess them to be.

    Means over the clients: ``upload_distance`` of the normalised upload, ``upload_distance_global`` of the global
    shares, the guess that needs no upload.

    >>> labels = {"true": [[2, 0], [0, 2]], "uploaded": [[1, 1], [0, 3]], "selected": [[1, 0], [0, 1]]}
    >>> upload_distances(labels)["upload_distance"]
    0.25
    """
    true = np.asarray(labels["true"], dtype=float)
    uploaded = np.asarray(labels.get("uploaded", labels.get("filtered", labels["selected"])), dtype=float)
    guesses = {"upload_distance": uploaded, "upload_distance_global": true.sum(axis=0, keepdims=True)}
    return {name: float(np.abs(shares(true) - shares(guess)).sum(axis=1).mean() / 2) for name, guess in guesses.items()}


def shares(counts: np.ndarray) -> np.ndarray:
    """Rows scaled to sum to 1; a row of zeros says nothing and becomes equal shares."""
    sums = counts.sum(axis=1, keepdims=True)
    return np.where(sums > 0, counts / np.where(sums > 0, sums, 1), 1 / counts.shape[1])
