"""The κ explorer: how SAGE weighs a client's own label against the global model's (SAGE Eqs. 1 to 6)."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.report.looks import BLUE, FAINT, GREEN, INK, ORANGE, QUIET, Picture, light_grid, style
from fedcopl_lab.steps import correct_pseudo_labels
from fedcopl_lab.widgets import _controls as controls
from fedcopl_lab.widgets._canvas import DASHED, fixed_figure, moving_title, panel
from fedcopl_lab.widgets._explorer import Explorer, Shown
from fedcopl_lab.widgets._sources import Opinions

KAPPA = math.log(2) / 0.05
_SHOWN = 7  # images in the strip
_KINDS = {
    "no label": (FAINT, "o"), "both say the same": (QUIET, "o"), "global model alone": (GREEN, "^"),
    "disputed, local label leads": (ORANGE, "s"), "disputed, global label leads": (BLUE, "D"),
}  # fmt: skip


@dataclass(frozen=True)
class KappaParams:
    """What the κ explorer shows.

    Attributes:
        kappa: how fast λ falls with the discrepancy ΔC, 0 or more.
        threshold: τ, the least confidence of a label, in [0, 1].
        step: which local step's batch lies on the curve.
        image: the first of the batch's images that are shown.
    """

    kappa: float = KAPPA
    threshold: float = 0.95
    step: int = 0
    image: int = 0


def draw_kappa(opinions: Opinions, params: KappaParams | None = None) -> Picture:
    """λ(ΔC) with a batch on it, who decides its labels, and the corrected labels of some images (SAGE Eqs. 1-6).

    Args:
        opinions: scores of weak views by both models, such as ``Opinions.of(run)``.
        params: κ, τ, batch and images; None takes the defaults.

    Returns:
        A figure of two panels and a strip of images.

    Raises:
        FedCoPLError: κ below 0, τ outside [0, 1], or a batch or image that does not exist.

    >>> draw_kappa(Opinions.of(run), KappaParams(kappa=2.0))

    Shown in notebook ``explore``.
    """
    scene = KappaScene(opinions)
    scene.show(params or KappaParams())
    return scene.figure


def explore_kappa(opinions: Opinions, **start: Any) -> Explorer[KappaParams]:
    """The κ explorer: :func:`draw_kappa` with its sliders.

    Args:
        opinions: scores of weak views by both models, such as ``Opinions.of(run)``.
        start: fields of :class:`KappaParams` to begin with.

    Returns:
        The explorer; display it.

    >>> explore_kappa(Opinions.of(run), threshold=0.5)

    Shown in notebook ``explore``.
    """
    params = KappaParams(**start)
    return Explorer("kappa", KappaScene(opinions), params, {
        "kappa": controls.slider("κ", params.kappa, 0, 60, 0.5, "how fast λ falls with ΔC; 13.86 in the paper", 1),
        "threshold": controls.slider("threshold τ", params.threshold, 0, 1, 0.01, "least confidence of a label"),
        "step": controls.whole("local step", params.step, 0, opinions.steps - 1, "whose batch is shown"),
        "image": controls.whole("first image", params.image, 0, max(min(opinions.batch, len(opinions.true)) - 1, 0),
                                "first of the batch's images in the strip"),
    })  # fmt: skip


@dataclass(frozen=True)
class _Reading:
    params: KappaParams
    gap: Any
    weight: Any
    kinds: dict[str, Any]
    p_local: Any
    p_global: Any
    target: Any
    used: Any
    true: Any
    images: Any
    mass: dict[str, float | None]


class KappaScene:
    """The figure of the κ explorer, changed in place."""

    def __init__(self, opinions: Opinions) -> None:
        self.opinions = opinions
        with style():
            self.figure = fixed_figure(4.9)
            self._build()

    def show(self, params: KappaParams, previous: KappaParams | None = None) -> Shown:
        """Show this κ and threshold on one batch."""
        read = self._read(params)
        with style():
            self._curve(read)
            self._decided(read)
            self._strip(read)
        return self._told(read)

    def _read(self, params: KappaParams) -> _Reading:
        here = self.opinions.step(params.step)
        local, global_ = self.opinions.local[here], self.opinions.global_[here]
        true = self.opinions.true[here]
        if not 0 <= params.image < len(true):
            raise FedCoPLError(f"image={params.image} is not in this batch; its images are 0 to {len(true) - 1}")
        corrected = correct_pseudo_labels(local, global_, params.threshold, params.kappa)
        alone = correct_pseudo_labels(local, global_, params.threshold, params.kappa, fixed_weight=1.0)
        other = correct_pseudo_labels(local, global_, params.threshold, params.kappa, fixed_weight=0.0)
        p_local, p_global = local.softmax(dim=1), global_.softmax(dim=1)
        sure = p_local.amax(dim=1) >= params.threshold
        differ = p_local.argmax(dim=1) != p_global.argmax(dim=1)
        leads = corrected.weight >= 0.5
        kinds = (~corrected.used, corrected.used & ~differ, corrected.used & differ & ~sure,
                 sure & differ & leads, sure & differ & ~leads)  # fmt: skip
        mass = {
            name: float(labels.target.gather(1, true[:, None])[labels.used].mean()) if labels.used.any() else None
            for name, labels in (("local label", alone), ("corrected", corrected), ("global label", other))
        }
        return _Reading(
            params=params,
            gap=(p_local.amax(dim=1) - p_global.amax(dim=1)).abs().numpy(),
            weight=corrected.weight.numpy(),
            kinds={name: mask.numpy() for name, mask in zip(_KINDS, kinds, strict=True)},
            p_local=p_local.numpy(),
            p_global=p_global.numpy(),
            target=corrected.target.numpy(),
            used=corrected.used.numpy(),
            true=true.numpy(),
            images=_pixels(self.opinions.images[here]),
            mass=mass,
        )

    def _build(self) -> None:
        axes = panel(self.figure, (0.065, 0.455, 0.47, 0.46), "")
        self._title = moving_title(axes)
        axes.set_xlim(-0.02, 1)
        axes.set_ylim(-0.03, 1.04)
        axes.set_xlabel("discrepancy of the confidences, ΔC = |local − global|", labelpad=2)
        axes.set_ylabel("λ, weight of the local label")
        light_grid(axes)
        axes.axhline(0.5, color=QUIET, linewidth=0.8, linestyle=DASHED, zorder=0)
        self._x = np.linspace(0, 1, 201)
        (self._line,) = axes.plot(self._x, self._x, color=INK, linewidth=1.2, zorder=1)
        self._dots = {
            name: axes.plot([], [], marker=marker, color=color, linestyle="none", markersize=5.5, label=name,
                            markeredgecolor=QUIET if color == FAINT else "white", markeredgewidth=0.6)[0]
            for name, (color, marker) in _KINDS.items()
        }  # fmt: skip
        axes.legend(loc="upper right")
        axes = panel(self.figure, (0.665, 0.80, 0.315, 0.115), "Views of the batch, by who decides their label")
        axes.set_axis_off()
        self._counts = axes.barh([0] * len(_KINDS), [0] * len(_KINDS), 0.8, linewidth=0.6, edgecolor="white",
                                 color=[color for color, _ in _KINDS.values()])  # fmt: skip
        self._written = [axes.text(0, 0, "", ha="center", va="center", fontsize=7.5) for _ in _KINDS]
        axes.set_ylim(-0.5, 0.5)
        self._batch = axes
        names = ("local label", "corrected", "global label")
        axes = panel(self.figure, (0.665, 0.455, 0.315, 0.22), "Mean weight of the true class in the labels (%)")
        light_grid(axes, "x")
        axes.set_xlim(0, 100)
        axes.set_yticks(range(3), names)
        axes.set_ylim(2.55, -0.55)
        axes.tick_params(length=0)
        self._mass = axes.barh(range(3), [0, 0, 0], 0.6, color=(ORANGE, INK, BLUE))
        self._strip_axes = [_thumbnail(self.figure, place, self.opinions) for place in range(_SHOWN)]

    def _curve(self, read: _Reading) -> None:
        kappa, threshold = read.params.kappa, read.params.threshold
        self._title.set_text(f"λ = exp(−κ ΔC) with κ = {kappa:.2f}, and this batch on it at τ = {threshold:.2f}")
        self._line.set_ydata(np.exp(-read.params.kappa * self._x))
        for name, dots in self._dots.items():
            dots.set_data(read.gap[read.kinds[name]], read.weight[read.kinds[name]])

    def _decided(self, read: _Reading) -> None:
        start, total = 0, len(read.true)
        self._batch.set_xlim(0, total)
        for (name, (color, _)), bar, text in zip(_KINDS.items(), self._counts, self._written, strict=True):
            count = int(read.kinds[name].sum())
            bar.set_x(start)
            bar.set_width(count)
            text.set_position((start + count / 2, 0))
            text.set_text(str(count) if count >= 0.03 * total else "")
            text.set_color(INK if color == FAINT else "white")
            start += count
        for bar, value in zip(self._mass, read.mass.values(), strict=True):
            bar.set_width(100 * (value or 0.0))

    def _strip(self, read: _Reading) -> None:
        names = self.opinions.class_names
        for place, part in enumerate(self._strip_axes):
            at = read.params.image + place
            part.visible(at < len(read.true))
            if at < len(read.true):
                local, global_ = int(read.p_local[at].argmax()), int(read.p_global[at].argmax())
                part.show(
                    read.images[at],
                    f"true {names[read.true[at]]}",
                    f"local {names[local]} {read.p_local[at, local]:.2f}",
                    f"global {names[global_]} {read.p_global[at, global_]:.2f}",
                    float(read.target[at, local]) if read.used[at] else None,
                    agreed=local == global_,
                )

    def _told(self, read: _Reading) -> Shown:
        count = {name: int(mask.sum()) for name, mask in read.kinds.items()}
        local, global_ = (count[name] for name in list(_KINDS)[3:])
        disputed = local + global_
        share = f"{100 * global_ / disputed:.0f} % of them" if disputed else "none"
        text = (
            f"κ = {read.params.kappa:.2f}, τ = {read.params.threshold:.2f}: {int(read.used.sum())} of {len(read.true)} "
            f"views get a label; the models dispute {disputed} where the local one is confident, {share} decided "
            "for the global model."
        )
        note = "" if read.used.any() else "No view reaches the threshold in either model: there is no label to correct."
        return Shown(text, {
            "used": int(read.used.sum()), "views": len(read.true), "disputed": disputed, "for_global": global_,
            "share_for_global": global_ / disputed if disputed else None, "true_mass": read.mass,
            "weights": [round(float(value), 6) for value in read.weight],
        }, note)  # fmt: skip


class _Thumbnail:
    """An image with both models' labels and the share of the local one in the target."""

    def __init__(self, picture: Axes, bar: Axes, shape: tuple[int, ...]) -> None:
        self.axes = (picture, bar)
        self.image = picture.imshow(np.zeros(shape, dtype=np.uint8), interpolation="nearest")
        self.title = picture.text(0.5, 1.04, "", fontsize=7, ha="center", transform=picture.transAxes)
        (self.left,) = bar.barh([0], [0], 1, color=ORANGE)
        (self.right,) = bar.barh([0], [0], 1, color=BLUE)
        bar.set_xlim(0, 1)
        bar.set_ylim(-0.5, 0.5)
        look: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 6.5, "transform": bar.transAxes}
        self.lines = [bar.text(0.5, -0.45, "", color="#a84900", **look), bar.text(0.5, -1.95, "", color=BLUE, **look)]

    def visible(self, on: bool) -> None:
        for axes in self.axes:
            axes.set_visible(on)

    def show(self, pixels: Any, title: str, local: str, global_: str, share: float | None, agreed: bool) -> None:
        self.image.set_data(pixels)
        self.title.set_text(title if share is not None else f"{title}, no label")
        self.left.set_width(share or 0.0)
        self.left.set_facecolor(QUIET if agreed else ORANGE)
        self.right.set_x(share or 0.0)
        self.right.set_width(0.0 if share is None else 1 - share)
        for text, line in zip(self.lines, (local, global_), strict=True):
            text.set_text(line)


def _thumbnail(figure: Picture, place: int, opinions: Opinions) -> _Thumbnail:
    left, width = 0.02 + 0.139 * place, 0.125
    picture = figure.add_axes((left, 0.135, width, 0.155))
    bar = figure.add_axes((left, 0.092, width, 0.026))
    for axes in (picture, bar):
        axes.set_xticks([])
        axes.set_yticks([])
        for side in axes.spines.values():
            side.set_visible(False)
    bar.set_facecolor(FAINT)
    return _Thumbnail(picture, bar, (*opinions.images.shape[2:], 3))


def _pixels(images: torch.Tensor) -> Any:
    return images.permute(0, 2, 3, 1).numpy()
