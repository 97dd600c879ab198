"""The report: one HTML file that needs nothing but a browser."""

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FunctionLoader, StrictUndefined

from fedcopl_lab import paper
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import write_atomic
from fedcopl_lab.config import RunConfig, configure
from fedcopl_lab.paper import Item
from fedcopl_lab.report._claims import SYMBOLS, claim_tables, gate_lines
from fedcopl_lab.report._compare import against_committed, agreement_text
from fedcopl_lab.report._coverage import coverage
from fedcopl_lab.report._draw import draw
from fedcopl_lab.report._page_tables import main_table, measured_table, printed_tables
from fedcopl_lab.report._save import file_name, provenance, save_item
from fedcopl_lab.report._tables import seeds_text, summary
from fedcopl_lab.report._words import (
    PAPERS,
    Setting,
    comparable,
    lines_of,
    mean_std,
    metric_name,
    order,
    paper_of,
    setting_of,
)
from fedcopl_lab.report.looks import Sheet, light_png

_DPI = 180
_TOLD_UP_TO = 20  # values in a picture's alternative text
_PICTURES_ONLY = ("split", "confidences", "theory")  # reads of many values per run: a picture and a CSV tell them
_FOLDED = ("accuracy_sample_mean", "accuracy_global", "n_selected")  # measures a reader asks for second
_KINDS = ("pdf", "png", "svg", "tex", "csv", "txt", "json")
_MAIN = {"FedCoPL": "fedcopl_main_table1", "SAGE": "sage_main_table1"}
_WHEN = {"rounds": ", after the last round", "first": ", first label phase", "labels": ", after the last round",
         "pseudo_labels": ", in the last round"}  # fmt: skip


def render(template: str, **page: Any) -> str:
    """A template of this folder as HTML; every value is escaped, and a name that is missing is an error."""
    return _environment().get_template(template).render(page)


@cache  # as below: the page is written many times
def _environment() -> Environment:
    folder = resources.files("fedcopl_lab.report")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8")),
    )  # fmt: skip
    environment.globals |= {"symbols": SYMBOLS}
    return environment


def write_report(
    folder: Path | str,
    items: Sequence[Item],
    numbers: pd.DataFrame | Mapping[str, pd.DataFrame],
    runs: pd.DataFrame,
    profile: str = "smoke",
    verdicts: pd.DataFrame | None = None,
    *,
    compare: bool = True,
    note: str = "",
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
        compare: say of each item how its numbers agree with the committed ones; of numbers with the column origin,
            those that were computed here.
        note: a sentence for the top of the page.

    Returns:
        The file.

    Raises:
        FedCoPLError: no items, numbers without their runs, or a folder that cannot be written.

    >>> smoke = lab.paper.measured("smoke"), lab.paper.measured_runs("smoke")
    >>> write_report("figures", lab.paper.find_items(["main Table 6"]), *smoke).name
    'report.html'

    Shown in notebook ``00_quickstart``.
    """
    if not items:
        raise FedCoPLError("there is no item to report; pass at least one, such as find_items()")
    if not isinstance(numbers, pd.DataFrame):
        frames = list(numbers.values())
        numbers = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
    folder = Path(folder)
    entries = [_entry(item, numbers, runs, profile, compare) | _about(item, verdicts) | _files(item, folder)
               for item in items]  # fmt: skip
    profiles = paper.measured_profiles()
    tables = {name: _coverage(name) for name in profiles}
    others = {name: paper.measured_claims(name) for name in profiles if name != profile}
    claims = [] if verdicts is None else claim_tables(verdicts, others)
    settings = (entry["setting"] for entry in entries if entry["setting"].dataset)
    differing = order(sentence for item in items for sentence in paper.differences(item, profile))
    papers = {name: [entry for entry in entries if entry["paper"] == name]
              for name in order(entry["paper"] for entry in entries)}  # fmt: skip
    page = render(
        "page.html.j2", profile=profile, note=note, profiles=profiles, has_verdicts=verdicts is not None,
        setting=next(settings, Setting(profile, "", "", 0)),
        papers=papers,
        heads=_heads(papers, claims),
        totals=_totals(numbers, runs, profile),
        claims=claims,
        gates=[] if verdicts is None else _gate_lines(profile),
        discrepancies=paper.discrepancies().to_dict("records"),
        partly_run={name: table.to_dict("records") for name, table in tables.items() if table["not_run"].any()},
        about=[sentence for sentence in differing if sentence.startswith(f"The {profile} ")],
        cells=_sources_of_cells(items, numbers, runs, profile),
        explorer=next((link for link in ("explorer.html", "../explorer.html") if (folder / link).is_file()), ""),
    )  # fmt: skip
    path = folder / "report.html"
    write_atomic(path, page)
    return path


def write_committed(
    folder: Path | str, profile: str = "mini", items: Sequence[Item] = paper.ITEMS,
    pictures: Sequence[str] = ("pdf", "png"),
) -> Path:  # fmt: skip
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

    Called by ``fedcopl-lab reproduce --committed``.
    """
    numbers, runs = paper.measured(profile), paper.measured_runs(profile)
    drawn = drawable(items, numbers, profile)
    if not any(map(len, drawn.values())):
        raise FedCoPLError(f"not enough of these items is committed in profile {profile} to draw; see report.coverage")
    for item, lines in drawn.items():
        save_item(item, lines, runs, folder, profile, pictures)
    together, judged = pd.concat(drawn.values()), paper.measured_claims(profile)
    return write_report(folder, list(drawn), together, runs, profile, judged, compare=False)


def drawable(items: Sequence[Item], numbers: pd.DataFrame, profile: str) -> dict[Item, pd.DataFrame]:
    """The items of which enough is there to draw them, with their lines; diagrams need none."""
    found = {item: comparable(item, numbers, profile) for item in items if paper.has_runs(item, profile)}
    return {item: lines for item, lines in found.items() if len(lines) or item.reads == "nothing"}


_coverage, _gate_lines = cache(coverage), cache(gate_lines)
_drawn: dict[tuple[str, str, bool], tuple[bytes, dict[str, Any]]] = {}


def _entry(item: Item, numbers: pd.DataFrame, runs: pd.DataFrame, profile: str, compare: bool) -> dict[str, Any]:
    """What the page says of one item, drawn again only when its numbers change: the page is written many times."""
    lines = lines_of(item, numbers, profile)
    behind = runs[runs["key"].isin(lines["key"])]
    tables = lines, behind.sort_values("key")  # without their index, which other items' numbers shift
    content, name = "".join(table.to_csv(index=False) for table in tables).encode(), (item.id, profile, compare)
    if _drawn.get(name, (b"", {}))[0] != content:
        _drawn[name] = content, _drawn_entry(item, lines, behind, profile, compare)
    return _drawn[name][1]


def _files(item: Item, folder: Path) -> dict[str, Any]:
    """The item's files that are beside the page."""
    names = [(file_name(item.id, kind), kind) for kind in _KINDS]
    return {"files": [(name, kind) for name, kind in names if (folder / name).is_file()]}


def _about(item: Item, verdicts: pd.DataFrame | None) -> dict[str, Any]:
    about = [] if verdicts is None else verdicts[verdicts["number"].isin(item.claims)].to_dict("records")
    counts = Counter(str(line["verdict"]) for line in about)
    tally = [(verdict, counts[verdict]) for verdict in SYMBOLS if counts[verdict]]
    return {"claims": about, "tally": tally, "failed": counts["does not hold"]}


def _drawn_entry(item: Item, lines: pd.DataFrame, runs: pd.DataFrame, profile: str, compare: bool) -> dict[str, Any]:
    there = [metric for metric in item.metrics if metric in set(lines["metric"]) and item.reads not in _PICTURES_ONLY]
    present = [metric for metric in there if metric not in _FOLDED]
    return {
        "item": item, "paper": paper_of(item), "setting": setting_of(item, profile, lines),
        "picture": _picture(item, lines, profile, Sheet()), "narrow": _picture(item, lines, profile, Sheet("single")),
        "alt": _alternative(item, lines, present), "caption": _caption(item, lines, profile) if present else "",
        "measured": measured_table(item, lines, present), "printed": printed_tables(item, lines),
        "main": main_table(item, lines, profile) if item.id == _MAIN[paper_of(item)] else None,
        "more": measured_table(item, lines, [metric for metric in there if metric in _FOLDED]),
        "not_run": item.not_run(profile),
        "profiles": [name for name in paper.measured_profiles() if len(paper.measured(name, item.id))],
        "verify": f'{_verify_command(profile)} "{item.id} / ROW / COLUMN"',
        "doubts": _doubts(item),
        "agreement": _agreement(lines, profile) if compare and len(lines) else "",
        "origin": provenance(item, lines, runs, profile),
    }  # fmt: skip


def _picture(item: Item, lines: pd.DataFrame, profile: str, drawn_for: Sheet) -> str:
    return base64.b64encode(light_png(draw(item, lines, profile, drawn_for), _DPI)).decode()


def _caption(item: Item, lines: pd.DataFrame, profile: str) -> str:
    if item.reads == "manifests":
        return "Counted from the manifests of the data sets, not from a run"
    where = setting_of(item, profile, lines).short
    return f"Measured here: {where}; mean ± std, {seeds_text(lines)}{_WHEN.get(item.reads, '')}{_origins(lines)}"


def _origins(lines: pd.DataFrame) -> str:
    """Which seeds this machine computed and which are the committed ones, where the numbers say so."""
    if "origin" not in lines:
        return ""
    seeds = lines.drop_duplicates(["series", "column", "seed"]).groupby("origin")["seed"]
    return "".join(f"; {origin}: {len(own)} runs, seeds {', '.join(map(str, sorted(set(own))))}"
                   for origin, own in seeds)  # fmt: skip


def _totals(numbers: pd.DataFrame, runs: pd.DataFrame, profile: str) -> dict[str, Any]:
    """Runs behind the page, and what they took when they were committed: a page made again has the same bytes."""
    behind = runs[runs["key"].isin(set(numbers["key"]))].drop_duplicates("key")
    known = paper.measured_runs(profile) if profile in paper.measured_profiles() else runs.head(0)
    seconds = known.loc[known["key"].isin(behind["key"]), "seconds"]
    minutes, known_all = seconds.sum() / 60, len(seconds) == len(behind)
    time = f"{minutes / 60:.0f} hours" if minutes > 120 else f"{minutes:.1f} minutes"
    return {"runs": len(behind), "time": time if known_all else "", "hardware": order(behind["hardware"])}


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
    name = item.id.split("_")[0]
    if item.source not in set(paper.claims(name)["item"]):
        return []
    table = paper.claims(name, item.source)
    doubtful = table[table["flag"] != ""]
    level = doubtful["method"] + " at " + doubtful["param_value"].astype(str) + " %"  # of what was never reached
    cells = doubtful["dataset"] + " " + level.where(doubtful["value"].astype(str) == "None", doubtful["value"])
    return [f"{', '.join(dict.fromkeys(texts))}: {flag}" for flag, texts in cells.groupby(doubtful["flag"], sort=False)]


def _agreement(lines: pd.DataFrame, profile: str) -> str:
    if profile not in paper.measured_profiles():
        return ""
    found = against_committed(lines, paper.measured(profile, lines["item"].iloc[0]))
    return agreement_text(found) if len(found) else ""


def _heads(papers: Mapping[str, list[dict[str, Any]]], claims: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first screen: for each paper its main table in one sentence, and its claims by verdict."""
    by_name = {table["name"]: table for table in claims}
    cards = []
    for name in (name for name in PAPERS.values() if name in papers):
        main = next((entry["main"] for entry in papers[name] if entry["main"]), None)
        table = by_name.get(name, {"counts": [], "judged": [], "untested": []})
        lines = sorted([*table["judged"], *table["untested"]], key=lambda line: line["number"])
        lists = {verdict: [line for line in lines if line["verdict"] == verdict] for verdict in SYMBOLS}
        cards.append({"name": name, "main": main, "counts": table["counts"],
                      "lists": [(verdict, some) for verdict, some in lists.items() if some]})  # fmt: skip
    return cards


def _verify_command(profile: str) -> str:
    """The command that computes a cell again, without the cell."""
    return "fedcopl-lab verify" + ("" if profile == "smoke" else f" --profile {profile}")


def _sources_of_cells(items: Sequence[Item], numbers: pd.DataFrame, runs: pd.DataFrame, profile: str) -> dict[str, Any]:
    """Where every measured cell comes from, for a click: its settings, runs, seeds, processor and packages."""
    there = numbers.dropna(subset="key").drop_duplicates(["item", "series", "column", "key"])
    keys_of = there.groupby(["item", "series", "column"], sort=False)["key"].agg(list)
    machines, known = list[list[str]](), dict[str, list[int]]()
    for run in runs[runs["key"].isin(there["key"])].to_dict("records"):
        machine = [f"{run['hardware']}, {run.get('threads', 1)} thread(s)", run["packages"]]
        if machine not in machines:
            machines.append(machine)
        known[run["key"]] = [int(run["seed"]), machines.index(machine)]
    cells: dict[str, dict[str, Any]] = {}
    for item in items:
        for cell in item.cells(profile):
            keys = [key for key in keys_of.get((item.id, cell.series, cell.column), ()) if key in known]
            if keys:
                said = {"config": _settings_text(cell.config), "runs": sorted(keys, key=lambda key: known[key][0])}
                cells.setdefault(item.id, {})[f"{cell.series} / {cell.column}"] = said
    return {"cells": cells, "runs": known, "machines": machines, "command": f'{_verify_command(profile)} "CELL"'}


@cache  # the page is written many times
def _settings_text(config: RunConfig) -> str:
    """A configuration as ``fedcopl-lab run`` takes it: what differs from its method's own in the profile."""
    own = configure(config.profile, method=config.method).as_dict()
    changed = {name: value for name, value in config.as_dict().items() if value != own.get(name) and name != "seed"}
    settings = "".join(f" --set {name}={json.dumps(value, ensure_ascii=False)}" for name, value in changed.items())
    return f"fedcopl-lab run --profile {config.profile} --method {config.method}{settings}"
