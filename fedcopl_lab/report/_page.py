"""The report: one HTML file that needs nothing but a browser."""

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FunctionLoader, StrictUndefined
from matplotlib.figure import Figure

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import write_atomic
from fedcopl_lab.paper import (
    ITEMS,
    Item,
    claims,
    claims_about,
    discrepancies,
    has_runs,
    measured,
    measured_claims,
    measured_profiles,
    measured_runs,
)
from fedcopl_lab.report._claims import SYMBOLS, claim_tables
from fedcopl_lab.report._compare import against_committed
from fedcopl_lab.report._draw import draw
from fedcopl_lab.report._overview import coverage
from fedcopl_lab.report._page_tables import main_table, measured_table, printed_tables
from fedcopl_lab.report._save import TABLES, provenance, save_item
from fedcopl_lab.report._tables import seeds_text, summary
from fedcopl_lab.report._words import (
    PAPERS,
    Setting,
    cells_of,
    item_of,
    lines_of,
    mean_std,
    metric_name,
    order,
    paper_of,
    setting_of,
)
from fedcopl_lab.report.looks import light_png

_DPI = 180
_TOLD_UP_TO = 20  # values in a picture's alternative text
_PICTURES_ONLY = ("split", "confidences", "theory")  # reads of many values per run: a picture and a CSV tell them
_FOLDED = ("accuracy_sample_mean", "accuracy_global", "n_selected")  # measures a reader asks for second
_MAIN = {"FedCoPL": "fedcopl_main_table1", "SAGE": "sage_main_table1"}
_WHEN = {"rounds": ", after the last round", "first": ", first label phase", "labels": ", after the last round",
         "pseudo_labels": ", in the last round"}  # fmt: skip


def render(template: str, **page: Any) -> str:
    """A template of this folder as HTML; every value is escaped, and a name that is missing is an error."""
    folder = resources.files("fedcopl_lab.report")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8")),
    )  # fmt: skip
    environment.globals |= {"symbols": SYMBOLS}
    return environment.get_template(template).render(page)


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

    The file is self-contained and has no date and no measured time in it: the same numbers give the same bytes.

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

    >>> write_report("figures", lab.paper.find_items(["main Table 6"]), measured("smoke"), measured_runs("smoke")).name
    'report.html'

    Shown in notebook ``00_quickstart``.
    """
    if not items:
        raise FedCoPLError("there is no item to report; pass at least one, such as find_items()")
    if not isinstance(numbers, pd.DataFrame):
        frames = list(numbers.values())
        numbers = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
    entries = [_entry(item, numbers, runs, profile, verdicts, compare) for item in items]
    papers = {
        name: [entry for entry in entries if entry["paper"] == name] for name in order(e["paper"] for e in entries)
    }
    profiles = measured_profiles()
    tables = {name: coverage(name) for name in profiles}
    others = {name: measured_claims(name) for name in profiles if name != profile}
    settings = [entry["setting"] for entry in entries]
    page = render(
        "page.html.j2",
        profile=profile,
        setting=next((setting for setting in settings if setting.dataset), Setting(profile, "", "", 0)),
        papers=papers,
        heads=_heads(items, numbers, profile, verdicts),
        totals=_totals(numbers, runs, profile),
        claims=[] if verdicts is None else claim_tables(verdicts, others),
        discrepancies=discrepancies().to_dict("records"),
        partly_run={name: table.to_dict("records") for name, table in tables.items() if table["not_run"].any()},
        has_verdicts=verdicts is not None,
    )
    path = Path(folder) / "report.html"
    write_atomic(path, page)
    return path


def _entry(
    item: Item, numbers: pd.DataFrame, runs: pd.DataFrame, profile: str, verdicts: pd.DataFrame | None, compare: bool
) -> dict[str, Any]:
    """What the page says of one item."""
    lines = lines_of(item, numbers, profile)
    about = [] if verdicts is None else verdicts[verdicts["number"].isin(claims_about(item))].to_dict("records")
    counts = Counter(str(line["verdict"]) for line in about)
    there = [metric for metric in item.metrics if metric in set(lines["metric"]) and item.reads not in _PICTURES_ONLY]
    present = [metric for metric in there if metric not in _FOLDED]
    return {
        "item": item,
        "paper": paper_of(item),
        "setting": setting_of(item, profile, lines),
        "picture": base64.b64encode(light_png(draw(item, lines, profile), _DPI)).decode(),
        "alt": _alternative(item, lines, present),
        "measured": measured_table(item, lines, present),
        "more": measured_table(item, lines, [metric for metric in there if metric in _FOLDED]),
        "caption": _caption(item, lines, profile) if present else "",
        "not_run": item.not_run(profile),
        "printed": printed_tables(item, lines),
        "claims": about,
        "tally": [(verdict, counts[verdict]) for verdict in SYMBOLS if counts[verdict]],
        "files": [f"{item.id}.{kind}" for kind in ("pdf", "png", "csv", "json", "tex")
                  if kind != "tex" or item.reads in TABLES],
        "doubts": _doubts(item),
        "agreement": _agreement(lines, profile) if compare and len(lines) else "",
        "origin": provenance(item, lines, runs, profile),
    }  # fmt: skip


def _caption(item: Item, lines: pd.DataFrame, profile: str) -> str:
    if item.reads == "manifests":
        return "Counted from the manifests of the data sets, not from a run"
    where = setting_of(item, profile, lines).short
    return f"Measured here: {where}; mean ± std, {seeds_text(lines)}{_WHEN.get(item.reads, '')}"


def _totals(numbers: pd.DataFrame, runs: pd.DataFrame, profile: str) -> dict[str, Any]:
    """Runs behind the page, and what they took when they were committed: a page made again has the same bytes."""
    behind = runs[runs["key"].isin(set(numbers["key"]))].drop_duplicates("key")
    known = measured_runs(profile) if profile in measured_profiles() else runs.head(0)
    minutes = known.loc[known["key"].isin(behind["key"]), "seconds"].sum() / 60
    return {"runs": len(behind), "minutes": f"{minutes:.1f}", "hardware": order(behind["hardware"])}


def _alternative(item: Item, lines: pd.DataFrame, metrics: Sequence[str]) -> str:
    """The picture in words, for those who cannot see it."""
    if not metrics:
        return f"{item.title}. {item.question}"
    cells = summary(lines, metrics[0])
    texts = [f"{cell['series']}, {cell['column']}: {mean_std(cell['mean'], cell['std'], metrics[0])}"
             for cell in cells.to_dict("records")]  # fmt: skip
    if len(texts) > _TOLD_UP_TO:  # more than one listens to: the two ends
        texts = [f"lowest {texts[cells['mean'].argmin()]}", f"highest {texts[cells['mean'].argmax()]}"]
    return f"{item.title}: {metric_name(metrics[0], item)}. {'; '.join(texts)}."


def _doubts(item: Item) -> list[str]:
    paper = item.id.split("_")[0]
    if item.source not in set(claims(paper)["item"]):
        return []
    table = claims(paper, item.source)
    doubtful = table[table["flag"] != ""]
    cells = doubtful["dataset"] + " " + doubtful["value"].astype(str)
    return [f"{', '.join(texts)}: {flag}" for flag, texts in cells.groupby(doubtful["flag"], sort=False)]


def _agreement(lines: pd.DataFrame, profile: str) -> str:
    try:
        committed = measured(profile)
    except FedCoPLError:
        return ""
    found = against_committed(lines, committed[committed["item"].isin(set(lines["item"]))])
    counts = found["verdict"].value_counts()
    kinds = ("exact", "within tolerance", "differs", "no common value", "only fresh", "only committed")
    parts = [f"{counts[verdict]} {verdict}" for verdict in kinds if verdict in counts]
    return f"{len(found)} cells against the committed numbers: {', '.join(parts)}"


def _heads(
    items: Sequence[Item], numbers: pd.DataFrame, profile: str, verdicts: pd.DataFrame | None
) -> list[dict[str, Any]]:
    """The first screen: for each paper its main table in one sentence, and its claims by verdict."""
    by_name = {} if verdicts is None else {table["name"]: table for table in claim_tables(verdicts)}
    cards = []
    for name in (name for name in PAPERS.values() if name in map(paper_of, items)):
        main = next((item for item in items if item.id == _MAIN[name]), None)
        table = by_name.get(name, {"counts": [], "judged": [], "untested": []})
        lines = [*table["judged"], *table["untested"]]
        lists = {verdict: [line for line in lines if line["verdict"] == verdict] for verdict in SYMBOLS}
        cards.append({"name": name, "main": main and main_table(main, numbers, profile), "counts": table["counts"],
                      "lists": [(verdict, some) for verdict, some in lists.items() if some]})  # fmt: skip
    return cards


def write_committed(
    folder: Path | str, profile: str = "mini", items: Sequence[Item] = ITEMS, pictures: Sequence[str] = ("pdf", "png")
) -> Path:
    """Draw the items of which enough is committed to compare, and write ``report.html`` with the committed verdicts.

    Args:
        folder: where to write; made when missing.
        profile: whose committed numbers.
        items: what to draw, as far as it can be drawn.
        pictures: kinds of picture files, of ``"pdf"``, ``"png"`` and ``"svg"``.

    Returns:
        The report.

    Raises:
        FedCoPLError: nothing of these items is committed, or a folder that cannot be written.

    >>> write_committed("figures", "smoke", lab.paper.find_items(["main Table 6"]), pictures=()).name
    'report.html'

    Shown in the README.
    """
    numbers, runs = measured(profile), measured_runs(profile)
    drawn = drawable(items, numbers, profile)
    if not any(map(len, drawn.values())):
        raise FedCoPLError(f"not enough of these items is committed in profile {profile} to draw; see report.coverage")
    for item, lines in drawn.items():
        save_item(item, lines, runs, folder, profile, pictures)
    together, judged = pd.concat(drawn.values()), measured_claims(profile)
    return write_report(folder, list(drawn), together, runs, profile, judged, compare=False)


def draw_committed(item: Item | str, profile: str = "mini") -> Figure:
    """The picture of an item from a profile's committed numbers, without the columns of which one row alone was run.

    Args:
        item: the item, its id or its place in the paper.
        profile: whose committed numbers.

    Raises:
        FedCoPLError: an unknown item, or too little of it is committed to compare.

    >>> draw_committed("sage_main_fig2a")
    <Picture size ...>

    Shown in notebook ``fedcopl_main_fig2``.
    """
    known = item_of(item)
    lines = comparable(known, measured(profile), profile)
    if lines.empty:
        raise FedCoPLError(f"not enough of {known.id} is committed in profile {profile} to draw; see report.coverage")
    return draw(known, lines, profile)


def drawable(items: Sequence[Item], numbers: pd.DataFrame, profile: str) -> dict[Item, pd.DataFrame]:
    """The items of which enough is there to draw them, with their lines; diagrams need none."""
    found = {item: comparable(item, numbers, profile) for item in items if has_runs(item, profile)}
    return {item: lines for item, lines in found.items() if len(lines) or item.reads == "nothing"}


def comparable(item: Item, numbers: pd.DataFrame, profile: str) -> pd.DataFrame:
    """The committed lines of an item that say something without the missing ones; empty where there are none.

    Columns of which one row alone was run are left out, and the whole item where its columns are what is compared
    (a sweep, or more and fewer labels) and fewer than three are there.
    """
    lines = numbers[numbers["item"] == item.id]
    there = cells_of(item, profile, lines)
    if len(there) == len(item.cells(profile)):
        return lines
    rows_of = pd.Series([cell.column for cell in there], dtype=str).value_counts()
    if item.axis or item.drawing == "lines":
        return lines if len(rows_of) >= 3 and item.drawing != "surface" else lines[:0]
    return lines[lines["column"].isin(rows_of.index[rows_of > 1])]
