"""Pictures of a setting that is turned from one end to the other: clients, levels of a filter, κ, ε."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcopl_lab.config import KAPPA_STAR, configure
from fedcopl_lab.paper import Item, printed
from fedcopl_lab.report._facets import Block, Legend, Panel, compose, facets, headline, looks_of
from fedcopl_lab.report._marks import aside, curves, error_bars, seed_dots
from fedcopl_lab.report._words import axis_name, last_round, order, scale, set_name
from fedcopl_lab.report.looks import (
    BLUE,
    DASHED,
    DOTTED,
    GREEN,
    INK,
    LEVEL,
    ONE_SEED,
    ORANGE,
    OTHERS,
    OWN,
    PURPLE,
    QUIET,
    SETS,
    SKY,
    Look,
)

_SWEPT = {"accuracy": Look(BLUE, "o"), "label_accuracy": Look(ORANGE, "s")}
_SWEPT_AXES = {"n_clients": "clients K", "participation": "participation R, share of the clients in a round"}
_SEED_LINE = replace(ONE_SEED, line="-", width=0.5)
_MEAN_STD: list[Any] = ["mean", "std"]


def clients_and_participation(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Left over K, right over R; a row for each data set; what could not be run is marked with its reason."""
    lines, missing = lines[lines["metric"] == "accuracy"], item.not_run(profile)
    looks, sets = looks_of(lines), order(lines["dataset"])

    def paint(axes: Axes, dataset: str, swept: str) -> None:
        part = lines[(lines["dataset"] == dataset) & (lines["swept"] == swept)]
        gaps = [one.level for one in missing if (one.dataset, one.swept) == (dataset, swept) and one.level is not None]
        _levels_apart(axes, part, looks, gaps)

    panels = [
        Panel(partial(paint, dataset=dataset, swept=swept), set_name(dataset) if len(sets) > 1 else "", name,
              axis_name("accuracy", item))
        for dataset in sets for swept, name in _SWEPT_AXES.items()
    ]  # fmt: skip
    return facets(panels, 2.05, across=2, least=1.9, legend=looks, width_ratios=(1.35, 1),
                  head=headline(item, lines, profile, "mean ± std", missing))  # fmt: skip


def _levels_apart(axes: Axes, part: pd.DataFrame, looks: dict[str, Look], not_run: list[float]) -> None:
    """Bars of all series a step aside of each level, on a logarithmic axis; a hatched gap where nothing was run."""
    if not (levels := sorted({*part["level"], *not_run})):
        axes.set_xticks([], [])
        axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center", color=QUIET)
        return
    axes.set_xscale("log")  # the levels are multiples of each other
    axes.minorticks_off()
    width = np.log(levels[-1] / levels[0]) or 1.0
    for shift, (name, look) in zip(aside(len(looks), 0.009 * width), looks.items(), strict=True):
        found = part[part["series"] == name].groupby("level")["value"].agg(_MEAN_STD)
        error_bars(axes, found.index.to_numpy() * np.exp(shift), found, look, 100.0)
    edge = np.exp(0.07 * width)
    axes.set_xlim(levels[0] / edge, levels[-1] * edge)
    axes.set_xticks(levels, [f"{level:g}" + ("\nnot run" if level in not_run else "") for level in levels])


def sweep(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """One panel per measure over the swept setting; what the paper prints stands at the right, on its own ground."""
    lines = lines.assign(x=lines["level"])
    metrics = [metric for metric in _SWEPT if metric in set(lines["metric"])]
    names, paper = order(lines["series"]), printed(item.id)
    used = getattr(configure(profile, method=item.cells(profile)[0].config.method), item.field)
    marked = {} if used is None else {f"value in {profile}": LEVEL}  # without a bound no level is the profile's own

    def paint(axes: Axes, metric: str) -> None:
        part = lines[lines["metric"] == metric]
        looks = {names[0]: _SWEPT[metric]} if len(names) == 1 else looks_of(lines)
        curves(axes, part, looks, factor=scale(metric), seeds=True)  # their shapes agree where their heights do not
        for name, look in looks.items():
            own = part[part["series"] == name]
            seed_dots(axes, own["x"], scale(metric) * own["value"], look.color)
        if used is not None:
            axes.axvline(float(used), color=QUIET, linewidth=0.8, linestyle=DOTTED, zorder=0)
        axes.margins(0.08, 0.1)

    panels = [Panel(partial(paint, metric=metric), x=item.axis, y=axis_name(metric, item),
                    levels=lines["x"]) for metric in metrics]  # fmt: skip
    named: dict[str, Look] = {"mean": Look(QUIET, "o")} if len(names) == 1 else looks_of(lines)
    measured = Block(panels, 2.1, least=1.3, legend=named | {"one seed": _SEED_LINE} | marked,
                     head=headline(item, lines, profile), bold=len(paper) > 0, sharey=False)  # fmt: skip
    return compose([measured] if paper.empty else [measured, _printed_sweep(item, paper)], (len(metrics), 1))


def _printed_sweep(item: Item, paper: pd.DataFrame) -> Block:
    looks = {name: replace(look, size=3.0) for name, look in zip(order(paper["dataset"]), SETS, strict=False)}

    def paint(axes: Axes) -> None:
        for name, look in looks.items():
            own = paper[paper["dataset"] == name]
            axes.plot(own["level"], own["value"], label=name, **look.style)
        axes.margins(y=0.08)

    panel = Panel(paint, x=item.axis, y=axis_name("accuracy"), levels=paper["level"])
    return Block([panel], 2.1, printed=True, head="Printed in the paper", legend=looks)


def decay(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """λ = exp(-κ |c_l - c_g|) for several κ (Eqs. 3, 18); the point that defines κ*."""
    star = f"κ* = ln 2 / 0.05 ≈ {KAPPA_STAR:.2f}"
    looks = {"κ = 2": Look(SKY, line=(0.0, (5.0, 1.0))), "κ = 6": Look(PURPLE, line="-."),
             star: Look(BLUE, width=1.8), "κ = 20": Look(GREEN, line=":")}  # fmt: skip
    gap = 0.05  # at which κ* halves λ: what is left between the threshold 0.95 and certainty
    half = np.exp(-KAPPA_STAR * gap)

    def paint(axes: Axes) -> None:
        gaps = np.linspace(0, 0.5, 251)
        for kappa, look in zip((2.0, 6.0, KAPPA_STAR, 20.0), looks.values(), strict=True):
            axes.plot(gaps, np.exp(-kappa * gaps), **look.style)
        axes.plot([gap, gap, 0], [0, half, half], color=QUIET, linewidth=0.8, linestyle=DOTTED, zorder=0)
        axes.plot(gap, half, "o", color=BLUE, markersize=5)
        axes.annotate("λ = 1/2 at ΔC = 1 − 0.95", (gap, half), (0.17, half), va="center", fontsize=7.0,
                      arrowprops={"arrowstyle": "-", "color": QUIET, "linewidth": 0.6})  # fmt: skip
        axes.set_xlim(0, 0.5)

    panel = Panel(paint, x="discrepancy of the confidences, ΔC = $|c_l - c_g|$", y="λ, weight of the local label",
                  ends=(0.0, 1.02))  # fmt: skip
    return facets([panel], 2.3, legend=looks, head="Computed from the equation; no run is behind it")


def kappa(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """SAGE's accuracy at each κ, a thin line a seed; the two one-model rows as lines to beat (supplement Fig. 14)."""
    lines = lines[lines["metric"] == (metric := item.metric)]
    others, own = lines[lines["level"].isna()], lines[lines["level"].notna()]
    looks = dict(zip(order(others["series"]), (replace(look, marker="") for look in OTHERS), strict=False))

    def paint(axes: Axes) -> None:
        for name, look in looks.items():
            values = 100 * others.loc[others["series"] == name, "value"]
            std = values.std() if len(values) > 1 else 0.0
            axes.axhspan(values.mean() - std, values.mean() + std, color=look.color, alpha=0.1, linewidth=0)
            axes.axhline(values.mean(), color=look.color, linestyle=look.line, linewidth=1.1)
        curves(axes, own.assign(x=own["level"]), dict.fromkeys(order(own["series"]), OWN), factor=100.0, seeds=True)
        seed_dots(axes, own["level"], 100 * own["value"], OWN.color)
        axes.axvline(KAPPA_STAR, color=INK, linewidth=0.8, linestyle=DOTTED, zorder=0)
        levels = sorted(set(own["level"]))
        axes.set_xticks(levels, ["κ*" if abs(level - KAPPA_STAR) < 0.01 else f"{level:g}" for level in levels])

    curve = {f"{name}, mean": OWN for name in order(own["series"])}
    legend = {**curve, **({"one seed": replace(_SEED_LINE, color=OWN.color)} if curve else {}),
              **{f"{name} (no κ), mean ± std": look for name, look in looks.items()}}  # fmt: skip
    return facets([Panel(paint, x=f"{item.axis}; κ* = {KAPPA_STAR:.2f}", y=axis_name(metric, item))], 2.3,
                  legend=legend, head=headline(item, lines, profile))  # fmt: skip


_NOISE = (Look(QUIET, "o"), Look(QUIET, "o", "--", hollow=True))
_SIDES: dict[str, dict[str, Look]] = {
    "total variation\nupload – true class shares": {"upload_distance": Look(GREEN, "D")},
    "share that is right (%)": {"accuracy": Look(BLUE, "o"), "label_accuracy": Look(ORANGE, "s")},
}


class _Uploads:
    """The two lines of panels of what uploads reveal and cost."""

    def __init__(self, lines: pd.DataFrame) -> None:
        without = lines["level"].isna()
        self.lines = last_round(lines)
        self.plain, self.noisy = (order(lines.loc[rows, "series"]) for rows in (without, ~without))
        self.levels = lines["level"].dropna()

    def cells(self, metric: str, rows: list[str], by: str) -> pd.DataFrame:
        part = self.lines[(self.lines["metric"] == metric) & self.lines["series"].isin(rows)]
        return scale(metric) * part.groupby(by)["value"].agg(_MEAN_STD)

    def over_epsilon(self, axes: Axes, looks: dict[str, Look]) -> None:
        for metric, look in looks.items():
            for name, noise, shift in zip(self.noisy, _NOISE, (1.04, 0.96), strict=False):
                found = self.cells(metric, [name], "level")
                error_bars(axes, shift * found.index, found, replace(look, line=noise.line, hollow=noise.hollow))
        self._references(axes.axhline, looks)

    def without_epsilon(self, axes: Axes, looks: dict[str, Look]) -> None:
        for metric, look in looks.items():
            found = self.cells(metric, self.plain, "series").reindex(self.plain)
            axes.errorbar(found["mean"], range(len(found)), xerr=found["std"].fillna(0), elinewidth=1.2,
                          **replace(look, line="none").style)  # fmt: skip
        self._references(axes.axvline, looks)
        axes.margins(x=0.1)

    def _references(self, line: Any, looks: dict[str, Look]) -> None:
        """The upload as it is, and on the left the guess without any upload."""
        for metric, look in looks.items():
            for as_it_is in self.cells(metric, self.plain[:1], "series")["mean"]:
                line(as_it_is, color=look.color, linewidth=1, linestyle=DOTTED)
        if "upload_distance" in looks:
            guess = self.lines.loc[self.lines["metric"] == "upload_distance_global", "value"].mean()
            line(guess, color=INK, linewidth=1, linestyle=DASHED)


def uploads(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Above over ε, below the uploads without ε; left what a server reads off, right what the noise costs."""
    drawn, panels = _Uploads(lines), list[Panel]()
    titles = ("what the upload reveals (0: everything)", "what noise costs")
    for title, (name, looks) in zip(titles, _SIDES.items(), strict=True):
        paint = partial(drawn.over_epsilon, looks=looks)
        panels.append(Panel(paint, title, f"{item.axis} (left: more noise)", name, levels=drawn.levels))
    heights = [2.1]
    if drawn.plain:
        heights.append(0.35 * len(drawn.plain))
        for (name, looks), rows in zip(_SIDES.items(), (drawn.plain, [""] * len(drawn.plain)), strict=True):
            paint = partial(drawn.without_epsilon, looks=looks)
            panels.append(Panel(paint, x=name.replace("\n", ", "), grid="x", rows=rows))
    right = _SIDES["share that is right (%)"]
    named: Legend = dict(zip(drawn.noisy, _NOISE, strict=False)) | {
        "accuracy": replace(right["accuracy"], line="none"),
        "pseudo-label accuracy": replace(right["label_accuracy"], line="none"),
        "upload without noise": replace(LEVEL, width=1.0),
        "guess the global shares instead": Look(INK, line=DASHED, width=1.0),
    }
    return facets(panels, 1.85, across=2, least=1.6, sharey=False, legend=named, height_ratios=heights,
                  head=headline(item, lines, profile, "mean ± std"))  # fmt: skip
