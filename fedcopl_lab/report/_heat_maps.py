"""Heat maps: a field of two settings, confusion of classes, prompts."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int, Real
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import configure
from fedcopl_lab.paper import Item
from fedcopl_lab.report._facets import Panel, facets, headline
from fedcopl_lab.report._marks import draw_bars
from fedcopl_lab.report._tables import summary
from fedcopl_lab.report._words import mean_std, metric_name, scale, unit
from fedcopl_lab.report.looks import ORANGE, SINGLE, sheet, style


def heat_map(axes: Axes, values: np.ndarray, **more: Any) -> None:
    """A field of values, drawn by seaborn; a cell's middle is at its column + 0.5, its row + 0.5."""
    import seaborn  # a second that a notebook without heat maps need not wait

    options = {"cbar": False, "xticklabels": False, "yticklabels": False, "rasterized": True}
    seaborn.heatmap(values, ax=axes, **options | more)
    axes.tick_params(length=0)


def surface(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Means over seeds with their values; white lines: the paper's two cuts; in bold with a box: the best cell."""
    metrics = [metric for metric in ("accuracy", "label_accuracy") if metric in set(lines["metric"])]
    used = configure(profile, method=item.cells(profile)[0].config.method)
    cells = {metric: summary(lines, metric) for metric in metrics}
    span = max(scale(metric) * float(np.ptp(found["mean"])) for metric, found in cells.items())

    def paint(axes: Axes, metric: str) -> None:
        levels = lines.drop_duplicates(["series", "column"])[["series", "column", "level", "row_level"]]
        wide = cells[metric].merge(levels).pivot(index="row_level", columns="level", values="mean").sort_index()
        _field(axes, scale(metric) * wide, (used.q_ent, used.q_conf), span)

    def title(metric: str) -> str:
        best = cells[metric].iloc[int(cells[metric]["mean"].argmax())]
        where = f"τ1 = {best['column']}, {best['series']}"
        return f"{metric_name(metric)}{unit(metric)}\nbest: {mean_std(best['mean'], best['std'], metric)} at {where}"

    panels = [Panel(partial(paint, metric=metric), title(metric), item.axis, "τ2, level of the entropy filter", None)
              for metric in metrics]  # fmt: skip
    marks = "means; one colour scale in points; white lines: the paper's cuts; orange box: best cell"
    return facets(panels, 3.95 if sheet().inches > SINGLE else 3.6, least=2.4, sharey=True,
                  head=headline(item, lines, profile, marks))  # fmt: skip


def _field(axes: Axes, wide: pd.DataFrame, cuts: tuple[float, float], span: float) -> None:
    values = wide.to_numpy()
    low = float(np.nanmin(values) + np.nanmax(values) - span) / 2  # equal steps of colour: equal differences
    heat_map(axes, values, cmap="cividis", vmin=low, vmax=low + span, annot=True, fmt=".1f",
             annot_kws={"fontsize": 6.5}, square=True)  # fmt: skip
    axes.invert_yaxis()
    row, column = np.unravel_index(int(np.nanargmax(wide.to_numpy())), wide.shape)
    written = np.isfinite(values).ravel()[: int(row) * wide.shape[1] + int(column)].sum()  # empty cells have no text
    axes.texts[int(written)].set_fontweight("bold")
    (low, high), (rows, columns) = cuts, ([*map(float, wide.index)], [*map(float, wide.columns)])
    box: dict[str, Any] = {"fill": False, "zorder": 3}
    if high in columns:
        axes.add_patch(Rectangle((columns.index(high), 0), 1, len(rows), edgecolor="white", linewidth=1.6, **box))
    if low in rows:
        axes.add_patch(Rectangle((0, rows.index(low)), len(columns), 1, edgecolor="white", linewidth=1.6, **box))
    axes.add_patch(Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, edgecolor=ORANGE, linewidth=2, **box))
    axes.set_xticks(np.arange(len(columns)) + 0.5, [f"{level:g}" for level in columns])
    axes.set_yticks(np.arange(len(rows)) + 0.5, [f"{level:g}" for level in rows])


def confusion(
    true: Int[np.ndarray, " n_images"], predicted: Int[np.ndarray, " n_images"], class_names: Sequence[str]
) -> Figure:
    """Which class is taken for which, and how many images each class has and is given.

    Args:
        true: real class of every image.
        predicted: predicted class of every image.
        class_names: names of all classes.

    Raises:
        FedCoPLError: no image, arrays of different lengths, or a class without a name.

    >>> confusion(np.array([0, 1, 1]), np.array([0, 1, 0]), ["zero", "one"])
    <Picture size ...>

    Shown in notebook ``00_quickstart``.
    """
    if not len(true) or len(true) != len(predicted):
        raise FedCoPLError(f"{len(true)} true and {len(predicted)} predicted classes; pass one of each per image")
    classes = len(class_names)
    if not 0 <= min(true.min(), predicted.min()) <= max(true.max(), predicted.max()) < classes:
        raise FedCoPLError(f"a class number lies outside 0 to {classes - 1}; pass a name for every class")
    counts = np.bincount(true * classes + predicted, minlength=classes**2).reshape(classes, classes)

    def pairs(axes: Axes) -> None:
        heat_map(axes, counts, cmap="Blues", annot=np.where(counts, counts.astype(str), ""), fmt="", square=True,
                 annot_kws={"fontsize": 5.5})  # fmt: skip
        axes.set_xticks(np.arange(classes) + 0.5, class_names, rotation=90)
        axes.set_yticks(np.arange(classes) + 0.5, class_names)

    margins = {"images of the class": counts.sum(axis=1), "predicted as the class": counts.sum(axis=0)}
    panels = [Panel(pairs, x="predicted class", y="true class", grid=None),
              Panel(partial(draw_bars, values=margins, names=class_names, upright=True), y="images")]  # fmt: skip
    with style():
        return facets(panels, 2.85, least=2.0, sharey=False, width_ratios=(1, 1.1))


def prompt_maps(prompts: Mapping[str, Real[np.ndarray, "n_vectors width"]]) -> Figure:
    """Prompts as heat maps on one colour scale: a row per vector, a column per dimension.

    Args:
        prompts: prompt vectors by name.

    Raises:
        FedCoPLError: nothing to draw.

    >>> prompt_maps({"client 0": np.ones((2, 32)), "server": np.zeros((2, 32))})
    <Picture size ...>

    Shown in notebook ``fedcopl_main_table6``.
    """
    if not prompts:
        raise FedCoPLError("there is no prompt to draw; pass at least one")
    top = max(float(np.abs(prompt).max()) for prompt in prompts.values())

    def paint(axes: Axes, prompt: np.ndarray) -> None:
        heat_map(axes, prompt, cmap="RdBu_r", vmin=-top, vmax=top)
        if prompt is list(prompts.values())[-1]:
            numbers = range(0, prompt.shape[1], 16)
            axes.set_xticks(numbers, [str(number) for number in numbers])

    panels = [Panel(partial(paint, prompt=prompt), x="dimension", grid=None) for prompt in prompts.values()]
    with style():
        figure = facets(panels, 0.55 + 0.5 / len(prompts), across=1, sharex=True)
        for axes, name in zip(figure.axes, prompts, strict=True):
            axes.set_ylabel(name, rotation=0, ha="right", va="center")
        bar = figure.colorbar(figure.axes[0].collections[0], ax=figure.axes, fraction=0.03, pad=0.01)
        bar.outline.set_visible(False)
    return figure
