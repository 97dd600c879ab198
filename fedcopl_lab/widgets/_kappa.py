"""The κ explorer: how SAGE weighs a client's own label against the global model's (SAGE Eqs. 1 to 6)."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import KAPPA_STAR
from fedcopl_lab.report.looks import BLUE, DASHED, FAINT, GREEN, INK, ORANGE, QUIET, Picture
from fedcopl_lab.steps import correct_pseudo_labels
from fedcopl_lab.widgets._explorer import Explorer, int_slider, slider
from fedcopl_lab.widgets._panels import moving_title, panel
from fedcopl_lab.widgets._redraw import Readout, Scene
from fedcopl_lab.widgets._sources import WeakViewScores

_N_THUMBNAILS = 7
_GAPS = np.linspace(0, 1, 201)
_DECIDED_BY = {
    "no label": (FAINT, "o"), "both say the same": (QUIET, "o"), "global model alone": (GREEN, "^"),
    "disputed, local label leads": (ORANGE, "s"), "disputed, global label leads": (BLUE, "D"),
}  # fmt: skip


@dataclass(frozen=True)
class KappaParams:
    """What the κ explorer shows.

    Attributes:
        kappa: how fast λ falls with the discrepancy ΔC, 0 or more.
        threshold: τ, the least confidence of a label, in [0, 1].
        step: which local step's batch is shown on the curve.
        image: the first of the batch's images that are shown.
    """

    kappa: float = KAPPA_STAR
    threshold: float = 0.95
    step: int = 0
    image: int = 0


def draw_kappa(scores: WeakViewScores, params: KappaParams | None = None) -> Picture:
    """λ(ΔC) with a batch on it, which model decides its labels, and some corrected labels (SAGE Eqs. 1-6).

    Args:
        scores: scores of weak views by both models, such as ``WeakViewScores.of(run)``.
        params: κ, τ, batch and images; None takes the defaults.

    Returns:
        A figure of three panels and a strip of images.

    Raises:
        FedCoPLError: κ below 0, τ outside [0, 1], or a batch or image that does not exist.

    >>> local, images = torch.eye(2), torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    >>> scores = WeakViewScores(local, 4 * local, torch.tensor([0, 1]), images, ("cat", "dog"))
    >>> figure = draw_kappa(scores, KappaParams(kappa=2.0, threshold=0.5))

    Shown in notebook ``explore``.
    """
    return KappaScene(scores).draw(params or KappaParams())


def explore_kappa(scores: WeakViewScores, **start: Any) -> Explorer[KappaParams]:
    """The κ explorer: :func:`draw_kappa` with its sliders.

    Args:
        scores: scores of weak views by both models, such as ``WeakViewScores.of(run)``.
        start: fields of :class:`KappaParams` to begin with.

    >>> one = WeakViewScores(torch.eye(2), torch.eye(2), torch.arange(2), torch.zeros(2, 3, 8, 8).byte(), ("a", "b"))
    >>> explore_kappa(one, threshold=0.5).numbers["used"]
    2

    Shown in notebook ``explore``.
    """
    params = KappaParams(**start)
    last = max(min(scores.batch, len(scores.true)) - 1, 0)
    return Explorer("kappa", KappaScene(scores), params, {
        "kappa": slider("κ", params.kappa, 0, 60, 0.5, "how fast λ falls with ΔC; 13.86 in the paper", 1),
        "threshold": slider("threshold τ", params.threshold, 0, 1, 0.01, "least confidence of a label"),
        "step": int_slider("local step", params.step, 0, scores.steps - 1, "whose batch is shown"),
        "image": int_slider("first image", params.image, 0, last, "first of the batch's images in the strip"),
    })  # fmt: skip


class KappaScene(Scene[KappaParams]):
    """The figure of the κ explorer, changed in place."""

    def __init__(self, scores: WeakViewScores) -> None:
        super().__init__()
        self.scores = scores

    def _compute(self, params: KappaParams, previous: KappaParams | None) -> SimpleNamespace:
        here = self.scores.step(params.step)
        logits, true = (self.scores.local[here], self.scores.global_[here]), self.scores.true[here]
        if not 0 <= params.image < len(true):
            raise FedCoPLError(f"image={params.image} is not in this batch; its images are 0 to {len(true) - 1}")
        labels = {
            name: correct_pseudo_labels(*logits, params.threshold, params.kappa, fixed_weight=weight)
            for name, weight in (("local label", 1.0), ("corrected", None), ("global label", 0.0))
        }
        corrected = labels["corrected"]
        p_local, p_global = (scores.softmax(dim=1) for scores in logits)
        confident = p_local.amax(dim=1) >= params.threshold
        differ = p_local.argmax(dim=1) != p_global.argmax(dim=1)
        disputed, local_leads = confident & differ, corrected.weight >= 0.5
        alone = corrected.used & differ & ~confident
        decided = (~corrected.used, corrected.used & ~differ, alone, disputed & local_leads, disputed & ~local_leads)
        return SimpleNamespace(
            built_for=self.scores.class_names, params=params,
            gap=(p_local.amax(dim=1) - p_global.amax(dim=1)).abs().numpy(), weight=corrected.weight.numpy(),
            decided={name: mask.numpy() for name, mask in zip(_DECIDED_BY, decided, strict=True)},
            p_local=p_local.numpy(), p_global=p_global.numpy(),
            target=corrected.target.numpy(), used=corrected.used.numpy(), true=true.numpy(),
            images=self.scores.images[here].permute(0, 2, 3, 1).numpy(),
            true_mass={name: float(one.target.gather(1, true[:, None])[one.used].mean()) if one.used.any() else None
                       for name, one in labels.items()},
        )  # fmt: skip

    def _build(self, values: SimpleNamespace) -> None:
        axes = panel(self.figure, (0.065, 0.455, 0.47, 0.46), xlim=(-0.02, 1), ylim=(-0.03, 1.04))
        self._title = moving_title(axes)
        axes.set_xlabel("discrepancy of the confidences, ΔC = |local − global|", labelpad=2)
        axes.set_ylabel("λ, weight of the local label")
        axes.axhline(0.5, color=QUIET, linewidth=0.8, linestyle=DASHED, zorder=0)
        (self._line,) = axes.plot(_GAPS, _GAPS, color=INK, linewidth=1.2, zorder=1)
        dot: dict[str, Any] = {"linestyle": "none", "markersize": 5.5, "markeredgewidth": 0.6}
        self._dots = {}
        for name, (color, marker) in _DECIDED_BY.items():
            edge = QUIET if color == FAINT else "white"
            (self._dots[name],) = axes.plot([], [], marker=marker, color=color, label=name, markeredgecolor=edge, **dot)
        axes.legend(loc="upper right")
        title = "Views of the batch, by who decides their label"
        self._batch = axes = panel(self.figure, (0.665, 0.80, 0.315, 0.115), title, grid="", ylim=(-0.5, 0.5))
        axes.set_axis_off()
        colors, zeros = [color for color, _ in _DECIDED_BY.values()], [0] * len(_DECIDED_BY)
        self._counts = axes.barh(zeros, zeros, 0.8, linewidth=0.6, edgecolor="white", color=colors)
        self._count_texts = [axes.text(0, 0, "", ha="center", va="center", fontsize=7.5) for _ in zeros]
        axes = panel(self.figure, (0.665, 0.455, 0.315, 0.22), "Mean weight of the true class in the labels (%)", "x")
        axes.set(xlim=(0, 100), yticks=range(3), yticklabels=values.true_mass, ylim=(2.55, -0.55))
        axes.tick_params(length=0)
        self._mass = axes.barh(range(3), [0, 0, 0], 0.6, color=(ORANGE, INK, BLUE))
        self._thumbnails = [_Thumbnail(self.figure, 0.02 + 0.139 * n, values.images[0]) for n in range(_N_THUMBNAILS)]

    def _update(self, values: SimpleNamespace) -> None:
        kappa, threshold = values.params.kappa, values.params.threshold
        self._title.set_text(f"λ = exp(−κ ΔC) with κ = {kappa:.2f}, and this batch on it at τ = {threshold:.2f}")
        self._line.set_ydata(np.exp(-kappa * _GAPS))
        start, total = 0, len(values.true)
        self._batch.set_xlim(0, total)
        for (name, mask), bar, text in zip(values.decided.items(), self._counts, self._count_texts, strict=True):
            self._dots[name].set_data(values.gap[mask], values.weight[mask])
            count = int(mask.sum())
            bar.set(x=start, width=count)
            color = INK if _DECIDED_BY[name][0] == FAINT else "white"
            text.set(position=(start + count / 2, 0), text=str(count) if count >= 0.03 * total else "", color=color)
            start += count
        for bar, value in zip(self._mass, values.true_mass.values(), strict=True):
            bar.set_width(100 * (value or 0.0))
        for place, thumbnail in enumerate(self._thumbnails, start=values.params.image):
            thumbnail.show(values, place, self.scores.class_names)

    def _describe(self, values: SimpleNamespace) -> Readout:
        used, total = int(values.used.sum()), len(values.true)
        *_, for_local, for_global = (int(mask.sum()) for mask in values.decided.values())
        disputed = for_local + for_global
        share = f"{100 * for_global / disputed:.0f} % of them" if disputed else "none"
        text = (
            f"κ = {values.params.kappa:.2f}, τ = {values.params.threshold:.2f}: {used} of {total} views get a label; "
            f"the models dispute {disputed} where the local one is confident, {share} decided for the global model."
        )
        note = "" if used else "No view reaches the threshold in either model: there is no label to correct."
        numbers = {
            "used": used, "views": total, "disputed": disputed, "for_global": for_global,
            "share_for_global": for_global / disputed if disputed else None, "true_mass": values.true_mass,
            "weights": [round(float(value), 6) for value in values.weight],
        }  # fmt: skip
        return Readout(text, numbers, note)


class _Thumbnail:
    """An image with both models' labels and the share of the local one in the target."""

    def __init__(self, figure: Picture, left: float, pixels: Any) -> None:
        self.axes = [figure.add_axes((left, 0.135, 0.125, 0.155)), figure.add_axes((left, 0.092, 0.125, 0.026))]
        picture, bar = self.axes
        for axes in self.axes:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        bar.set(facecolor=FAINT, xlim=(0, 1), ylim=(-0.5, 0.5))
        self.image = picture.imshow(np.zeros_like(pixels), interpolation="nearest")
        self.title = picture.text(0.5, 1.04, "", fontsize=7, ha="center", transform=picture.transAxes)
        (self.left,), (self.right,) = bar.barh([0], [0], 1, color=ORANGE), bar.barh([0], [0], 1, color=BLUE)
        look: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 6.5, "transform": bar.transAxes}
        self.local = bar.text(0.5, -0.45, "", color="#a84900", **look)
        self.global_ = bar.text(0.5, -1.95, "", color=BLUE, **look)

    def show(self, values: SimpleNamespace, place: int, names: tuple[str, ...]) -> None:
        """That image of the batch; nothing beyond its end."""
        for axes in self.axes:
            axes.set_visible(place < len(values.true))
        if place >= len(values.true):
            return
        p_local, p_global, used = values.p_local[place], values.p_global[place], values.used[place]
        local, global_ = int(p_local.argmax()), int(p_global.argmax())
        share = float(values.target[place, local]) if used else 0.0
        self.image.set_data(values.images[place])
        self.title.set_text(f"true {names[values.true[place]]}" + ("" if used else ", no label"))
        self.left.set(width=share, facecolor=QUIET if local == global_ else ORANGE)
        self.right.set(x=share, width=1 - share if used else 0.0)
        self.local.set_text(f"local {names[local]} {p_local[local]:.2f}")
        self.global_.set_text(f"global {names[global_]} {p_global[global_]:.2f}")
