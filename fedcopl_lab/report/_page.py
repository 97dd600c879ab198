"""The report: one HTML file that needs nothing but a browser."""

import base64
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import write_atomic
from fedcopl_lab.paper import Item, claims, claims_about, measured, measured_claims, measured_profiles
from fedcopl_lab.report._claims import claims_section
from fedcopl_lab.report._compare import against_committed
from fedcopl_lab.report._coverage import coverage_section
from fedcopl_lab.report._page_heads import heads
from fedcopl_lab.report._page_tables import measured_table, printed_tables
from fedcopl_lab.report._plots import draw
from fedcopl_lab.report._save import TABLES, provenance
from fedcopl_lab.report._style import light_png
from fedcopl_lab.report._tables import seeds_text, summary
from fedcopl_lab.report._templates import SYMBOLS, render
from fedcopl_lab.report._words import Setting, lines_of, mean_std, metric_name, order, paper_of, setting_of

_DPI = 180
_TOLD_UP_TO = 20  # values in a picture's alternative text
_PICTURES_ONLY = ("split", "confidences", "theory")  # reads of many values per run: a picture and a CSV tell them
_FOLDED = ("accuracy_sample_mean", "accuracy_global", "n_selected")  # measures a reader asks for second


def write_report(
    folder: Path | str,
    items: Sequence[Item],
    numbers: pd.DataFrame | Mapping[str, pd.DataFrame],
    runs: pd.DataFrame,
    profile: str = "smoke",
    verdicts: pd.DataFrame | None = None,
    *,
    compare: bool = True,
) -> Path:
    """Write ``report.html``: every item with picture, measured numbers, printed numbers and origin.

    The file is self-contained and has no date in it: the same numbers and runs give the same bytes.

    Args:
        folder: where to write; made when missing.
        items: what to show, in this order.
        numbers: tidy numbers of all items, in one frame or by item id.
        runs: the runs behind them, as :func:`fedcopl_lab.paper.run_table` gives them.
        profile: whose numbers they are.
        verdicts: on the papers' claims, as :func:`fedcopl_lab.paper.verdicts` gives them; None leaves them out.
        compare: say of each item how its numbers agree with the committed ones.

    Returns:
        The file.

    Raises:
        FedCoPLError: no items, numbers without their runs, or a folder that cannot be written.

    >>> write_report("figures", ITEMS, measured("smoke"), measured_runs("smoke"))

    Shown in notebook ``00_quickstart``.
    """
    if not items:
        raise FedCoPLError("there is no item to report; pass at least one, such as find_items()")
    together = numbers if isinstance(numbers, pd.DataFrame) else _together(list(numbers.values()))
    by_paper: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        by_paper.setdefault(paper_of(item), []).append(_entry(item, together, runs, profile, verdicts, compare))
    settings = [entry["setting"] for entries in by_paper.values() for entry in entries]
    page = render(
        "page.html.j2",
        profile=profile,
        setting=next((setting for setting in settings if setting.dataset), Setting(profile, "", "", 0)),
        papers=by_paper,
        heads=heads(items, together, profile, verdicts),
        totals=_totals(items, together, runs),
        claims=claims_section(verdicts, _other_verdicts(profile)),
        partly_run=_partly_run(),
        has_verdicts=verdicts is not None,
    )
    path = Path(folder) / "report.html"
    write_atomic(path, page)
    return path


def _other_verdicts(profile: str) -> dict[str, pd.DataFrame]:
    """The committed verdicts of the other profiles that have any."""
    return {name: measured_claims(name) for name in measured_profiles() if name != profile}


def _partly_run() -> dict[str, str]:
    """The sections on profiles of which a part was run, by their names."""
    sections = {name: coverage_section(name) for name in measured_profiles()}
    return {name: section for name, section in sections.items() if section}


def _together(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    filled = [frame for frame in frames if len(frame)]
    return pd.concat(filled, ignore_index=True) if filled else frames[0]


def _entry(
    item: Item, numbers: pd.DataFrame, runs: pd.DataFrame, profile: str, verdicts: pd.DataFrame | None, compare: bool
) -> dict[str, Any]:
    lines = lines_of(item, numbers)
    about = _claims(item, verdicts)
    picture = light_png(draw(item, lines, profile), _DPI)
    there = [metric for metric in item.metrics if metric in set(lines["metric"]) and item.reads not in _PICTURES_ONLY]
    present = [metric for metric in there if metric not in _FOLDED]
    return {
        "item": item,
        "setting": setting_of(item, profile, lines),
        "picture": base64.b64encode(picture).decode(),
        "alt": _alternative(item, lines, present),
        "measured": measured_table(lines, present),
        "more": measured_table(lines, [metric for metric in there if metric in _FOLDED]),
        "caption": _caption(item, lines, profile, present),
        "not_run": item.not_run(profile),
        "printed": printed_tables(item, lines),
        "claims": about,
        "tally": _tally(about),
        "files": _files(item),
        "doubts": _doubts(item),
        "agreement": _agreement(lines, profile) if compare else "",
        "origin": provenance(item, lines, runs, profile),
    }


def _caption(item: Item, lines: pd.DataFrame, profile: str, metrics: Sequence[str]) -> str:
    if not metrics:
        return ""
    if item.reads == "manifests":
        return "Counted from the manifests of the data sets, not from a run"
    when = {"rounds": ", after the last round", "first": ", first label phase", "labels": ", after the last round",
            "pseudo_labels": ", in the last round"}  # fmt: skip
    seeds = seeds_text(lines, metrics[0])
    return f"Measured here: {setting_of(item, profile, lines).short}; mean ± std, {seeds}{when.get(item.reads, '')}"


def _totals(items: Sequence[Item], numbers: pd.DataFrame, runs: pd.DataFrame) -> dict[str, Any]:
    behind = runs[runs["key"].isin(set(numbers["key"]))].drop_duplicates("key")
    return {
        "items": len(items),
        "runs": len(behind),
        "minutes": f"{behind['seconds'].sum() / 60:.1f}",
        "hardware": order(behind["hardware"]),
    }


def _alternative(item: Item, lines: pd.DataFrame, metrics: Sequence[str]) -> str:
    if not metrics:
        return f"{item.title}. {item.question}"
    cells = summary(lines, metrics[0])
    texts = [f"{cell['series']}, {cell['column']}: {mean_std(cell['mean'], cell['std'], metrics[0])}"
             for cell in cells.to_dict("records")]  # fmt: skip
    if len(texts) > _TOLD_UP_TO:  # more than one listens to: the two ends
        texts = [f"lowest {texts[cells['mean'].argmin()]}", f"highest {texts[cells['mean'].argmax()]}"]
    return f"{item.title}: {metric_name(metrics[0], item.id)}. {'; '.join(texts)}."


def _claims(item: Item, verdicts: pd.DataFrame | None) -> list[dict[Hashable, Any]]:
    if verdicts is None:
        return []
    return verdicts[verdicts["number"].isin(claims_about(item))].to_dict("records")


def _tally(about: Sequence[Mapping[Hashable, Any]]) -> list[tuple[str, int]]:
    counts = Counter(str(line["verdict"]) for line in about)
    return [(verdict, counts[verdict]) for verdict in SYMBOLS if counts[verdict]]


def _files(item: Item) -> list[str]:
    kinds = ["pdf", "png", "csv", "json", *(["tex"] if item.reads in TABLES else [])]
    return [f"{item.id}.{kind}" for kind in kinds]


def _doubts(item: Item) -> list[str]:
    paper = item.id.split("_")[0]
    if item.source not in set(claims(paper)["item"]):
        return []
    table_of_paper = claims(paper, item.source)
    doubtful = table_of_paper[table_of_paper["flag"] != ""]
    texts: dict[str, list[str]] = {}
    for line in doubtful.to_dict("records"):
        texts.setdefault(line["flag"], []).append(f"{line['dataset']} {line['value']}")
    return [f"{', '.join(cells)}: {flag}" for flag, cells in texts.items()]


def _agreement(lines: pd.DataFrame, profile: str) -> str:
    if lines.empty:
        return ""
    try:
        committed = measured(profile)
    except FedCoPLError:
        return ""
    found = against_committed(lines, committed[committed["item"].isin(set(lines["item"]))])
    counts = {str(verdict): int(n) for verdict, n in found["verdict"].value_counts().items()}
    parts = [f"{counts[verdict]} {verdict}" for verdict in
             ("exact", "within tolerance", "differs", "no common value", "only fresh", "only committed")
             if verdict in counts]  # fmt: skip
    return f"{len(found)} cells against the committed numbers: {', '.join(parts)}"
