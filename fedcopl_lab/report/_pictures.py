"""Small pictures for notebooks; all take plain arrays."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int, Real
from matplotlib.figure import Figure

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.report._skew import label_skew
from fedcopl_lab.report._style import BLUE, DOUBLE, FAINT, INK, LOOKS, ORANGE, QUIET, new_figure, percent_axis, style

_CONFIDENCES = (0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 0.997, 0.999, 0.9999, 0.99999)
_STAGES = ("true classes", "filtered", "quota", "selected")


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

    >>> show_images(dataset.train_images[:10].numpy(), titles=names)

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

    >>> confidence_entropy(confidence, entropy, kept, (0.81, 0.43))

    Shown in notebook ``00_quickstart``.
    """
    if not len(confidence) == len(entropy) == len(kept):
        raise FedCoPLError(
            f"{len(confidence)} confidences, {len(entropy)} entropies, {len(kept)} kept; pass one per image"
        )
    least, most = thresholds
    with style():
        figure = new_figure(SINGLE_WIDE, 2.6)
        axes = figure.subplots()
        # a CLIP is sure of most images: on straight axes the kept ones would be a single dot in the corner
        axes.set_xscale("logit", nonpositive="clip")
        axes.set_yscale("log", nonpositive="clip")
        axes.margins(0.04)
        axes.plot(confidence[~kept], entropy[~kept], "o", color=QUIET, markerfacecolor="none", markersize=3.2,
                  markeredgewidth=0.6, alpha=0.7, label=f"left out ({int((~kept).sum())})")  # fmt: skip
        axes.plot(confidence[kept], entropy[kept], "o", color=BLUE, markersize=3.4, markeredgewidth=0, alpha=0.8,
                  label=f"kept ({int(kept.sum())})")  # fmt: skip
        (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        corner = (left if least is None else least, top if most is None else most)
        axes.fill_between([corner[0], right], bottom, corner[1], color=BLUE, alpha=0.08, linewidth=0, zorder=0)
        if least is not None:
            axes.axvline(least, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
            axes.annotate(f"confidence > {least:.3f}", (least, 1), (3, -1), xycoords=("data", "axes fraction"),
                          textcoords="offset points", ha="left", va="top", fontsize=6.5)  # fmt: skip
        if most is not None:
            axes.axhline(most, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
            axes.annotate(f"entropy < {most:.3f}", (0, most), (3, -2), xycoords=("axes fraction", "data"),
                          textcoords="offset points", ha="left", va="top", fontsize=6.5)  # fmt: skip
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        marks = [mark for mark in _CONFIDENCES if left <= mark <= right]
        axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
        axes.minorticks_off()
        axes.set_xlabel("confidence (largest probability)")
        axes.set_ylabel("entropy (nats)")
        figure.legend(loc="outside lower center", ncols=2)
    return figure


SINGLE_WIDE = 4.2
"""Inches: wide enough for a notebook, narrow enough for its text column."""

Counts = Int[np.ndarray, " n_classes"] | Int[np.ndarray, "n_clients n_classes"]


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

    >>> counts_before_after(labels["true"][0], labels["filtered"][0], labels["quota"][0], labels["selected"][0])

    Shown in notebook ``00_quickstart``.
    """
    stages = dict(zip(_STAGES, (np.asarray(a) for a in (true, filtered, quota, selected)), strict=True))
    shapes = {array.shape for array in stages.values()}
    if len(shapes) > 1:
        raise FedCoPLError(f"the counts have the shapes {sorted(shapes)}; pass four arrays of one shape")
    if stages["quota"].ndim == 2:
        return label_skew(stages, class_names)
    classes = np.arange(len(stages["quota"]))
    with style():
        figure = new_figure(DOUBLE, 2.2)
        axes = figure.subplots()
        percent_axis(axes)
        looks = ((FAINT, QUIET, ""), ("white", ORANGE, "////"), ("white", INK, ""), (BLUE, BLUE, ""))
        for place, ((name, values), (face, edge, hatch)) in enumerate(zip(stages.items(), looks, strict=True)):
            x, label = classes + 0.2 * (place - 1.5), f"{name} ({int(values.sum())})"
            axes.bar(x, values, 0.18, facecolor=face, edgecolor=edge, hatch=hatch, linewidth=0.7, label=label)
        names = [str(number) for number in classes] if class_names is None else list(class_names)
        axes.set_xticks(classes, names, rotation=90 if max(map(len, names)) > 12 else 0)
        axes.set_xlabel("class")
        axes.set_ylabel("images")
        figure.legend(loc="outside lower center", ncols=4)
    return figure


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

    >>> accuracy_per_client({"zero-shot": before, "FedCoPL": after}, n_test)

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
    looks = (LOOKS[0], LOOKS[3], LOOKS[1], LOOKS[2], LOOKS[4])
    with style():
        figure = new_figure(SINGLE_WIDE if clients <= 12 and len(series) <= 2 else DOUBLE, 2.3)
        axes = figure.subplots()
        percent_axis(axes)
        for place, (name, values) in enumerate(series.items()):
            look = looks[place % len(looks)]
            x = np.arange(clients) + 0.16 * (place - (len(series) - 1) / 2)
            axes.plot(
                x, 100 * values, look.marker, color=look.color, label=f"{name} (mean {100 * np.nanmean(values):.1f})"
            )
            axes.axhline(
                100 * float(np.nanmean(values)), color=look.color, linestyle=(0, (4, 3)), linewidth=0.8, zorder=1
            )
        sizes = [""] * clients if n_test is None else [f"\nn = {count}" for count in n_test]
        axes.set_xticks(range(clients), [f"{client}{size}" for client, size in enumerate(sizes)])
        axes.set_xlabel("client, on its own test images")
        axes.set_ylabel("accuracy (%)")
        figure.legend(loc="outside upper center", ncols=min(3, len(series)))
    return figure
