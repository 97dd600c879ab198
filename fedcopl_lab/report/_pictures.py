"""Small pictures for notebooks, of images, of what a step did and of prompts; all take plain arrays."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle

import numpy as np
from jaxtyping import Bool, Float, Int, Real
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.report._distributions import label_skew
from fedcopl_lab.report._facets import Panel, facets
from fedcopl_lab.report._marks import aside, draw_bars
from fedcopl_lab.report.looks import BLUE, DASHED, FAINT, INK, LOOKS, ORANGE, QUIET, Look, Sheet, new_figure, style

Counts = Int[np.ndarray, " n_classes"] | Int[np.ndarray, "n_clients n_classes"]
_NARROW = 4.2  # inches: wide enough for a notebook, narrow enough for its text column
_CONFIDENCES = (0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 0.997, 0.999, 0.9999, 0.99999)
_STAGES = ("true classes", "filtered", "quota", "selected")
_STAGE_FILLS = ((FAINT, QUIET, ""), ("white", ORANGE, "////"), ("white", INK, ""), (BLUE, BLUE, ""))


def _one(paint: Callable[[Axes], None], width: float, height: float, x: str, y: str) -> Figure:
    """A picture of one panel, with a legend of what is labelled in it."""
    with style():
        return facets([Panel(paint, x=x, y=y)], height - 0.15, width=width)


def show_images(
    images: Real[np.ndarray, "n_images ..."], titles: Sequence[str] | None = None, columns: int = 10, size: float = 0.62
) -> Figure:
    """A grid of small images.

    Args:
        images: [n, H, W], [n, 3, H, W] or [n, H, W, 3]; uint8, or any range, which is stretched to the screen's.
        titles: one short text over each image.
        columns: images per row.
        size: width of an image in inches.

    Raises:
        FedCoPLError: no images, a shape that is no image, or another number of titles.

    >>> show_images(np.zeros((3, 8, 8)), titles=["a", "b", "c"])
    <Picture size ...>

    Shown in notebook ``00_quickstart``.
    """
    pictures = _as_pictures(np.asarray(images))
    if titles is not None and len(titles) != len(pictures):
        raise FedCoPLError(f"{len(titles)} titles for {len(pictures)} images; pass one for each image")
    columns = max(1, min(columns, len(pictures)))
    rows = -(-len(pictures) // columns)
    with style():
        figure = new_figure(columns * size + 0.1, rows * (size + (0.17 if titles else 0.05)) + 0.1)
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid.flat:
            axes.set_axis_off()
        for number, picture in enumerate(pictures):
            grid.flat[number].imshow(picture, cmap="gray", interpolation="nearest")
            if titles is not None:
                grid.flat[number].set_title(titles[number], fontsize=6.5, pad=2)
    return figure


def _as_pictures(images: np.ndarray) -> np.ndarray:
    if images.ndim == 4 and images.shape[1] in (1, 3) and images.shape[3] not in (1, 3):
        images = np.moveaxis(images, 1, -1)
    if images.ndim == 4 and images.shape[3] == 1:
        images = images[..., 0]
    if not len(images) or images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] != 3):
        raise FedCoPLError(f"images of shape {images.shape} cannot be shown; expected [n, H, W] or [n, 3, H, W], n ≥ 1")
    if images.dtype == np.uint8:
        return images
    values = images.astype(float)
    low, high = float(values.min()), float(values.max())
    return (values - low) / (high - low if high > low else 1.0)


def confidence_entropy(
    confidence: Float[np.ndarray, " n_images"],
    entropy: Float[np.ndarray, " n_images"],
    kept: Bool[np.ndarray, " n_images"],
    thresholds: tuple[float | None, float | None],
) -> Figure:
    """Which images of a client pass the two filters (Eq. 2): each a dot, the kept region shaded.

    Args:
        confidence: largest probability of each image, in [0, 1].
        entropy: entropy of its prediction in nats.
        kept: whether it passed both filters.
        thresholds: (confidence above, entropy below); None for a filter that is off.

    Raises:
        FedCoPLError: arrays of different lengths.

    >>> confidence_entropy(np.array([0.9, 0.5]), np.array([0.1, 0.6]), np.array([True, False]), (0.81, 0.43))
    <Picture size ...>

    Shown in notebook ``00_quickstart``.
    """
    if not len(confidence) == len(entropy) == len(kept):
        raise FedCoPLError(f"{len(confidence)} confidences, {len(entropy)} entropies, {len(kept)} kept; "
                           "pass one per image")  # fmt: skip
    least, most = thresholds

    def paint(axes: Axes) -> None:
        # a CLIP is sure of most images: on straight axes the kept ones would be a single dot in the corner
        axes.set_xscale("logit", nonpositive="clip")
        axes.set_yscale("log", nonpositive="clip")
        axes.margins(0.04)
        axes.plot(confidence[~kept], entropy[~kept], "o", color=QUIET, markerfacecolor="none", markersize=3.2,
                  markeredgewidth=0.6, alpha=0.7, label=f"left out ({int((~kept).sum())})")  # fmt: skip
        axes.plot(confidence[kept], entropy[kept], "o", color=BLUE, markersize=3.4, markeredgewidth=0, alpha=0.8,
                  label=f"kept ({int(kept.sum())})")  # fmt: skip
        (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        axes.fill_between([left if least is None else least, right], bottom, top if most is None else most, color=BLUE,
                          alpha=0.08, linewidth=0, zorder=0)  # fmt: skip
        if least is not None:
            axes.axvline(least, color=INK, linewidth=0.8, linestyle=DASHED)
            _note(axes, f"confidence > {least:.3f}", (least, 1), ("data", "axes fraction"))
        if most is not None:
            axes.axhline(most, color=INK, linewidth=0.8, linestyle=DASHED)
            _note(axes, f"entropy < {most:.3f}", (0, most), ("axes fraction", "data"))
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        marks = [mark for mark in _CONFIDENCES if left <= mark <= right]
        axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
        axes.minorticks_off()

    return _one(paint, _NARROW, 2.6, "confidence (largest probability)", "entropy (nats)")


def _note(axes: Axes, text: str, place: tuple[float | int, float | int], of: tuple[str, str]) -> None:
    axes.annotate(text, place, (3, -2), xycoords=of, textcoords="offset points", ha="left", va="top", fontsize=6.5)


def counts_before_after(
    true: Counts, filtered: Counts, quota: Counts, selected: Counts, class_names: Sequence[str] | None = None
) -> Figure:
    """Images per class before the filter, after it, as allocated, and as selected (Eqs. 2 to 4).

    Args:
        true: real classes of the local images, [n_classes] for one client or [n_clients, n_classes] for all.
        filtered: predicted classes of the images that passed the filters, same shape.
        quota: images per class that the server asks for, same shape.
        selected: images per class that the client found, same shape.
        class_names: names for the class axis; None numbers the classes.

    Returns:
        Bars for one client, four panels of bubbles for all clients.

    Raises:
        FedCoPLError: counts of different shapes.

    >>> counts_before_after(*np.array([[9, 5], [4, 3], [3, 3], [3, 2]]))
    <Picture size ...>

    Shown in notebook ``00_quickstart``.
    """
    stages = dict(zip(_STAGES, (np.asarray(a) for a in (true, filtered, quota, selected)), strict=True))
    shapes = {array.shape for array in stages.values()}
    if len(shapes) > 1:
        raise FedCoPLError(f"the counts have the shapes {sorted(shapes)}; pass four arrays of one shape")
    if stages["quota"].ndim == 2:
        return label_skew(stages, class_names)
    labelled = {f"{name} ({int(values.sum())})": values for name, values in stages.items()}
    names = list(map(str, range(len(stages["quota"])))) if class_names is None else class_names
    return _one(
        partial(draw_bars, values=labelled, names=names, fills=_STAGE_FILLS), Sheet().inches, 2.2, "class", "images"
    )


def accuracy_per_client(
    accuracy: Mapping[str, Float[np.ndarray, " n_clients"]] | Float[np.ndarray, " n_clients"],
    n_test: Int[np.ndarray, " n_clients"] | None = None,
) -> Figure:
    """Accuracy of every client on its own test images, with the unweighted mean as a line.

    Args:
        accuracy: shares in [0, 1] by client, or several such arrays by name. NaN: a client without test images.
        n_test: test images of each client; stands under the axis.

    Raises:
        FedCoPLError: a value outside [0, 1], or arrays of different lengths.

    >>> accuracy_per_client({"zero-shot": np.array([0.7, 0.8]), "FedCoPL": np.array([0.8, 0.9])})
    <Picture size ...>

    Shown in notebook ``00_quickstart``.
    """
    series = dict(accuracy) if isinstance(accuracy, Mapping) else {"accuracy": accuracy}
    lengths = {len(values) for values in series.values()} | ({len(n_test)} if n_test is not None else set())
    if len(lengths) != 1:
        raise FedCoPLError(f"arrays of {sorted(lengths)} clients; pass one value per client in each")
    for name, values in series.items():
        if np.any((values < 0) | (values > 1)):
            raise FedCoPLError(f"{name} holds an accuracy outside [0, 1]; pass shares, not percent")
    (clients,) = lengths

    def paint(axes: Axes) -> None:
        looks = cycle((*LOOKS[:3], LOOKS[4], LOOKS[3]))
        for shift, look, (name, values) in zip(aside(len(series), 0.16), looks, series.items(), strict=False):
            mean = 100 * float(np.nanmean(values))
            axes.plot(np.arange(clients) + shift, 100 * values, look.marker, color=look.color,
                      label=f"{name} (mean {mean:.1f})")  # fmt: skip
            axes.axhline(mean, color=look.color, linestyle=DASHED, linewidth=0.8, zorder=1)
        sizes = [""] * clients if n_test is None else [f"\nn = {count}" for count in n_test]
        axes.set_xticks(range(clients), [f"{client}{size}" for client, size in enumerate(sizes)])

    width = _NARROW if clients <= 12 and len(series) <= 2 else Sheet().inches
    return _one(paint, width, 2.3, "client, on its own test images", "accuracy (%)")


def bars(
    values: Mapping[str, Real[np.ndarray, " n_groups"]], x_label: str, y_label: str,
    names: Sequence[str] | None = None, width: str = "double",
) -> Figure:  # fmt: skip
    """Groups of bars, one bar of each group per entry.

    Args:
        values: heights by name, one per group; NaN leaves a gap.
        x_label: what the groups are.
        y_label: what the heights are, with unit.
        names: a name for each group; None numbers them.
        width: ``"single"`` (3.25 in, one column of a paper) or ``"double"`` (6.75 in, both).

    Raises:
        FedCoPLError: nothing to draw, arrays of different lengths, or an unknown width.

    >>> bars({"filtered": np.array([90.0, 81.5]), "selected": np.array([93.0, 88.0])}, "client", "accuracy (%)")
    <Picture size ...>

    Shown in notebook ``00_quickstart``.
    """
    n_groups = _one_length(values)
    groups = [str(number) for number in range(n_groups)] if names is None else names
    return _one(partial(draw_bars, values=values, names=groups), Sheet(width).inches, 2.3, x_label, y_label)


def curves(values: Mapping[str, Sequence[float]], x_label: str, y_label: str) -> Figure:
    """Curves over 1, 2, 3, …

    Args:
        values: heights by name.
        x_label: what is counted, such as ``"local epoch"``.
        y_label: what the heights are, with unit.

    Raises:
        FedCoPLError: nothing to draw, or curves of different lengths.

    >>> curves({"client 0": [2.1, 1.4, 1.2]}, "local epoch", "cross-entropy (nats)")
    <Picture size ...>

    Shown in notebook ``00_quickstart``.
    """
    steps = range(1, _one_length(values) + 1)

    def paint(axes: Axes) -> None:
        for look, (name, heights) in zip(cycle(LOOKS), values.items(), strict=False):
            axes.plot(steps, heights, label=name, **look.style)
        axes.set_xticks(steps)

    return _one(paint, _NARROW, 2.5, x_label, y_label)


def arrows(moves: Mapping[str, Float[np.ndarray, "n_clients 2"] | Sequence[Sequence[float]]]) -> Figure:
    """Moves of clients as arrows in the plane, and dashed the way that their average goes: how they drift apart.

    Args:
        moves: by title, which may have several lines: one arrow (x, y) for each client.

    Raises:
        FedCoPLError: nothing to draw, or moves that are no pairs.

    >>> arrows({"right angle": [[1.0, 0.0], [0.0, 1.0]]})
    <Picture size ...>

    Shown in notebook ``fedcopl_main_fig2``.
    """
    drawn = {name: np.asarray(move, dtype=float) for name, move in moves.items()}
    if not drawn or any(move.ndim != 2 or move.shape[1] != 2 or not len(move) for move in drawn.values()):
        raise FedCoPLError("a move is a pair (x, y) for each client; pass one array of shape [n_clients, 2] or more")
    ends = np.concatenate([np.zeros((1, 2)), *drawn.values()])
    room = 0.15 * float(np.ptp(ends, axis=0).max())

    def paint(axes: Axes, move: np.ndarray) -> None:
        for x, y in move:
            axes.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": BLUE, "linewidth": 1.4,
                                                          "shrinkA": 0, "shrinkB": 0})  # fmt: skip
        axes.plot(*np.stack([np.zeros(2), move.mean(axis=0)]).T, color=ORANGE, linestyle=DASHED, linewidth=1.6)
        axes.set_xlim(ends[:, 0].min() - room, ends[:, 0].max() + room)
        axes.set_ylim(ends[:, 1].min() - room, ends[:, 1].max() + room)
        axes.set_aspect("equal")

    panels = [Panel(partial(paint, move=move), name, grid="both") for name, move in drawn.items()]
    legend = {"a client's move": Look(BLUE), "their average": Look(ORANGE, line=DASHED)}
    with style():
        return facets(panels, 1.7, sharey=True, least=1.2, legend=legend)


def _one_length(values: Mapping[str, Sequence[float] | Real[np.ndarray, " n"]]) -> int:
    lengths = {len(heights) for heights in values.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise FedCoPLError(f"the series have the lengths {sorted(lengths)}; pass series of one length, 1 or more")
    return lengths.pop()
