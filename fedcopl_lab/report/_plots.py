"""One small drawing function per table or figure; all take tidy numbers and return a figure."""

from collections.abc import Callable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.paper import Drawing, Item
from fedcopl_lab.report._curves import MEAN_AND_BAND, curve, headline
from fedcopl_lab.report._diagram import overview
from fedcopl_lab.report._dots import table_dots
from fedcopl_lab.report._lines import lines_picture
from fedcopl_lab.report._sage_confidence import confidences_picture, thresholds_picture
from fedcopl_lab.report._sage_convergence import curves_picture, reached_picture
from fedcopl_lab.report._sage_kappa import decay_picture, kappa_picture
from fedcopl_lab.report._sage_rounds import rounds_picture
from fedcopl_lab.report._sage_theory import theory_picture
from fedcopl_lab.report._skew import label_skew
from fedcopl_lab.report._spread import spread
from fedcopl_lab.report._statistics import statistics
from fedcopl_lab.report._style import BLUE, DOUBLE, ORANGE, QUIET, Look, legend_handle, new_figure, percent_axis, style
from fedcopl_lab.report._surface import surface
from fedcopl_lab.report._sweeps import sweep
from fedcopl_lab.report._traffic import traffic
from fedcopl_lab.report._two_skews import two_skews
from fedcopl_lab.report._uploads_picture import uploads
from fedcopl_lab.report._words import item_of, lines_of, order, setting_of


def draw(item_id: Item | str, numbers: pd.DataFrame | None = None, profile: str = "smoke") -> Figure:
    """The picture of one table or figure.

    Args:
        item_id: such as ``"fedcopl_main_table1"``, or the item itself.
        numbers: tidy numbers as :func:`fedcopl_lab.paper.collect` or :func:`fedcopl_lab.paper.measured` give
            them; lines of other items are left out. None only for the overview diagram.
        profile: whose numbers they are; stands in the picture.

    Raises:
        FedCoPLError: an unknown item, or numbers that do not belong to it.

    >>> draw("fedcopl_main_fig2", measured("smoke"))

    Shown in every notebook.
    """
    item = item_of(item_id)
    with style():
        if item.drawing == "overview":
            return overview()
        if item.drawing == "decay":
            return decay_picture()
        if numbers is None:
            raise FedCoPLError(f"{item.id} cannot be drawn without numbers; pass measured({profile!r}) or collect(…)")
        return _DRAWINGS[item.drawing](item, lines_of(item, numbers, item.metrics[:1]), profile)


def _drift(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    figure = new_figure(DOUBLE, 2.75)
    panels = figure.subplots(1, 2)
    clients = setting_of(item, profile).clients
    for axes, kind, name in zip(panels, ("drift", "cosine"), ("drift diversity ξ", "cosine distance"), strict=True):
        for series in order(lines["series"]):
            for prompt in ("text", "visual"):
                part = lines[(lines["series"] == series) & (lines["metric"] == f"{kind}_{prompt}")]
                curve(axes, part, _prompt_look(prompt, series == "both averaged"), 1.0)
        axes.set_ylabel(name)
        _round_axis(axes, lines)
    references = {1 / clients: f"all equal\n(1/K = {1 / clients:g})", 1.0: "orthogonal\n(ξ = 1)"}
    for height, text in references.items():
        panels[0].axhline(height, color=QUIET, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
        panels[0].annotate(text, (1, height), (3, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                           fontsize=6.5, color=QUIET, va="center")  # fmt: skip
    panels[0].set_ylim(bottom=0)
    panels[1].set_ylim(bottom=0)
    handles = [
        legend_handle(f"{prompt} prompt, {'both averaged' if together else 'FedCoPL'}", _prompt_look(prompt, together))
        for together in (False, True)
        for prompt in ("text", "visual")
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, columnspacing=1.0, handlelength=1.8)
    headline(figure, item, lines, profile, "cosine_text", MEAN_AND_BAND)
    return figure


def _labels(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    part = lines[lines["metric"] == "label_accuracy"]
    columns, names = order(part["column"]), order(part["series"])
    figure = new_figure(DOUBLE, 2.6)
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    looks = dict(zip(names, (Look(BLUE, "o"), Look(ORANGE, "s", "--", hollow=True)), strict=False))
    for axes, column in zip(panels, columns, strict=True):
        for name in names:
            curve(axes, part[(part["column"] == column) & (part["series"] == name)], looks[name], 100.0, steps=True)
        axes.set_title(column)
        _round_axis(axes, part)
    panels[0].set_ylabel("pseudo-label accuracy (%)")
    handles = [legend_handle(name, look) for name, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(names))
    headline(figure, item, lines, profile, "label_accuracy", MEAN_AND_BAND)
    return figure


def _skew(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    panels = {}
    for column in order(lines["column"]):
        part = lines[(lines["column"] == column) & (lines["seed"] == lines["seed"].min())]
        wide = part.pivot_table(index="y", columns="x", values="value", fill_value=0)
        panels[column] = wide.to_numpy().round().astype(int)
    figure = label_skew(panels)
    words = f"{setting_of(item, profile, lines).short}; number and area: training images; seed {lines['seed'].min()}"
    figure.suptitle(words, fontsize=7, color=QUIET)
    return figure


def _prompt_look(prompt: str, together: bool) -> Look:
    color, marker = (ORANGE, "s") if prompt == "text" else (BLUE, "o")
    return Look(color, marker, "--" if together else "-", hollow=together)


def _round_axis(axes: Axes, lines: pd.DataFrame) -> None:
    rounds = sorted(set(lines["x"].astype(int)))
    axes.set_xticks(rounds if len(rounds) <= 10 else [r for r in rounds if r % 5 == 0 or r == rounds[0]])
    axes.set_xlabel("round")
    percent_axis(axes)


_DRAWINGS: dict[Drawing, Callable[[Item, pd.DataFrame, str], Figure]] = {
    "dots": table_dots,
    "drift": _drift,
    "labels": _labels,
    "lines": lines_picture,
    "skew": _skew,
    "spread": spread,
    "statistics": statistics,
    "surface": surface,
    "sweep": sweep,
    "traffic": traffic,
    "uploads": uploads,
    "confidences": confidences_picture,
    "thresholds": thresholds_picture,
    "rounds": rounds_picture,
    "curves": curves_picture,
    "reached": reached_picture,
    "kappa": kappa_picture,
    "two_skews": two_skews,
    "theory": theory_picture,
}
