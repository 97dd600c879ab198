"""Pictures of what a step did: confusion, curves, bars and prompts; all take plain arrays."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int, Real
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.report._style import BLUE, DOUBLE, FAINT, LOOKS, QUIET, new_figure, percent_axis, style

_ORDER = (LOOKS[0], LOOKS[3], LOOKS[1], LOOKS[4], LOOKS[2], LOOKS[5], LOOKS[6])


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

    Shown in notebook ``00_quickstart``.
    """
    if not len(true) or len(true) != len(predicted):
        raise FedCoPLError(f"{len(true)} true and {len(predicted)} predicted classes; pass one of each per image")
    classes = len(class_names)
    if not 0 <= min(true.min(), predicted.min()) <= max(true.max(), predicted.max()) < classes:
        raise FedCoPLError(f"a class number lies outside 0 to {classes - 1}; pass a name for every class")
    counts = np.bincount(true * classes + predicted, minlength=classes**2).reshape(classes, classes)
    with style():
        figure = new_figure(DOUBLE, 3.0)
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.1))
        left.imshow(counts, cmap="Blues")
        dark = counts.max() / 2
        for row, column in zip(*np.nonzero(counts), strict=True):
            value = counts[row, column]
            left.text(column, row, str(value), ha="center", va="center", fontsize=5.5,
                      color="white" if value > dark else "black")  # fmt: skip
        left.set_xticks(range(classes), class_names, rotation=90)
        left.set_yticks(range(classes), class_names)
        left.tick_params(length=0)
        left.set_xlabel("predicted class")
        left.set_ylabel("true class")
        _bars(right, {"images of the class": counts.sum(axis=1), "predicted as the class": counts.sum(axis=0)})
        right.set_xticks(range(classes), class_names, rotation=90)
        right.set_ylabel("images")
        figure.legend(loc="outside lower right", ncols=2)
    return figure


def bars(
    values: Mapping[str, Real[np.ndarray, " n_groups"]], x_label: str, y_label: str, names: Sequence[str] | None = None
) -> Figure:
    """Groups of bars, one bar of each group per entry.

    Args:
        values: heights by name, one per group; NaN leaves a gap.
        x_label: what the groups are.
        y_label: what the heights are, with unit.
        names: a name for each group; None numbers them.

    Raises:
        FedCoPLError: nothing to draw, or arrays of different lengths.

    >>> bars({"filtered": np.array([90.0, 81.5]), "selected": np.array([93.0, 88.0])}, "client", "accuracy (%)")

    Shown in notebook ``00_quickstart``.
    """
    groups = _one_length(values)
    with style():
        figure = new_figure(DOUBLE, 2.3)
        axes = figure.subplots()
        _bars(axes, values)
        axes.set_xticks(range(groups), list(names) if names is not None else [str(g) for g in range(groups)])
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        figure.legend(loc="outside lower center", ncols=min(4, len(values)))
    return figure


def curves(values: Mapping[str, Sequence[float]], x_label: str, y_label: str) -> Figure:
    """Curves over 1, 2, 3, …

    Args:
        values: heights by name.
        x_label: what is counted, such as ``"local epoch"``.
        y_label: what the heights are, with unit.

    Raises:
        FedCoPLError: nothing to draw, or curves of different lengths.

    >>> curves({"client 0": [2.1, 1.4, 1.2]}, "local epoch", "cross-entropy (nats)")

    Shown in notebook ``00_quickstart``.
    """
    steps = range(1, _one_length(values) + 1)
    with style():
        figure = new_figure(DOUBLE * 0.7, 2.3)
        axes = figure.subplots()
        percent_axis(axes)
        for place, (name, heights) in enumerate(values.items()):
            look = _ORDER[place % len(_ORDER)]
            axes.plot(steps, heights, color=look.color, linestyle=look.line, marker=look.marker,
                      markerfacecolor=look.face, label=name)  # fmt: skip
        axes.set_xticks(list(steps))
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        figure.legend(loc="outside right center")
    return figure


def prompt_maps(prompts: Mapping[str, Real[np.ndarray, "n_vectors width"]]) -> Figure:
    """Prompts as heat maps on one colour scale: a row per vector, a column per dimension.

    Args:
        prompts: prompt vectors by name.

    Raises:
        FedCoPLError: nothing to draw.

    >>> prompt_maps({"client 0": first, "client 1": second, "server": average})

    Shown in notebook ``fedcopl_main_table6``.
    """
    if not prompts:
        raise FedCoPLError("there is no prompt to draw; pass at least one")
    top = max(float(np.abs(prompt).max()) for prompt in prompts.values())
    with style():
        figure = new_figure(DOUBLE, 0.5 + 0.55 * len(prompts))
        rows = figure.subplots(len(prompts), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (name, prompt) in zip(rows, prompts.items(), strict=True):
            image = axes.imshow(prompt, aspect="auto", cmap="RdBu_r", vmin=-top, vmax=top, interpolation="nearest")
            axes.set_yticks([])
            axes.set_ylabel(name, rotation=0, ha="right", va="center")
        rows[-1].set_xlabel("dimension")
        bar = figure.colorbar(image, ax=list(rows), fraction=0.03, pad=0.01)
        bar.outline.set_visible(False)
    return figure


def _bars(axes: Axes, values: Mapping[str, Real[np.ndarray, " n_groups"]]) -> None:
    percent_axis(axes)
    width = 0.8 / len(values)
    fills = ((FAINT, QUIET, ""), (BLUE, BLUE, ""), ("white", LOOKS[1].color, "////"), ("white", LOOKS[4].color, "...."))
    for place, (name, heights) in enumerate(values.items()):
        face, edge, hatch = fills[place % len(fills)]
        x = np.arange(len(heights)) + width * (place - (len(values) - 1) / 2)
        axes.bar(x, heights, 0.9 * width, facecolor=face, edgecolor=edge, hatch=hatch, linewidth=0.7, label=name)


def _one_length(values: Mapping[str, Sequence[float] | Real[np.ndarray, " n"]]) -> int:
    lengths = {len(heights) for heights in values.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise FedCoPLError(f"the series have the lengths {sorted(lengths)}; pass series of one length, 1 or more")
    return lengths.pop()
