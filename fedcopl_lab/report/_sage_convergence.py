"""Who learns faster: accuracy over the rounds with the targets, and the rounds to each target."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from fedcopl_lab.paper import Item, printed, reached_table, targets
from fedcopl_lab.report._curves import MEAN_AND_BAND, curve, headline, looks_of
from fedcopl_lab.report._sage_rounds import round_axis
from fedcopl_lab.report._style import DOUBLE, INK, PAPER_TINT, QUIET, Look, legend_handle, new_figure, percent_axis
from fedcopl_lab.report._words import order

_DOTTED = (0, (1, 2))


def curves_picture(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Accuracy over the rounds, one panel for each α; dotted lines at the targets of the tables of rounds."""
    columns, looks = order(lines["column"]), looks_of(order(lines["series"]))
    figure = new_figure(DOUBLE, 3.1)
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        for name, look in looks.items():
            part = lines[(lines["column"] == column) & (lines["series"] == name) & (lines["metric"] == "accuracy")]
            curve(axes, part, look, 100.0)
        for target in targets(profile):
            axes.axhline(target, color=QUIET, linewidth=0.7, linestyle=_DOTTED, zorder=0)
        axes.set_title(column)
        round_axis(axes, lines)
    panels[0].set_ylabel("test accuracy (%)")
    handles = [legend_handle(name, look) for name, look in looks.items()]
    handles.append(Line2D([], [], color=QUIET, linewidth=0.7, linestyle=_DOTTED, label="targets"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, columnspacing=1.2)
    headline(figure, item, lines, profile, "accuracy", MEAN_AND_BAND)
    return figure


def reached_picture(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Rows = methods, x = rounds, one panel for each target; an arrow marks a run that never got there."""
    rows, columns = order(lines["series"]), order(lines["column"])
    paper = printed(item.id, "rounds_needed")
    figure = new_figure(DOUBLE, 5.2)
    upper, lower = figure.subfigures(2, 1, height_ratios=(1.25, 1), hspace=0.02, squeeze=False)[:, 0]
    last = lines.loc[lines["metric"] == "rounds_needed", "value"].max()
    looks = looks_of(rows)
    for axes, column in zip(_panels(upper, rows, columns), columns, strict=True):
        _target_panel(axes, lines[lines["column"] == column], rows, looks)
        axes.set_xlim(0, 1.12 * last)
        axes.set_xlabel("rounds")
        axes.set_title(f"to {column.rpartition(', ')[2]}")
    handles = [
        legend_handle("one seed", Look(QUIET, "o", "none"), alpha=0.6, markersize=3.5),
        legend_handle("never got there: only a bound", Look(QUIET, ">", "none", hollow=True), markersize=5),
        legend_handle("mean, where all got there", Look(QUIET, "|", "none"), markersize=9, markeredgewidth=1.6),
    ]
    upper.legend(handles=handles, loc="outside lower center", ncols=3)
    headline(upper, item, lines, profile, "rounds_needed", beside_printed=True)
    _printed_panels(lower, paper, rows)
    return figure


def _panels(part: SubFigure, rows: list[str], columns: list[str]) -> list[Axes]:
    panels = list(part.subplots(1, len(columns), sharey=True, squeeze=False)[0])
    for axes in panels:
        percent_axis(axes, "x")
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylim(len(rows) - 0.5, -0.5)
    return panels


def _target_panel(axes: Axes, lines: pd.DataFrame, rows: list[str], looks: dict[str, Look]) -> None:
    cells = reached_table(lines)
    for place, name in enumerate(rows):
        own = cells[cells["series"] == name]
        color = looks[name].color
        for step, (value, bound) in enumerate(zip(own["rounds"], own["censored"], strict=True)):
            height = place + 0.16 * (step - (len(own) - 1) / 2)
            axes.plot(value, height, ">" if bound else "o", color=color, markersize=5 if bound else 3.5,
                      markerfacecolor="white" if bound else color, alpha=0.8, markeredgewidth=0.8)  # fmt: skip
        if len(own) and not own["censored"].any():  # a mean with bounds in it would be one itself
            axes.plot(own["rounds"].mean(), place, "|", color=color, markersize=11, markeredgewidth=1.6)


def _printed_panels(part: SubFigure, paper: pd.DataFrame, rows: list[str]) -> None:
    part.set_facecolor(PAPER_TINT)
    part.suptitle("Printed in the paper (CIFAR-100)", fontsize=7, fontweight="bold")
    columns = order(paper["column"])
    for axes, column in zip(_panels(part, rows, columns), columns, strict=True):
        axes.set_facecolor(PAPER_TINT)
        axes.grid(True, axis="x", color="white", linewidth=0.8)
        values = paper[paper["column"] == column].set_index("series")["value"].reindex(rows)
        axes.plot(values, range(len(rows)), "o", color=INK, markersize=4)
        axes.set_xlim(0, 1.08 * paper["value"].max())
        axes.set_xlabel("rounds")
        axes.set_title(f"to {column.rpartition(', ')[2]}")
