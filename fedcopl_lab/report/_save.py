"""An item's files: picture, numbers, LaTeX and where they come from; and any figure as a file for a paper."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import to_json, write_atomic
from fedcopl_lab.config import did_you_mean
from fedcopl_lab.paper import Item, differences, measured
from fedcopl_lab.report._draw import draw
from fedcopl_lab.report._tables import seeds_text, to_csv, to_latex
from fedcopl_lab.report._words import item_of, lines_of, metric_name, setting_of
from fedcopl_lab.report.looks import DOUBLE, SINGLE, file_bytes

PICTURES, _TEXTS = ("pdf", "svg", "png"), ("tex", "csv")
WIDTHS = {"single": SINGLE, "double": DOUBLE}
TABLES = ("final", "first")
"""What an item reads of its runs when it is a table of one value a cell."""

_RUN_COLUMNS = ("key", "profile", "dataset", "clip", "seed", "hardware", "packages")


def save_item(
    item: Item | str,
    numbers: pd.DataFrame,
    runs: pd.DataFrame,
    folder: Path | str,
    profile: str = "smoke",
    pictures: Sequence[str] = ("pdf", "png"),
) -> list[Path]:
    """Write ``<id>.pdf``, ``.png``, ``.csv``, ``.tex`` (tables) and ``.json`` (where it comes from).

    The same numbers and runs give the same bytes; every file is there whole or not at all.

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
    figure = draw(item, lines, profile)
    contents: dict[str, bytes | str] = {kind: file_bytes(figure, kind) for kind in pictures}
    contents["json"] = to_json(provenance(item, lines, runs, profile))
    if len(lines):
        contents["csv"] = to_csv(lines)
    if item.reads in TABLES:
        contents["tex"] = _latex(item, lines, profile)
    return _write({folder / f"{item.id}.{kind}": content for kind, content in contents.items()})


def save(
    what: Figure | Item | str,
    to: Path | str,
    kinds: Sequence[str] = (),
    numbers: pd.DataFrame | None = None,
    profile: str = "smoke",
    width: str | None = None,
) -> list[Path]:
    """Write a figure or an item for a paper: vector or pixels, fonts embedded, LaTeX for tables.

    The same picture gives the same bytes each time: no date, no version, no random name is in a file.

    Args:
        what: a figure, such as :func:`draw` gives, or an item or its id, whose numbers are drawn.
        to: the file, such as ``"paper/table1.pdf"``; its folder is made when missing. Without an ending, one file
            of each kind.
        kinds: of ``"pdf"``, ``"svg"``, ``"png"`` and, for an item, ``"tex"`` (tables only) and ``"csv"``. None
            given: the ending of ``to``, else PDF.
        numbers: an item's tidy numbers; None takes the committed ones of the profile.
        profile: whose numbers they are.
        width: ``"single"`` (3.25 in, one column) or ``"double"`` (6.75 in, both) lays a figure out again at that
            width, with letters of the same size; None leaves it as it was drawn. Items are drawn for both columns.

    Returns:
        The files written.

    Raises:
        FedCoPLError: an unknown item, kind or width, an ending that is not among the kinds, LaTeX of what is no
            table, or a folder that cannot be written.

    >>> lab.report.save("fedcopl_main_table1", "paper/table1", ("pdf", "tex"))
    [PosixPath('paper/table1.pdf'), PosixPath('paper/table1.tex')]

    Shown in notebook ``00_quickstart``.
    """
    path, wanted = _kinds(Path(to), kinds)
    if isinstance(what, Figure):
        contents = dict(_pictures(what, wanted, width))
    else:
        item = item_of(what)
        lines = _lines(item, measured(profile) if numbers is None else numbers, profile)
        contents = {}
        if texts := [kind for kind in wanted if kind not in PICTURES]:
            contents |= {kind: _text(kind, item, lines, profile) for kind in texts}
        if pictures := [kind for kind in wanted if kind in PICTURES]:
            contents |= _pictures(draw(item, lines, profile), pictures, width)
    return _write({path.with_name(f"{path.name}.{kind}"): contents[kind] for kind in wanted})


def _kinds(path: Path, kinds: Sequence[str]) -> tuple[Path, tuple[str, ...]]:
    """The file without its ending, and the kinds to write."""
    known = (*PICTURES, *_TEXTS)
    ending = path.suffix.removeprefix(".")
    if ending in known:
        path = path.with_suffix("")
        if kinds and tuple(kinds) != (ending,):
            raise FedCoPLError(
                f"{path.name}.{ending} ends in .{ending} but kinds={tuple(kinds)}; leave one of them out"
            )
        kinds = (ending,)
    unknown = [kind for kind in kinds if kind not in known]
    if unknown:
        raise FedCoPLError(f"kind {unknown[0]!r} cannot be written{did_you_mean(unknown[0], known)}; "
                           f"known: {', '.join(known)}")  # fmt: skip
    return path, tuple(dict.fromkeys(kinds or ("pdf",)))


def _pictures(figure: Figure, kinds: Sequence[str], width: str | None) -> dict[str, bytes | str]:
    texts = [kind for kind in kinds if kind not in PICTURES]
    if texts:
        raise FedCoPLError(f"a figure has no numbers for .{texts[0]}; pass the item or its id instead")
    if width is not None and width not in WIDTHS:
        raise FedCoPLError(f"width={width!r} is not valid; expected one of {', '.join(WIDTHS)}, or None")
    before = figure.get_size_inches()
    try:
        if width is not None:
            figure.set_size_inches(WIDTHS[width], before[1] * WIDTHS[width] / before[0])
        return {kind: file_bytes(figure, kind) for kind in kinds}
    finally:
        figure.set_size_inches(*before)


def _text(kind: str, item: Item, lines: pd.DataFrame, profile: str) -> str:
    if kind == "csv":
        return to_csv(lines)
    if item.reads not in TABLES:
        raise FedCoPLError(f"{item.id} is no table and has no LaTeX; choose of {', '.join(PICTURES)} and csv")
    return _latex(item, lines, profile)


def _latex(item: Item, lines: pd.DataFrame, profile: str) -> str:
    metric, methods = item.metrics[0], item.drawing == "dots"
    seeds = seeds_text(lines)
    told = [metric_name(metric, item), setting_of(item, profile, lines).short, f"mean ± std over {seeds}", "%"]
    if methods:
        told.append("bold: largest mean, underlined: second, whatever their spread")
    if " to " in seeds:
        told.append("without ±: a single run")
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
    missing = [column for column in _RUN_COLUMNS if column not in runs.columns]
    if missing:
        raise FedCoPLError(
            f"the runs lack the columns {', '.join(missing)}; pass what run_table() or measured_runs() gives"
        )
    keys = sorted(set(numbers["key"].dropna()) - {""})  # counts from the manifests come from no run
    behind = runs[runs["key"].isin(keys)]
    unknown = sorted(set(keys) - set(behind["key"]))
    if unknown:
        raise FedCoPLError(
            f"{len(unknown)} runs behind {item.id} are not in the run table, such as {unknown[0]}; collect both again"
        )
    return {
        "item": item.id,
        "source": item.source,
        "title": item.title,
        "question": item.question,
        "metrics": {name: metric_name(name, item) for name in sorted(set(numbers["metric"]))},
        "differs_from_the_paper": list(differences(item, profile)),
        "notebook": f"notebooks/{item.notebook}.ipynb",
        "command": f"fedcopl-lab reproduce --items {item.id}" + ("" if profile == "smoke" else f" --profile {profile}"),
        "profile": profile,
        "dataset": sorted(set(behind["dataset"])),
        "weights": sorted(set(behind["clip"])),
        "seeds": sorted({int(seed) for seed in numbers["seed"]}) if keys else [],
        "n_runs": len(keys),
        "run_keys": keys,
        "hardware": sorted(set(behind["hardware"])),
        "packages": sorted(set(behind["packages"])),
    }
