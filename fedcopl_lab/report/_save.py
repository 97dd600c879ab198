"""An item's files: picture, numbers, LaTeX and where they come from; and any figure as a file for a paper."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from fedcopl_lab._errors import FedCoPLError, check_columns, did_you_mean
from fedcopl_lab._files import to_json, write_atomic
from fedcopl_lab.paper import Item, differences, measured
from fedcopl_lab.report._draw import draw
from fedcopl_lab.report._page_tables import CLEAR
from fedcopl_lab.report._tables import seeds_text, to_csv, to_latex
from fedcopl_lab.report._words import TABLES, comparable, item_of, lines_of, metric_name, paper_of, setting_of
from fedcopl_lab.report.looks import Sheet, file_bytes

PICTURES, _TEXTS = ("pdf", "svg", "png"), ("tex", "csv", "txt")
_RUN_COLUMNS = ("key", "profile", "dataset", "clip", "seed", "hardware", "packages")
_AUTHOR = Sheet(heading=False, paper=False)


def save_item(
    item: Item | str, numbers: pd.DataFrame, runs: pd.DataFrame, folder: Path | str, profile: str = "smoke",
    pictures: Sequence[str] = ("pdf", "png"),
) -> list[Path]:  # fmt: skip
    """Write an item's files: for a paper those of :func:`save`, for the screen a PNG, and where all comes from.

    The PNG is the report's picture with what the paper prints beside it, ``.json`` the :func:`provenance`. The same
    numbers and runs give the same bytes; every file is there whole or not at all.

    Args:
        item: the item or its id.
        numbers: tidy numbers; lines of other items are left out. Empty for the overview diagram.
        runs: the runs behind them, as :func:`fedcopl_lab.paper.run_table` gives them.
        folder: where to write; made when missing.
        profile: whose numbers they are.
        pictures: kinds of picture files, of ``"pdf"``, ``"png"`` and ``"svg"``.

    Returns:
        The files written.

    Raises:
        FedCoPLError: numbers without their runs, or a folder that cannot be written.

    >>> save_item("fedcopl_main_table6", measured("smoke"), lab.paper.measured_runs("smoke"), "figures", pictures=())
    [PosixPath('figures/fedcopl_main_table6.json'), ...]

    Shown in every notebook.
    """
    item, folder = item_of(item), Path(folder)
    lines = _lines(item, numbers, profile)
    contents: dict[str, bytes | str] = {"json": to_json(provenance(item, lines, runs, profile))}
    if "png" in pictures:
        contents["png"] = file_bytes(draw(item, lines, profile), "png")
    wanted = [kind for kind in pictures if kind != "png"]
    wanted += ["txt"] * bool(pictures) + ["csv"] * bool(len(lines)) + ["tex"] * (item.reads in TABLES)
    contents |= _contents(item, lines, profile, wanted, _AUTHOR)
    return _write({folder / file_name(item.id, kind): content for kind, content in contents.items()})


def save(
    what: Figure | Item | str,
    to: Path | str,
    formats: Sequence[str] = (),
    numbers: pd.DataFrame | None = None,
    profile: str = "smoke",
    *,
    width: str = "double",
    font: str = "sans",
    heading: bool = False,
    paper: bool = False,
) -> list[Path]:
    """Write an item or a figure for a paper: laid out for its column, fonts embedded, a caption in a file of its own.

    A table is typeset as text between three rules; :func:`draw` shows it as dots. The same numbers give the same bytes.

    Args:
        what: an item or its id, whose numbers are drawn, or a figure, such as :func:`draw` gives.
        to: the file, such as ``"paper/table1.pdf"``, or its name without an ending; its folder is made when missing.
        formats: of ``"pdf"``, ``"svg"``, ``"png"`` and, for an item, ``"tex"`` (tables only), ``"csv"`` and ``"txt"``
            (the caption, which comes with every picture of an item). Default: the ending of ``to``, else PDF.
        numbers: an item's tidy numbers; None takes the committed ones of the profile, as far as they can be compared.
        profile: whose numbers they are.
        width: ``"single"`` (3.25 in, one column) or ``"double"`` (6.75 in, both), with letters of the same size.
        font: ``"sans"`` (DejaVu Sans) or ``"serif"`` (STIX, which goes with Times).
        heading: whether a line in the picture says what was measured; else the caption alone does.
        paper: whether what the paper prints stands beside it.

    Returns:
        The files written.

    Raises:
        FedCoPLError: an unknown item, format, width or font, an ending that is not among the formats, LaTeX of what
            is no table, a layout for a figure that is drawn already, or a folder that cannot be written.

    >>> lab.report.save("fedcopl_main_table1", "paper/table1", ("pdf", "tex"), width="single")
    [PosixPath('paper/table1.pdf'), PosixPath('paper/table1.tex'), PosixPath('paper/table1.caption.txt')]

    Shown in notebook ``00_quickstart``.
    """
    path, wanted = _formats(Path(to), formats)
    page = Sheet(width, font, heading, paper)
    if isinstance(what, Figure):
        if texts := [kind for kind in wanted if kind not in PICTURES]:
            raise FedCoPLError(f"a figure has no numbers for .{texts[0]}; pass the item or its id instead")
        if page != _AUTHOR:
            raise FedCoPLError("a figure keeps the layout that it was drawn with; pass the item or its id instead")
        contents: dict[str, bytes | str] = {kind: file_bytes(what, kind) for kind in wanted}
    else:
        item = item_of(what)
        lines = comparable(item, measured(profile, item.id), profile) if numbers is None else numbers
        if "txt" not in wanted and set(wanted) & set(PICTURES):
            wanted = (*wanted, "txt")
        contents = _contents(item, _lines(item, lines, profile), profile, wanted, page)
    return _write({path.with_name(file_name(path.name, kind)): contents[kind] for kind in wanted})


def file_name(name: str, kind: str) -> str:
    """Of a file of that kind; a caption is text and says so."""
    return f"{name}.caption.txt" if kind == "txt" else f"{name}.{kind}"


def _formats(path: Path, formats: Sequence[str]) -> tuple[Path, tuple[str, ...]]:
    """The file without its ending, and the formats to write."""
    known = (*PICTURES, *_TEXTS)
    ending = path.suffix.removeprefix(".")
    if ending in known:
        path = path.with_suffix("")
        if formats and tuple(formats) != (ending,):
            raise FedCoPLError(f"{path.name}.{ending} ends in .{ending} but formats={tuple(formats)}; "
                               "leave one of them out")  # fmt: skip
        formats = (ending,)
    if unknown := [kind for kind in formats if kind not in known]:
        raise FedCoPLError(f"format {unknown[0]!r} cannot be written{did_you_mean(unknown[0], known)}; "
                           f"known: {', '.join(known)}")  # fmt: skip
    return path, tuple(dict.fromkeys(formats or ("pdf",)))


def _contents(
    item: Item, lines: pd.DataFrame, profile: str, wanted: Sequence[str], page: Sheet
) -> dict[str, bytes | str]:
    """An item's files by kind; its picture is drawn once."""
    made: dict[str, bytes | str] = {}
    if set(wanted) & {*PICTURES, "txt"}:
        figure = draw(item, lines, profile, page, typeset=True)
        made |= {kind: file_bytes(figure, kind) for kind in wanted if kind in PICTURES}
        made["txt"] = _caption(item, lines, profile, getattr(figure, "words", ""))
    if "csv" in wanted:
        made["csv"] = to_csv(lines)
    if "tex" in wanted:
        if item.reads not in TABLES:
            raise FedCoPLError(f"{item.id} is no table and has no LaTeX; choose of {', '.join(PICTURES)} and csv")
        made["tex"] = _latex(item, lines, profile)
    return {kind: made[kind] for kind in wanted}


def _caption(item: Item, lines: pd.DataFrame, profile: str, words: str) -> str:
    """What stands under the picture in a paper: what it shows, of which runs, and what its marks are."""
    told = [f"{item.title} ({paper_of(item)}, {'not in the paper' if item.beyond else item.source}).", words]
    if len(lines) and item.reads != "manifests":
        seeds = sorted({int(seed) for seed in lines["seed"]})
        counts = sorted(set(lines.groupby(["series", "column"])["seed"].nunique()))
        told += [
            f"Profile: {profile}. Seeds: {', '.join(map(str, seeds))}. "
            f"n = {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} runs a cell, one for each seed.",
            "±: standard deviation over seeds (n − 1). A band: from the lowest to the highest seed. "
            "An interval in brackets: 95 % t-interval of the mean difference, paired by seed.",
        ]
    told += [f"Differs from the paper: {sentence}" for sentence in differences(item, profile)]
    return "\n".join(filter(None, told)) + "\n"


def _latex(item: Item, lines: pd.DataFrame, profile: str) -> str:
    metric, methods = item.metric, item.drawing == "dots"
    seeds = seeds_text(lines)
    told = [metric_name(metric, item), setting_of(item, profile, lines).short, f"mean ± std over {seeds}", "%"]
    if methods:
        told.append(f"bold: {CLEAR}")
        told += [f"{row}, which all others are read against, is left out" for row in item.references
                 if row in set(lines["series"])]  # fmt: skip
    told += ["without ±: a single run"] * seeds.startswith("1 to ")
    caption = f"{item.title} ({'; '.join(told)})."
    return to_latex(lines, metric, caption, f"tab:{item.id}", marked=methods, corner=item.axis)


def _lines(item: Item, numbers: pd.DataFrame, profile: str) -> pd.DataFrame:
    if item.reads == "nothing":
        return numbers[numbers["item"] == item.id]
    return lines_of(item, numbers, profile, item.metrics[:1])


def _write(contents: Mapping[Path, bytes | str]) -> list[Path]:
    for path, content in contents.items():
        write_atomic(path, content)
    return list(contents)


def provenance(item: Item | str, numbers: pd.DataFrame, runs: pd.DataFrame, profile: str) -> dict[str, object]:
    """Everything a reader needs to know about an item's numbers, as plain values; no times, which differ each time.

    Raises:
        FedCoPLError: a number's run is not among ``runs``.
    """
    item = item_of(item)
    check_columns("runs", _RUN_COLUMNS, runs, "pass what run_table() or measured_runs() gives")
    keys = sorted(set(numbers["key"].dropna()) - {""})  # counts from the manifests come from no run
    behind = runs[runs["key"].isin(keys)]
    unknown = sorted(set(keys) - set(behind["key"]))
    if unknown:
        raise FedCoPLError(f"{len(unknown)} runs behind {item.id} are not in the run table, such as {unknown[0]}; "
                           "collect both again")  # fmt: skip
    computed_here = {}
    if "origin" in numbers:
        here = numbers.loc[numbers["origin"] == "computed here", "key"]
        computed_here = {"computed_here": sorted(set(here.dropna()) - {""})}
    return {
        "item": item.id, "source": item.source, "title": item.title, "question": item.question,
        "metrics": {name: metric_name(name, item) for name in sorted(set(numbers["metric"]))},
        "differs_from_the_paper": list(differences(item, profile)),
        "notebook": f"notebooks/{item.notebook}.ipynb",
        "command": f"fedcopl-lab reproduce --items {item.id}" + ("" if profile == "smoke" else f" --profile {profile}"),
        "profile": profile, "dataset": sorted(set(behind["dataset"])), "weights": sorted(set(behind["clip"])),
        "seeds": sorted({int(seed) for seed in numbers["seed"]}) if keys else [],
        "n_runs": len(keys), "run_keys": keys, **computed_here,
        "hardware": sorted(set(behind["hardware"])), "packages": sorted(set(behind["packages"])),
    }  # fmt: skip
