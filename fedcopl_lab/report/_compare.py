"""Paper beside measured, and fresh beside committed: never in one column."""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from fedcopl_lab._errors import FedCoPLError, check_columns
from fedcopl_lab.paper import ITEMS, Item, measured, measured_profiles, printed
from fedcopl_lab.report._tables import lead_over, summary
from fedcopl_lab.report._words import LESS_IS_BETTER, item_of, lines_of, order, scale, setting_of

LEVELS = ["source", "profile", "dataset", "column", "statistic"]
"""Levels of the columns of :func:`beside`."""
_CELL = ["item", "series", "column", "metric"]
_LINE = [*_CELL, "x", "y", "seed"]
_RUN = ["item", "series", "column", "seed"]
_PLACE = ["place", "y"]
_OF_ROUNDS = {item.id for item in ITEMS if item.reads in ("rounds", "labels", "pseudo_labels")}


def beside(item: Item | str, numbers: pd.DataFrame, profile: str = "smoke", metric: str | None = None) -> pd.DataFrame:
    """The rows of an item with what we measured and what the paper prints, in columns that say which is which.

    Args:
        item: the item or its id.
        numbers: tidy numbers; lines of other items are left out.
        profile: whose numbers they are; stands in the columns.
        metric: one of the item's metrics, such as ``"label_accuracy"``; None takes the first.

    Returns:
        One row per series; for a sweep one per level, so that measured and printed levels share a row. Columns have
        five levels: source (``"measured"``, ``"counted"`` in the manifests, or ``"paper"``), profile, dataset (spelled
        for reading; both empty for the paper), column and statistic (mean, std and n; the paper has means only).
        Accuracies in percent. :func:`readable` makes text of it.

    Raises:
        FedCoPLError: the numbers have no such item or metric.

    >>> beside("fedcopl_main_table6", lab.paper.measured("smoke"))["paper"].iloc[0].tolist()
    [50.45, 61.72, 49.08, 66.02]

    Shown in notebook ``fedcopl_main_table1``.
    """
    known, where = item_of(item), setting_of(item, profile)
    metric = metric or known.metric
    cells, table = summary(lines_of(known, numbers, profile, (metric,)), metric), printed(known.id, metric)
    if known.drawing == "sweep":
        turned = {"series": "column", "column": "series"}
        cells, table = cells.rename(columns=turned), table.rename(columns=turned)
    rows = order([*cells["series"], *table["series"]])
    found: dict[tuple[str, ...], pd.Series] = {}
    for column in order(cells["column"]):
        part = cells[cells["column"] == column].set_index("series").reindex(rows)
        if known.reads == "manifests":
            found["counted", "", "", column, "mean"] = part["mean"]
            continue
        name = ("measured", where.profile, where.dataset, column)
        found[*name, "mean"], found[*name, "std"] = scale(metric) * part["mean"], scale(metric) * part["std"]
        found[*name, "n"] = part["n"].fillna(0).astype(int)
    for column in order(table["column"]):
        own = table[table["column"] == column].set_index("series")["value"]
        found["paper", "", "", column, "mean"] = own.reindex(rows)
    return pd.concat(found, axis=1, names=LEVELS).rename_axis("row")


def committed_beside(item: Item | str, metric: str | None = None) -> pd.DataFrame:
    """What the paper prints, what was measured in mini and what in smoke, each in columns of its own.

    Args:
        item: the item or its id.
        metric: one of the item's metrics; None takes the first.

    Returns:
        The columns of :func:`beside` from the committed numbers: the printed ones first, then those of each profile
        that has numbers of the item. Rows of all of them; the row before training has its own name in each.

    Raises:
        FedCoPLError: no profile has committed numbers of the item.

    >>> committed_beside("fedcopl_main_table1").columns.unique("source").tolist()
    ['paper', 'measured']
    """
    known, found = item_of(item), {}
    metric = metric or known.metric
    for profile in measured_profiles():
        lines = measured(profile, known.id)
        if metric in set(lines["metric"]):
            found[profile] = beside(known, lines, profile, metric)
    if not found:
        raise FedCoPLError(f"no committed numbers have {metric!r} of {known.id}; choose another item or metric")
    named = [cell.series for profile in found for cell in known.cells(profile)]
    rows = order([*named, *(row for wide in found.values() for row in wide.index)])
    rows = [row for row in rows if any(row in wide.index for wide in found.values())]
    rows.sort(key=lambda row: known.role(row) != "before training")  # each in its own name, all of them first
    theirs = [wide.xs("paper", axis=1, level="source", drop_level=False) for wide in found.values() if "paper" in wide]
    ours = [wide.loc[:, wide.columns.get_level_values("source") != "paper"].reindex(rows) for wide in found.values()]
    there = {column for wide in ours for column in wide.columns.unique("column")}
    if theirs:
        together = pd.concat(theirs).groupby(level=0).first().reindex(rows)
        columns: list[Any] = sorted(together, key=lambda column: column[3] not in there)  # measured ones come first
        ours = [together[columns], *ours]
    return pd.concat(ours, axis=1).rename_axis("row")


def readable(wide: pd.DataFrame) -> pd.DataFrame:
    """The columns of :func:`beside` or :func:`committed_beside` as text: one decimal, – where there is no number.

    Args:
        wide: their result.

    Returns:
        The same rows; one column for each mean, such as ``"measured (smoke, handwritten digits) β = 0.1, n = 3"`` or
        ``"paper: DTD, β = 0.1"``, with its spread: ``78.4 ± 1.0``, and ``78.4 (n = 1)`` where fewer runs stand
        behind a cell than the column's name says.

    >>> readable(committed_beside("fedcopl_main_table6")).iloc[0, :2].tolist()
    ['50.5', '61.7']
    """
    told: dict[str, list[str]] = {}
    columns: dict[Any, pd.Series] = dict(wide.items())
    for name in dict.fromkeys(column[:-1] for column in columns):
        means, stds, counts = columns[*name, "mean"], pd.Series(math.nan, wide.index), pd.Series(0, wide.index)
        if name[0] == "measured":
            stds, counts = columns[*name, "std"], columns[*name, "n"].fillna(0).astype(int)
        most = int(counts.max())
        told[column_text(name) + (f", n = {most}" if most else "")] = [
            number_text(mean, std, 0 if name[0] == "counted" or "counted" in wide else 1)
            + (f" (n = {count})" if 0 < count < most else "")
            for mean, std, count in zip(means, stds, counts, strict=True)
        ]
    return pd.DataFrame(told, index=wide.index)


def column_text(column: Sequence[str]) -> str:
    """A column of :func:`beside` in words."""
    source, profile, dataset, name = column[:4]
    if source == "counted":
        return "counted in the manifests"
    return f"paper: {name}" if source == "paper" else f"measured ({profile}, {dataset}) {name}"


def number_text(mean: float, std: float = math.nan, digits: int = 1) -> str:
    """``78.4 ± 1.0``; no ± where there is no spread, – where there is no number."""
    if math.isnan(mean):
        return "–"
    return f"{mean:.{digits}f}" if math.isnan(std) else f"{mean:.{digits}f} ± {std:.{digits}f}"


def leads(item: Item | str, numbers: pd.DataFrame, profile: str, metric: str | None = None) -> pd.DataFrame:
    """The numbers behind :func:`gaps`: columns source, profile, dataset, column, best_other, gap."""
    known, lines = item_of(item), lines_of(item, numbers, profile)
    metric = metric or known.metric
    wide = beside(known, lines, profile, metric).xs("mean", axis=1, level="statistic")
    own = [row for row in wide.index if known.role(row) == "own"]
    if len(own) != 1:
        raise FedCoPLError(f"{known.id} has {len(own)} rows of its own method; gaps need exactly one")
    found = []
    for column in wide.columns:
        ahead = wide[column].get(own[0], math.nan) - wide[column].drop([*own, *known.references], errors="ignore")
        if column[0] == "measured":
            paired = {row: lead_over(lines, column[3], own[0], row, metric) for row in ahead.dropna().index}
            several = {row: lead for row, lead in paired.items() if len(lead.points) > 1}
            ahead = pd.Series({row: lead.mean for row, lead in (several or paired).items()}, dtype=float)
        ahead = 0 - ahead if metric in LESS_IS_BETTER else ahead
        if ahead.notna().any():
            found.append((*column, ahead.idxmin(), float(ahead.min())))
    return pd.DataFrame(found, columns=[*LEVELS[:-1], "best_other", "gap"])


def gaps(item: Item | str, numbers: pd.DataFrame, profile: str = "smoke", metric: str | None = None) -> pd.DataFrame:
    """How far the paper's own method is ahead of the best other row, in each measured and each printed column.

    Measured gaps are over the seeds that both rows have, and a row of one seed is no rival where others have more. Nor
    is the fully labelled reference of SAGE's tables.

    Returns:
        Columns column, source (``"measured"`` or ``"paper"``), best_other (its row), gap (points, negative when
        the own method is behind). A column that lacks it or every other row is left out.

    Raises:
        FedCoPLError: the numbers have no such item or metric, or the item has no row of its own method.

    >>> gaps("fedcopl_main_table6", lab.paper.measured("smoke"))["best_other"].tolist()
    ['text only', 'text only', 'text only', 'text only', 'text only']
    """
    found = leads(item, numbers, profile, metric)
    texts = [column_text(column) for column in found[LEVELS[:-1]].itertuples(index=False)]
    return found.assign(column=texts)[["column", "source", "best_other", "gap"]]


def against_committed(fresh: pd.DataFrame, committed: pd.DataFrame, tolerance: float = 0.01) -> pd.DataFrame:
    """Whether this machine reproduces the committed numbers, cell by cell.

    Args:
        fresh: numbers computed here, tidy; with the column origin, those of them that were.
        committed: numbers of :func:`fedcopl_lab.paper.measured`, tidy. Only seeds, rounds and clients that both
            have are compared, and what it has of other seeds alone is left out; of other cells too, where fresh has the
            column origin.
        tolerance: how far the two numbers of a seed may be apart in the metric's own unit, means over its rounds
            where it has several; each class, bin and client counts for itself. 0.01 is one percentage point of
            accuracy. Another processor rounds differently, and training amplifies it.

    Returns:
        One line per item, series, column and metric: fresh and committed (means over what both have),
        mean_difference, max_difference (largest of a single value), n, and verdict: ``"exact"`` (every value
        equal), ``"within tolerance"``, ``"within seeds"`` (root mean square of the differences at most twice that of
        the standard deviations over the committed seeds), ``"differs"`` (also where one of the two is no number),
        ``"no common value"`` (how right a kind of label is, where the two gave none of it in the same round),
        ``"only fresh"`` or ``"only committed"``.

    Raises:
        FedCoPLError: columns are missing, a line comes twice, or the tolerance is negative.

    >>> numbers = lab.paper.measured("smoke").query("item == 'fedcopl_main_table6'")
    >>> set(against_committed(numbers, numbers)["verdict"])
    {'exact'}
    """
    if not tolerance >= 0:
        raise FedCoPLError(f"tolerance={tolerance} is not valid; expected 0 or more")
    frames = {}
    for name, numbers in {"fresh": fresh, "committed": committed}.items():
        check_columns(f"{name} numbers", (*_LINE, "value"), numbers, "pass tidy numbers")
        frames[name] = numbers[[*_LINE, "value"]].astype({"x": float, "y": float, "seed": float, "value": float})
        if frames[name].duplicated(_LINE).any():
            raise FedCoPLError(f"the {name} numbers hold a line twice; collect them again")
    stds = _seed_means(frames["committed"]).groupby([*_CELL, *_PLACE], dropna=False)["value"].std()  # NaN of one seed
    spreads = stds.pow(2).groupby(_CELL).mean().pow(0.5).to_dict()
    if "origin" in fresh:
        frames["fresh"] = frames["fresh"][fresh["origin"] == "computed here"]
        here, there = (pd.MultiIndex.from_frame(lines[_RUN]) for lines in frames.values())
        frames["committed"] = frames["committed"][there.isin(here)]
    # what other seeds alone have, such as the accuracy of labels that this seed never gave, is not missing here
    frames["committed"] = frames["committed"][frames["committed"]["seed"].isin(frames["fresh"]["seed"])]
    values = ["value_fresh", "value_committed"]
    how: Any = {"on": _LINE, "how": "outer", "suffixes": ("_fresh", "_committed"), "indicator": True}
    both = frames["fresh"].merge(frames["committed"], **how)
    both["one_is_none"] = (both["_merge"] == "both") & (both[values].isna().sum(axis=1) == 1)
    # an outer merge sorts by key; cells keep the order in which they were given
    seen = pd.concat(list(frames.values()))[_CELL].drop_duplicates()
    groups: dict[Any, pd.DataFrame] = dict(list(both.groupby(_CELL, sort=False)))
    means = _seed_means(both.dropna(subset=values)).set_index(_CELL)
    apart: dict[Any, pd.Series] = dict(list((means["value_fresh"] - means["value_committed"]).abs().groupby(_CELL)))
    return pd.DataFrame(
        [
            cell | _verdict(groups[key := tuple(cell.values())], apart.get(key), tolerance, spreads.get(key, math.nan))
            for cell in seen.to_dict("records")
        ],
        columns=[*_CELL, "fresh", "committed", "mean_difference", "max_difference", "n", "verdict"],
    )


def _seed_means(lines: pd.DataFrame) -> pd.DataFrame:
    """One line per seed and place (class, bin, client) of a cell: what has several rounds is the mean over them."""
    place = lines["x"].where(~lines["item"].isin(_OF_ROUNDS), 0)
    values = [name for name in lines if str(name).startswith("value")]
    return lines.assign(place=place).groupby([*_CELL, *_PLACE, "seed"], dropna=False)[values].mean().reset_index()


def _verdict(lines: pd.DataFrame, apart: pd.Series | None, tolerance: float, spread: float) -> dict[Hashable, object]:
    """What a cell's lines say, and ``apart``, the differences of its seeds and places; None without a common value."""
    common = lines.dropna(subset=["value_fresh", "value_committed"])
    difference = (common["value_fresh"] - common["value_committed"]).abs()
    if lines["one_is_none"].any():
        verdict = "differs"
    elif apart is None and str(lines["metric"].iloc[0]).startswith("label_accuracy_"):
        verdict = "no common value"
    elif apart is None:
        verdict = "only committed" if lines["value_fresh"].isna().all() else "only fresh"
    elif difference.max() == 0:
        verdict = "exact"
    elif apart.max() <= tolerance:
        verdict = "within tolerance"
    else:
        verdict = "within seeds" if apart.pow(2).mean() ** 0.5 <= 2 * spread else "differs"
    fresh, committed = common["value_fresh"].mean(), common["value_committed"].mean()
    return {"fresh": fresh, "committed": committed, "mean_difference": fresh - committed,
            "max_difference": difference.max(), "n": len(common), "verdict": verdict}  # fmt: skip


def agreement_text(found: pd.DataFrame) -> str:
    """How many cells of :func:`against_committed` agree, in words.

    >>> numbers = lab.paper.measured("smoke", "fedcopl_main_table6")
    >>> agreement_text(against_committed(numbers, numbers))
    '28 cells: 28 equal to the last bit, 0 within rounding of another processor, 0 outside'
    """
    if found.empty:
        return "nothing to compare: none of the committed runs is stored here; `make reproduce` computes the first seed"
    counts = found["verdict"].value_counts().to_dict()
    kinds = ("exact", "within tolerance", "within seeds", "differs")
    equal, near, like_seeds, outside = (counts.pop(verdict, 0) for verdict in kinds)
    told = f"{equal:,} equal to the last bit, {near:,} within rounding of another processor, "
    told += (f"{like_seeds:,} no further apart than two seeds, " if like_seeds else "") + f"{outside:,} outside"
    return ", ".join([f"{len(found):,} cells: {told}", *(f"{count:,} {verdict}" for verdict, count in counts.items())])
