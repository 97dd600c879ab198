"""Paper beside measured, and fresh beside committed: never in one column."""

import math
from typing import Any, Literal

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.paper import Item, measured, measured_profiles, printed
from fedcopl_lab.report._tables import summary
from fedcopl_lab.report._words import UPPER_REFERENCE, is_own, item_of, lines_of, order, scale, setting_of

Verdict = Literal["exact", "within tolerance", "differs", "no common value", "only fresh", "only committed"]
_CELL = ["item", "series", "column", "metric"]
_LINE = [*_CELL, "x", "y", "seed"]


def beside(item: Item | str, numbers: pd.DataFrame, profile: str = "smoke", metric: str = "accuracy") -> pd.DataFrame:
    """The rows of an item with what we measured and what the paper prints, in columns that say which is which.

    Args:
        item: the item or its id.
        numbers: tidy numbers; lines of other items are left out.
        profile: whose numbers they are; stands in the column names.
        metric: one of the item's metrics, such as ``"accuracy"`` or ``"label_accuracy"``.

    Returns:
        One row per series; for a sweep one per level, so that measured and printed levels share a row. Measured
        columns ``"measured (smoke, handwritten digits) β = 0.1"``, followed by ``"…: std"`` and ``"…: n"``; printed
        columns ``"paper: DTD, β = 0.1"``. Accuracies in percent.

    Raises:
        FedCoPLError: the numbers have no such item or metric.

    >>> beside("fedcopl_main_table1", measured("smoke"))

    Shown in notebook ``fedcopl_main_table1``.
    """
    lines = lines_of(item, numbers, (metric,))
    where, known = setting_of(item, profile), item_of(item)
    cells, table = summary(lines, metric), printed(known.id, metric)
    if known.drawing == "sweep":
        turned = {"series": "column", "column": "series"}
        cells, table = cells.rename(columns=turned), table.rename(columns=turned)
    rows = order([*cells["series"], *table["series"]])
    wide = pd.DataFrame(index=pd.Index(rows, name="row"))
    for column in order(cells["column"]):
        part = cells[cells["column"] == column].set_index("series").reindex(rows)
        if known.reads == "manifests":
            wide["counted in the manifests"] = part["mean"]
            continue
        name = f"measured ({where.profile}, {where.dataset}) {column}"
        wide[name] = scale(metric) * part["mean"]
        wide[f"{name}: std"] = scale(metric) * part["std"]
        wide[f"{name}: n"] = part["n"].fillna(0).astype(int)
    for column in order(table["column"]):
        wide[f"paper: {column}"] = table[table["column"] == column].set_index("series")["value"]
    return wide


def committed_beside(item: Item | str, metric: str = "accuracy") -> pd.DataFrame:
    """What the paper prints, what was measured in mini and what in smoke, each in columns of its own.

    Args:
        item: the item or its id.
        metric: one of the item's metrics.

    Returns:
        The columns of :func:`beside` from the committed numbers: the printed ones first, then those of each profile
        that has numbers of the item. Rows of all of them; the row before training has its own name in each.

    Raises:
        FedCoPLError: no profile has committed numbers of the item.

    >>> committed_beside("fedcopl_main_table1")
    """
    known = item_of(item)
    found = {}
    for profile in measured_profiles():
        numbers = measured(profile)
        if ((numbers["item"] == known.id) & (numbers["metric"] == metric)).any():
            found[profile] = beside(known, numbers, profile, metric)
    if not found:
        raise FedCoPLError(f"no committed numbers have {metric!r} of {known.id}; choose another item or metric")
    fullest_first = sorted(found.values(), key=lambda wide: -wide.count().sum())
    rows = order(row for wide in fullest_first for row in wide.index)
    parts = [wide.reindex(rows) for wide in found.values()]
    printed_columns = [column for column in parts[0].columns if column.startswith("paper: ")]
    theirs = pd.concat([wide[printed_columns] for wide in found.values()]).groupby(level=0).first().reindex(rows)
    return pd.concat([theirs, *(wide.drop(columns=printed_columns) for wide in parts)], axis=1)


def readable(wide: pd.DataFrame) -> pd.DataFrame:
    """The columns of :func:`beside` or :func:`committed_beside` as text: one decimal, – where there is no number.

    Args:
        wide: their result.

    Returns:
        The same rows; one column for each with its spread and the number of runs in it: ``78.4 ± 1.0``, and
        ``78.4 (n = 1)`` where fewer runs stand behind a cell than the column's name says.

    >>> readable(committed_beside("fedcopl_main_table1")).T
    """
    told = {}
    for name in wide.columns:
        if name.endswith((": std", ": n")):
            continue
        stds = wide.get(f"{name}: std", pd.Series(math.nan, wide.index))
        counts = wide.get(f"{name}: n", pd.Series(0, wide.index)).fillna(0).astype(int)
        most = int(counts.max())
        told[f"{name}, n = {most}" if most else name] = [
            number_text(mean, std) + (f" (n = {count})" if 0 < count < most else "")
            for mean, std, count in zip(wide[name], stds, counts, strict=True)
        ]
    return pd.DataFrame(told, index=wide.index)


def number_text(mean: float, std: float = math.nan) -> str:
    """``78.4 ± 1.0``; no ± where there is no spread, – where there is no number."""
    if math.isnan(mean):
        return "–"
    return f"{mean:.1f}" if math.isnan(std) else f"{mean:.1f} ± {std:.1f}"


def gaps(item: Item | str, numbers: pd.DataFrame, profile: str = "smoke", metric: str = "accuracy") -> pd.DataFrame:
    """How far the paper's own method is ahead of the best other row, in each measured and each printed column.

    The fully labelled reference of SAGE's tables is no rival and left out.

    Returns:
        Columns column, source (``"measured"`` or ``"paper"``), best_other (its row), gap (points, negative when
        the own method is behind). A column that lacks it or every other row is left out.

    Raises:
        FedCoPLError: the numbers have no such item or metric, or the item has no row of its own method.

    >>> gaps("fedcopl_main_table6", measured("smoke"))
    """
    wide = beside(item, numbers, profile, metric)
    wide = wide.drop(index=UPPER_REFERENCE, errors="ignore")
    own = [row for row in wide.index if is_own(row)]
    if len(own) != 1:
        raise FedCoPLError(f"{item_of(item).id} has {len(own)} rows of its own method; gaps need exactly one")
    found = []
    for column in wide.columns:
        values = wide[column].dropna()
        others = values.drop(own, errors="ignore")
        if column.endswith((": std", ": n")) or own[0] not in values.index or others.empty:
            continue
        source = "paper" if column.startswith("paper: ") else "measured"
        found.append((column, source, others.idxmax(), float(values[own[0]] - others.max())))
    return pd.DataFrame(found, columns=["column", "source", "best_other", "gap"])


def against_committed(fresh: pd.DataFrame, committed: pd.DataFrame, tolerance: float = 0.01) -> pd.DataFrame:
    """Whether this machine reproduces the committed numbers, cell by cell.

    Args:
        fresh: numbers computed here, tidy.
        committed: numbers of :func:`fedcopl_lab.paper.measured`, tidy. Only seeds, rounds and clients that both
            have are compared, and what it has of other seeds alone is left out.
        tolerance: how far the two means of a cell may be apart in the metric's own unit; 0.01 is one
            percentage point of accuracy. Another processor rounds differently, and training amplifies it.

    Returns:
        One line per item, series, column and metric: fresh and committed (means over what both have),
        mean_difference, max_difference (largest of a single value), n, and verdict: ``"exact"`` (every value
        equal), ``"within tolerance"``, ``"differs"``, ``"no common value"`` (how right a kind of label is, where the
        two gave none of it in the same round), ``"only fresh"`` or ``"only committed"``.

    Raises:
        FedCoPLError: columns are missing, a line comes twice, or the tolerance is negative.

    >>> against_committed(collect(item, "smoke"), measured("smoke"))["verdict"].value_counts()
    """
    if not tolerance >= 0:
        raise FedCoPLError(f"tolerance={tolerance} is not valid; expected 0 or more")
    frames = {}
    for name, numbers in (("fresh", fresh), ("committed", committed)):
        missing = [column for column in (*_LINE, "value") if column not in numbers.columns]
        if missing:
            raise FedCoPLError(f"the {name} numbers lack the columns {', '.join(missing)}; pass tidy numbers")
        lines = numbers[[*_LINE, "value"]].astype({"x": float, "y": float, "seed": float, "value": float})
        if lines.duplicated(_LINE).any():
            raise FedCoPLError(f"the {name} numbers hold a line twice; collect them again")
        frames[name] = lines
    # what other seeds alone have, such as the accuracy of labels that this seed never gave, is not missing here
    frames["committed"] = frames["committed"][frames["committed"]["seed"].isin(frames["fresh"]["seed"])]
    both = frames["fresh"].merge(frames["committed"], on=_LINE, how="outer", suffixes=("_fresh", "_committed"))
    # an outer merge sorts by key; cells keep the order in which they were given
    seen = pd.concat(list(frames.values()))[_CELL].drop_duplicates()
    cells = [tuple(line) for line in seen.to_numpy().tolist()]
    groups: dict[Any, pd.DataFrame] = dict(list(both.groupby(_CELL, sort=False)))
    return pd.DataFrame(
        [{**dict(zip(_CELL, cell, strict=True)), **_verdict(groups[cell], tolerance, str(cell[-1]))} for cell in cells]
    )


def _verdict(lines: pd.DataFrame, tolerance: float, metric: str) -> dict[str, object]:
    common = lines.dropna(subset=["value_fresh", "value_committed"])
    fresh, committed = common["value_fresh"].mean(), common["value_committed"].mean()
    difference = (common["value_fresh"] - common["value_committed"]).abs()
    verdict: Verdict
    if common.empty and metric.startswith("label_accuracy_"):
        verdict = "no common value"
    elif common.empty:
        verdict = "only committed" if lines["value_fresh"].isna().all() else "only fresh"
    elif difference.max() <= 1e-12:  # a number read back from text may miss its last bit
        verdict = "exact"
    else:
        verdict = "within tolerance" if abs(fresh - committed) <= tolerance else "differs"
    return {"fresh": fresh, "committed": committed, "mean_difference": fresh - committed,
            "max_difference": difference.max(), "n": len(common), "verdict": verdict}  # fmt: skip
