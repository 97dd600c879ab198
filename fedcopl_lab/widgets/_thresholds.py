"""The τ explorer: what the two filters of FedCoPL keep on one client, and what follows from it (Eqs. 2 and 3)."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from fedcopl_lab.data import heterogeneity
from fedcopl_lab.methods import copl, filter_all, phase_counts
from fedcopl_lab.report.looks import BLUE, DASHED, FAINT, GREEN, INK, ORANGE, QUIET, Picture
from fedcopl_lab.steps import entropy, log_odds
from fedcopl_lab.widgets._explorer import Explorer, dropdown, int_slider, slider
from fedcopl_lab.widgets._panels import class_axis, nice_top, panel, set_heights
from fedcopl_lab.widgets._redraw import Readout, Scene
from fedcopl_lab.widgets._sources import DATASETS, Sources, catalogue_of

_CONFIDENCES = (0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 0.999, 0.9999, 0.999999, 1 - 1e-8)
_NATS = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0)
_FEWEST_NATS = 1e-9
_STAGES = {"predicted": "all predictions", "kept": "kept by the filters", "selected": "selected"}
_BAR = 0.36
_DOTS: dict[str, dict[str, Any]] = {
    "left out": {"marker": "o", "color": QUIET, "markerfacecolor": "none", "markersize": 3.4, "markeredgewidth": 0.6,
                 "alpha": 0.7},
    "kept": {"marker": "o", "color": BLUE, "markersize": 3.8, "markeredgewidth": 0, "alpha": 0.85},
    "gained by this move": {"marker": "^", "color": GREEN, "markersize": 6.0, "markeredgewidth": 0},
    "lost by it": {"marker": "x", "color": ORANGE, "markersize": 5.0, "markeredgewidth": 1.2},
}  # fmt: skip


@dataclass(frozen=True)
class ThresholdParams:
    """What the τ explorer shows.

    Attributes:
        dataset: whose images.
        client: which client's images.
        q_conf: quantile level of τ1, the confidence threshold, in [0, 1]; larger is stricter.
        q_ent: level of τ2, the entropy threshold, in [0, 1]; larger is stricter.
    """

    dataset: str = "digits"
    client: int = 4
    q_conf: float = 0.5
    q_ent: float = 0.5


def draw_thresholds(params: ThresholdParams | None = None, sources: Sources = DATASETS) -> Picture:
    """Which images of a client both filters keep, and the estimate, quota and labels that follow (Eqs. 2 and 3).

    Args:
        params: levels, client and data set; None takes the defaults.
        sources: names of data sets, or :class:`Scores`, to choose among.

    Returns:
        A figure of four panels.

    Raises:
        FedCoPLError: an unknown data set or client, or levels outside [0, 1].

    >>> figure = draw_thresholds(ThresholdParams(q_conf=0.7))

    Shown in notebook ``explore``.
    """
    return ThresholdScene(sources).draw(params or ThresholdParams())


def explore_thresholds(sources: Sources = DATASETS, **start: Any) -> Explorer[ThresholdParams]:
    """The τ explorer: :func:`draw_thresholds` with a slider for each level and for the client.

    Args:
        sources: names of data sets, or :class:`Scores`, to choose among.
        start: fields of :class:`ThresholdParams` to begin with.

    >>> explorer = explore_thresholds(q_conf=0.6)
    >>> explorer.set(client=3)
    >>> explorer.params.client, explorer.params.q_conf
    (3, 0.6)

    Shown in notebook ``explore``.
    """
    scene = ThresholdScene(sources)
    params = ThresholdParams(**{"dataset": scene.catalogue.names[0]} | start)
    known = [scene.catalogue[params.dataset], *scene.catalogue.values()]
    clients = max(len(scores.logits) for scores in known)
    params = params if "client" in start else replace(params, client=min(params.client, clients - 1))
    conf_tip = "quantile level of the confidence threshold; larger is stricter"
    ent_tip = "level of the entropy threshold; larger is stricter"
    return Explorer("thresholds", scene, params, {
        "q_conf": slider("τ1 level (q_conf)", params.q_conf, 0, 1, 0.02, conf_tip),
        "q_ent": slider("τ2 level (q_ent)", params.q_ent, 0, 1, 0.02, ent_tip),
        "client": int_slider("client", params.client, 0, clients - 1, "whose images are shown"),
        "dataset": dropdown("data set", params.dataset, scene.catalogue.names, "whose images are shown"),
    })  # fmt: skip


class ThresholdScene(Scene[ThresholdParams]):
    """The figure of the τ explorer, changed in place."""

    def __init__(self, sources: Sources = DATASETS) -> None:
        super().__init__()
        self.catalogue = catalogue_of(sources)

    def _compute(self, params: ThresholdParams, previous: ThresholdParams | None) -> SimpleNamespace:
        scores = self.catalogue[params.dataset]
        client = scores.client(params.client)
        logits = scores.logits[client]
        config = replace(scores.config, q_conf=params.q_conf, q_ent=params.q_ent)
        phase = copl(scores.logits, config, n_train=scores.n_train, phase=0)
        counts = phase_counts(phase, scores.true)
        filtered = phase.filtered[client]
        now, before = filtered.kept, filtered.kept
        if previous is not None and (previous.dataset, previous.client) == (params.dataset, client):
            then = replace(config, q_conf=previous.q_conf, q_ent=previous.q_ent)
            before = filter_all(scores.logits, then)[client].kept
        stages = ("true", "kept", "selected", "selected_right")
        true, kept, selected, right = (counts[stage][client].numpy() for stage in stages)
        return SimpleNamespace(
            built_for=scores.class_names, client=client,
            odds=log_odds(logits).clamp(-4, 37).numpy(),
            nats=entropy(logits).clamp(min=_FEWEST_NATS).log10().numpy(),
            dots=[mask.numpy() for mask in (~now & ~before, now & before, now & ~before, before & ~now)],
            tau1=filtered.confidence_threshold, tau2=filtered.entropy_threshold, fallback=filtered.fallback,
            true=true, kept=kept, quota=phase.quota[client].numpy(), selected=selected, right=right,
            accuracies={s: counts[f"{s}_right"].sum(dim=1).double() / counts[s].sum(dim=1) for s in _STAGES},
            distance=heterogeneity(true[None], kept[None]).train_test_variation,
        )  # fmt: skip

    def _build(self, values: SimpleNamespace) -> None:
        labels = {"xlabel": "confidence (largest probability)", "ylabel": "entropy (nats)"}
        self._left = axes = panel(self.figure, (0.065, 0.105, 0.40, 0.80), grid="", **labels)
        self._region = Rectangle((0, 0), 1, 1, facecolor=BLUE, alpha=0.08, linewidth=0, zorder=0)
        axes.add_patch(self._region)
        self._dots = [axes.plot([], [], linestyle="none", label=name, **look)[0] for name, look in _DOTS.items()]
        self._lines = [axes.plot([], [], color=INK, linewidth=0.9, linestyle=DASHED)[0] for _ in range(2)]
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
        self._tau1 = axes.text(0, 0, "", ha="right", va="top", fontsize=7.5, bbox=ground)
        self._tau2 = axes.text(0, 0, "", ha="left", va="bottom", fontsize=7.5, bbox=ground)
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.0)}
        axes.legend(handles=self._dots, ncols=4, handletextpad=0.1, columnspacing=1.2, **place)
        self._build_classes(values.built_for)
        right = panel(self.figure, (0.66, 0.105, 0.32, 0.155), "Right labels (%)", "x", xlim=(0, 100))
        rows = range(len(_STAGES))
        right.set(yticks=rows, yticklabels=_STAGES.values(), ylim=(len(rows) - 0.45, -0.55))
        right.tick_params(length=0)
        self._own = right.barh(rows, [0] * len(rows), 0.62, color=(FAINT, QUIET, BLUE))
        look: dict[str, Any] = {"linestyle": "none", "marker": "D", "markersize": 4.2, "markeredgewidth": 0.6}
        (self._mean,) = right.plot([], [], color=INK, markeredgecolor="white", label="mean over clients", **look)
        right.legend(handles=[self._mean], loc="lower right", bbox_to_anchor=(1.02, 0.96), handletextpad=0.1)

    def _build_classes(self, names: tuple[str, ...]) -> None:
        self._mix = panel(self.figure, (0.545, 0.715, 0.435, 0.205), "Classes of this client", ylabel="% of images")
        self._taken = panel(self.figure, (0.545, 0.385, 0.435, 0.205), "By predicted class", ylabel="images")
        x = np.arange(len(names))

        def bars(axes: Any, side: int, face: str, edge: str, label: str) -> Any:
            where = x + side * _BAR / 2
            return axes.bar(where, 0.0 * x, _BAR, linewidth=0.7, facecolor=face, edgecolor=edge, label=label)

        self._true = bars(self._mix, -1, FAINT, QUIET, "true")
        self._estimated = bars(self._mix, 1, BLUE, BLUE, "estimated from the kept")
        self._kept = bars(self._taken, -1, "white", INK, "kept")
        self._right = bars(self._taken, 1, BLUE, BLUE, "selected, right")
        self._wrong = bars(self._taken, 1, ORANGE, ORANGE, "wrong")
        look: dict[str, Any] = {"linestyle": "none", "marker": "_", "markersize": 11, "markeredgewidth": 1.6}
        self._quota = Line2D([], [], color=INK, label="quota", **look)
        self._taken.add_line(self._quota)
        place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.01, 0.98), "handlelength": 1.1}
        for axes, columns in ((self._mix, 2), (self._taken, 4)):
            class_axis(axes, names, label=False)
            axes.legend(ncols=columns, handletextpad=0.4, columnspacing=1.0, **place)

    def _update(self, values: SimpleNamespace) -> None:
        self._update_scatter(values)
        shares = [100 * counts / max(int(counts.sum()), 1) for counts in (values.true, values.kept)]
        set_heights(self._true, shares[0])
        set_heights(self._estimated, shares[1])
        self._mix.set_ylim(0, nice_top(max(map(np.max, shares))))
        set_heights(self._kept, values.kept)
        set_heights(self._right, values.right)
        set_heights(self._wrong, values.selected - values.right, values.right)
        asked = np.flatnonzero(values.quota)
        self._quota.set_data(asked + _BAR / 2, values.quota[asked])
        self._taken.set_ylim(0, nice_top(float(max(values.kept.max(), values.quota.max(), values.selected.max()))))
        for bar, accuracy in zip(self._own, values.accuracies.values(), strict=True):
            bar.set_width(float(100 * accuracy[values.client].nan_to_num()))
        means = [float((100 * accuracy).nanmean()) for accuracy in values.accuracies.values()]
        self._mean.set_data(means, range(len(means)))

    def _update_scatter(self, values: SimpleNamespace) -> None:
        axes, least, most = self._left, values.tau1, values.tau2
        for dots, mask in zip(self._dots, values.dots, strict=True):
            dots.set_data(values.odds[mask], values.nats[mask])
        (left, right), (bottom, top) = _span(values.odds), _span(values.nats)
        width, height = right - left, top - bottom
        x = left if least is None else float(np.clip(_odds(least), left, right))
        y = top if most is None else float(np.clip(np.log10(max(most, _FEWEST_NATS)), bottom, top))
        self._region.set_bounds(x, bottom, right - x, y - bottom)
        self._lines[0].set_data([x, x], [bottom, top])
        self._lines[1].set_data([left, right], [y, y])
        room = x - left > 0.3 * width
        place = (x + (-0.015 if room else 0.015) * width, top - 0.01 * height)
        text = "" if least is None else f"τ1: confidence > {_probability(least)}"
        self._tau1.set(horizontalalignment="right" if room else "left", position=place, text=text)
        room = top - y > 0.1 * height
        place = (left + 0.01 * width, y + (0.012 if room else -0.012) * height)
        text = "" if most is None else f"τ2: entropy < {most:.3g} nats"
        self._tau2.set(verticalalignment="bottom" if room else "top", position=place, text=text)
        axes.set(xlim=(left, right), ylim=(bottom, top))
        axes.set_xticks(*_marks([(_odds(p), _probability(p)) for p in _CONFIDENCES], left, right, 7))
        axes.set_yticks(*_marks([(float(np.log10(h)), f"{h:g}") for h in _NATS], bottom, top, 8))

    def _describe(self, values: SimpleNamespace) -> Readout:
        kept, every, quota = int(values.kept.sum()), len(values.odds), int(values.quota.sum())
        gained, lost = (int(mask.sum()) for mask in values.dots[2:])
        selected = int(values.selected.sum())
        right = {stage: float(accuracy[values.client]) for stage, accuracy in values.accuracies.items()}
        text = (
            f"Client {values.client} keeps {kept} of {every} images ({gained} gained, {lost} lost by this move), "
            f"{100 * right['kept']:.1f} % of them with the right label; the server asks for {quota}, "
            f"it finds {selected}, {100 * right['selected']:.1f} % right. Distance of the estimated from the true "
            f"classes: {values.distance:.2f} (total variation, 0 to 1)."
        )
        note = "No image passes both filters: the most confident share is kept instead." if values.fallback else ""
        numbers = {
            "kept": kept, "images": every, "gained": gained, "lost": lost, "quota": quota, "selected": selected,
            "label_accuracy": right["selected"], "kept_accuracy": right["kept"],
            "kept_per_class": values.kept.tolist(), "estimate_distance": values.distance,
            "thresholds": (values.tau1, values.tau2), "fallback": values.fallback,
        }  # fmt: skip
        return Readout(text, numbers, note)


def _span(values: Any) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    room = 0.05 * (high - low) + 1e-3
    return low - room, high + room


def _odds(p: float) -> float:
    return float(torch.tensor(p, dtype=torch.float64).logit().clamp(-4, 37))


def _probability(p: float) -> str:
    if p < 0.9995:
        return f"{p:.3g}" if p < 0.995 else f"{p:.4g}"
    return f"1 − {1 - p:.0e}".replace("e-0", "e-") if p < 1 else "1"


def _marks(marks: list[tuple[float, str]], low: float, high: float, at_most: int) -> tuple[list[float], list[str]]:
    """Places and labels of those ticks inside the axis that do not meet."""
    kept: list[tuple[float, str]] = []
    for place, label in marks:
        if low <= place <= high and (not kept or place - kept[-1][0] >= (high - low) / at_most):
            kept.append((place, label))
    return [place for place, _ in kept], [label for _, label in kept]
