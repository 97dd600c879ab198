"""One small drawing function per table or figure; all take tidy numbers and return a figure."""

from collections.abc import Callable
from typing import Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import configure
from fedcopl_lab.paper.items import Drawing, Item
from fedcopl_lab.report._diagram import overview
from fedcopl_lab.report._dots import table_dots
from fedcopl_lab.report._skew import label_skew
from fedcopl_lab.report._style import (
    BLUE,
    DOUBLE,
    ORANGE,
    PURPLE,
    QUIET,
    Look,
    legend_handle,
    new_figure,
    percent_axis,
    style,
)
from fedcopl_lab.report._tables import seeds_text
from fedcopl_lab.report._words import is_share, item_of, lines_of, metric_name, order, scale, setting_of


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
                _curve(axes, part, _prompt_look(prompt, series == "both averaged"), 1.0)
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
    _headline(figure, item, lines, profile, "cosine_text")
    return figure


def _labels(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    part = lines[lines["metric"] == "label_accuracy"]
    columns, names = order(part["column"]), order(part["series"])
    figure = new_figure(DOUBLE, 2.6)
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    looks = dict(zip(names, (Look(BLUE, "o"), Look(ORANGE, "s", "--", hollow=True)), strict=False))
    for axes, column in zip(panels, columns, strict=True):
        for name in names:
            _curve(axes, part[(part["column"] == column) & (part["series"] == name)], looks[name], 100.0, steps=True)
        axes.set_title(column)
        _round_axis(axes, part)
    panels[0].set_ylabel("pseudo-label accuracy (%)")
    handles = [legend_handle(name, look) for name, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(names))
    _headline(figure, item, lines, profile, "label_accuracy")
    return figure


def _sweep(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    metrics = [metric for metric in _SWEPT if metric in set(lines["metric"])]
    lines = lines.assign(x=lines["column"].astype(float))
    values = sorted(set(lines["x"]))
    figure = new_figure(DOUBLE, 2.4)
    for axes, metric in zip(figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True):
        part, look = lines[lines["metric"] == metric], _SWEPT[metric]
        axes.set_xscale("log")
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()
        _curve(axes, part, look, scale(metric))
        axes.plot(part["x"], scale(metric) * part["value"], "o", color=look.color, alpha=0.3, markersize=2.5,
                  markeredgewidth=0)  # fmt: skip
        axes.margins(x=0.08, y=0.18)
        axes.set_ylabel(metric_name(metric).replace(", ", ",\n") + (" (%)" if is_share(metric) else ""))
        percent_axis(axes)
        if item.field:
            used = float(getattr(configure(profile, method=item.cells(profile)[0].config.method), item.field))
            axes.set_xlabel(f"{item.axis} (dotted: {profile})")
            axes.axvline(used, color=QUIET, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
    _headline(figure, item, lines, profile, metrics[0])
    return figure


def _skew(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    panels = {}
    for column in order(lines["column"]):
        part = lines[(lines["column"] == column) & (lines["seed"] == lines["seed"].min())]
        wide = part.pivot_table(index="y", columns="x", values="value", fill_value=0)
        panels[column] = wide.to_numpy().round().astype(int)
    figure = label_skew(panels)
    words = f"{setting_of(item, profile).short}; number and area: training images; seed {lines['seed'].min()}"
    figure.suptitle(words, fontsize=7, color=QUIET)
    return figure


def _curve(axes: Axes, part: pd.DataFrame, look: Look, factor: float, steps: bool = False) -> None:
    by_x = part.groupby("x")["value"].agg(["mean", "std"])
    x, mean, std = by_x.index.to_numpy(), factor * by_x["mean"].to_numpy(), factor * by_x["std"].fillna(0).to_numpy()
    if not len(x):
        return
    band: Literal["mid"] | None = "mid" if steps else None
    axes.fill_between(x, mean - std, mean + std, color=look.color, alpha=0.14, linewidth=0, step=band)
    axes.plot(x, mean, linestyle=look.line, marker=look.marker, color=look.color, markerfacecolor=look.face,
              drawstyle="steps-mid" if steps else "default")  # fmt: skip


def _prompt_look(prompt: str, together: bool) -> Look:
    color, marker = (ORANGE, "s") if prompt == "text" else (BLUE, "o")
    return Look(color, marker, "--" if together else "-", hollow=together)


def _round_axis(axes: Axes, lines: pd.DataFrame) -> None:
    rounds = sorted(set(lines["x"].astype(int)))
    axes.set_xticks(rounds if len(rounds) <= 10 else [r for r in rounds if r % 5 == 0 or r == rounds[0]])
    axes.set_xlabel("round")
    percent_axis(axes)


def _headline(figure: Figure, item: Item, lines: pd.DataFrame, profile: str, metric: str) -> None:
    setting = setting_of(item, profile).short
    words = f"Measured here ({setting}; {seeds_text(lines, metric)}; line: mean, band: ± std)"
    figure.suptitle(words, fontsize=7, color=QUIET)


_SWEPT = {"accuracy": Look(BLUE, "o"), "label_accuracy": Look(ORANGE, "s"), "loss_last_epoch": Look(PURPLE, "^")}
_DRAWINGS: dict[Drawing, Callable[[Item, pd.DataFrame, str], Figure]] = {
    "dots": table_dots,
    "drift": _drift,
    "skew": _skew,
    "labels": _labels,
    "sweep": _sweep,
}
