"""Which client holds how many images of which class: bubbles, or a heat map when there are many."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.report._style import DOUBLE, SINGLE, new_figure, style

Counts = Int[np.ndarray, "n_clients n_classes"]
_BUBBLES_UP_TO = 20  # clients
_SMALLEST_CELL = 11.0  # points; in narrower cells the numbers cannot be read
_TINT, _EDGE = "#a9cfe8", "#3d7ea6"


def label_skew(counts: Counts | Mapping[str, Counts], class_names: Sequence[str] | None = None) -> Figure:
    """Images of every class on every client (as in supplement Fig. 3).

    Bubbles, area proportional to the number of images, as long as their numbers can be read (up to 20 clients
    and, in one panel, 20 classes); a heat map beyond.

    Args:
        counts: images of class c on client k, [n_clients, n_classes], or several such arrays by panel title.
        class_names: names for the class axis; None numbers the classes.

    Raises:
        FedCoPLError: no counts, negative counts, or names that do not fit.

    >>> label_skew(np.array([[40, 0, 3], [1, 25, 8]]))

    Shown in notebook ``fedcopl_supp_fig3``.
    """
    panels = dict(counts) if isinstance(counts, Mapping) else {"": counts}
    arrays = {title: np.asarray(array) for title, array in panels.items()}
    if not arrays or any(array.size == 0 for array in arrays.values()):
        raise FedCoPLError("there are no counts to draw; pass an array of clients × classes")
    for title, array in arrays.items():
        if array.min() < 0:
            raise FedCoPLError(f"counts {title!r} hold {array.min()}; a number of images is 0 or more")
        if class_names is not None and len(class_names) != array.shape[1]:
            raise FedCoPLError(f"{len(class_names)} class names for {array.shape[1]} classes; pass one for each class")
    clients, classes = (max(array.shape[axis] for array in arrays.values()) for axis in (0, 1))
    across = len(arrays) if len(arrays) <= 3 else 2
    width = SINGLE + 0.6 if len(arrays) == 1 else DOUBLE
    cell = min(0.85 * 72 * width / across / classes, 18.0)  # points that one class has
    crowded = cell < _SMALLEST_CELL or clients > _BUBBLES_UP_TO
    height = 2.9 if crowded else 0.75 + 0.27 * clients + (0.5 if class_names is not None else 0)
    top = max(1, *(int(array.max()) for array in arrays.values()))
    with style():
        figure = new_figure(width, height * -(-len(arrays) // across))
        grid = figure.subplots(-(-len(arrays) // across), across, squeeze=False, sharey=_same_clients(arrays))
        for axes in list(grid.flat)[len(arrays) :]:
            axes.set_axis_off()
        for axes, (title, array) in zip(grid.flat, arrays.items(), strict=False):
            (_heat_map if crowded else _bubbles)(axes, array, top, cell)
            axes.set_title(title)
            axes.set_xlabel("class")
            axes.tick_params(length=0)
            if class_names is not None and not crowded:
                axes.set_xticks(
                    range(array.shape[1]), class_names, rotation=90 if max(map(len, class_names)) > 2 else 0
                )
        for axes in grid[:, 0]:
            axes.set_ylabel("client")
        if crowded:
            bar = figure.colorbar(grid.flat[0].collections[0], ax=list(grid.flat), fraction=0.04, pad=0.02)
            bar.set_label("images (white: none)")
            bar.outline.set_visible(False)
    return figure


def _same_clients(arrays: Mapping[str, Counts]) -> bool:
    """Whether all panels have the same clients, so that they can share the axis."""
    return len({array.shape[0] for array in arrays.values()}) == 1


def _bubbles(axes: Axes, counts: Counts, top: int, cell: float) -> None:
    clients, classes = counts.shape
    axes.set_xlim(-0.6, classes - 0.4)
    axes.set_ylim(clients - 0.4, -0.6)
    axes.set_xticks(range(classes), [str(c) if c % (1 if classes <= 12 else 2) == 0 else "" for c in range(classes)])
    axes.set_yticks(range(clients))
    axes.grid(True, color="#efefef")
    client, label = np.nonzero(counts)
    values = counts[client, label]
    widths = cell * np.sqrt(values / top)  # diameter in points: area proportional to the count
    axes.scatter(label, client, s=widths**2, color=_TINT, edgecolor=_EDGE, linewidth=0.5, zorder=2)
    size = min(5.4, 0.36 * cell)
    for row, column, value, width in zip(client, label, values, widths, strict=True):
        above = width < 0.72 * size * len(str(value)) + 2.2
        axes.annotate(str(value), (column, row), (0, width / 2 + 0.8 if above else 0), textcoords="offset points",
                      ha="center", va="bottom" if above else "center_baseline", fontsize=size, zorder=3)  # fmt: skip


def _heat_map(axes: Axes, counts: Counts, top: int, cell: float) -> None:
    clients, classes = counts.shape
    shown = np.ma.masked_equal(counts, 0)
    axes.pcolormesh(np.arange(classes + 1) - 0.5, np.arange(clients + 1) - 0.5, shown, cmap="viridis_r",
                    norm=LogNorm(1, max(top, 2)), rasterized=True)  # fmt: skip
    axes.set_ylim(clients - 0.5, -0.5)
    axes.set_xticks(_thinned(classes))
    axes.set_yticks(_thinned(clients))
    for side in ("top", "right"):
        axes.spines[side].set_visible(True)


def _thinned(count: int) -> list[int]:
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 10**9) if count / step <= 11)
    return list(range(0, count, step))
