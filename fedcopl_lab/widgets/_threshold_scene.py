"""The figure of the τ explorer: four panels that follow the levels of both filters."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from fedcopl_lab.data import heterogeneity
from fedcopl_lab.methods import PhaseCounts, copl, phase_counts
from fedcopl_lab.report.looks import BLUE, FAINT, GREEN, INK, ORANGE, QUIET, light_grid, style
from fedcopl_lab.steps import FilteredSet, entropy, filter_confident, log_odds
from fedcopl_lab.widgets._canvas import DASHED, class_axis, fixed_figure, nice_top, panel
from fedcopl_lab.widgets._explorer import Shown
from fedcopl_lab.widgets._sources import DATASETS, Catalogue, Scores

_CONFIDENCES = (0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 0.999, 0.9999, 0.999999, 1 - 1e-8)
_NATS = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0)
_FEWEST_NATS = 1e-9
_STAGES = {"predicted": "all predictions", "kept": "kept by the filters", "selected": "selected"}
_BAR = 0.36


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


@dataclass(frozen=True)
class _Reading:
    """All that the picture needs, computed before any artist is touched."""

    names: tuple[str, ...]
    client: int
    odds: Any
    nats: Any
    filtered: FilteredSet
    gained: Any
    lost: Any
    quota: Any
    counts: PhaseCounts
    distance: float


class ThresholdScene:
    """The figure of the τ explorer, changed in place."""

    def __init__(self, sources: Iterable[str | Scores] | Catalogue = DATASETS) -> None:
        self.catalogue = sources if isinstance(sources, Catalogue) else Catalogue(sources)
        with style():
            self.figure = fixed_figure(4.9)
        self._names: tuple[str, ...] = ()

    def show(self, params: ThresholdParams, previous: ThresholdParams | None = None) -> Shown:
        """Show these levels, and what changed since those before on the same client."""
        read = self._read(params, previous)
        with style():
            if read.names != self._names:
                self._build(read.names)
            self._scatter(read)
            self._classes(read)
        return _told(read)

    def _read(self, params: ThresholdParams, previous: ThresholdParams | None) -> _Reading:
        scores = self.catalogue[params.dataset]
        client = scores.client(params.client)
        config = replace(scores.config, q_conf=params.q_conf, q_ent=params.q_ent)
        phase = copl(scores.logits, config, n_train=scores.n_train, phase=0)
        counts = phase_counts(phase, scores.true)
        now, before = phase.filtered[client].kept, phase.filtered[client].kept
        if previous is not None and (previous.dataset, previous.client) == (params.dataset, client):
            before = filter_confident(scores.logits[client], previous.q_conf, previous.q_ent).kept
        mine = slice(client, client + 1)
        return _Reading(
            names=scores.class_names,
            client=client,
            odds=log_odds(scores.logits[client]).clamp(-4, 37).numpy(),
            nats=entropy(scores.logits[client]).clamp(min=_FEWEST_NATS).log10().numpy(),
            filtered=phase.filtered[client],
            gained=(now & ~before).numpy(),
            lost=(before & ~now).numpy(),
            quota=phase.quota[client].numpy(),
            counts=counts,
            distance=heterogeneity(counts.true[mine].numpy(), counts.kept[mine].numpy()).train_test_variation,
        )

    def _build(self, names: tuple[str, ...]) -> None:
        self.figure.clear()
        self._names = names
        axes = panel(self.figure, (0.065, 0.105, 0.40, 0.80), "")
        self._left = axes
        self._region = Rectangle((0, 0), 1, 1, facecolor=BLUE, alpha=0.08, linewidth=0, zorder=0)
        axes.add_patch(self._region)
        looks: dict[str, dict[str, Any]] = {
            "left out": {"marker": "o", "color": QUIET, "markerfacecolor": "none", "markersize": 3.4,
                         "markeredgewidth": 0.6, "alpha": 0.7},
            "kept": {"marker": "o", "color": BLUE, "markersize": 3.8, "markeredgewidth": 0, "alpha": 0.85},
            "gained by this move": {"marker": "^", "color": GREEN, "markersize": 6.0, "markeredgewidth": 0},
            "lost by it": {"marker": "x", "color": ORANGE, "markersize": 5.0, "markeredgewidth": 1.2},
        }  # fmt: skip
        self._dots = {name: axes.plot([], [], linestyle="none", label=name, **look)[0] for name, look in looks.items()}
        (self._at_least,) = axes.plot([], [], color=INK, linewidth=0.9, linestyle=DASHED)
        (self._at_most,) = axes.plot([], [], color=INK, linewidth=0.9, linestyle=DASHED)
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
        self._tau1 = axes.text(0, 0, "", ha="right", va="top", fontsize=7.5, bbox=ground)
        self._tau2 = axes.text(0, 0, "", ha="left", va="bottom", fontsize=7.5, bbox=ground)
        axes.set_xlabel("confidence (largest probability)")
        axes.set_ylabel("entropy (nats)")
        axes.legend(handles=list(self._dots.values()), loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=4,
                    handletextpad=0.1, columnspacing=1.2)  # fmt: skip
        mix = panel(self.figure, (0.545, 0.715, 0.435, 0.205), "Classes of this client")
        taken = panel(self.figure, (0.545, 0.385, 0.435, 0.205), "By predicted class")
        right = panel(self.figure, (0.66, 0.105, 0.32, 0.155), "Right labels (%)")
        self._mix, self._taken = mix, taken
        class_axis(mix, names, label=False)
        class_axis(taken, names, label=False)
        x = np.arange(len(names))
        self._true = _bars(mix, x - _BAR / 2, facecolor=FAINT, edgecolor=QUIET, label="true")
        self._estimated = _bars(mix, x + _BAR / 2, facecolor=BLUE, edgecolor=BLUE, label="estimated from the kept")
        self._kept = _bars(taken, x - _BAR / 2, facecolor="white", edgecolor=INK, label="kept")
        self._right = _bars(taken, x + _BAR / 2, facecolor=BLUE, edgecolor=BLUE, label="selected, right")
        self._wrong = _bars(taken, x + _BAR / 2, facecolor=ORANGE, edgecolor=ORANGE, label="wrong")
        self._quota = Line2D([], [], color=INK, linestyle="none", marker="_", markersize=11, markeredgewidth=1.6,
                             label="quota")  # fmt: skip
        taken.add_line(self._quota)
        for axes, columns in ((mix, 2), (taken, 4)):
            light_grid(axes)
            axes.legend(loc="lower right", bbox_to_anchor=(1.01, 0.98), ncols=columns,
                        handlelength=1.1, handletextpad=0.4, columnspacing=1.0)  # fmt: skip
        mix.set_ylabel("% of images")
        taken.set_ylabel("images")
        light_grid(right, "x")
        right.set_xlim(0, 100)
        right.set_yticks(range(len(_STAGES)), list(_STAGES.values()))
        right.set_ylim(len(_STAGES) - 0.45, -0.55)
        right.tick_params(length=0)
        self._own = right.barh(range(len(_STAGES)), [0] * len(_STAGES), 0.62, color=(FAINT, QUIET, BLUE))
        (self._mean,) = right.plot([], [], color=INK, linestyle="none", marker="D", markersize=4.2,
                                   markeredgecolor="white", markeredgewidth=0.6, label="mean over clients")  # fmt: skip
        right.legend(handles=[self._mean], loc="lower right", bbox_to_anchor=(1.02, 0.96), handletextpad=0.1)

    def _scatter(self, read: _Reading) -> None:
        axes, kept = self._left, read.filtered.kept.numpy()
        masks = (~kept & ~read.lost, kept & ~read.gained, read.gained, read.lost)
        for dots, mask in zip(self._dots.values(), masks, strict=True):
            dots.set_data(read.odds[mask], read.nats[mask])
        left, right = _span(read.odds)
        bottom, top = _span(read.nats)
        least = read.filtered.confidence_threshold
        most = read.filtered.entropy_threshold
        x = left if least is None else float(np.clip(_odds(least), left, right))
        y = top if most is None else float(np.clip(np.log10(max(most, _FEWEST_NATS)), bottom, top))
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        self._region.set_bounds(x, bottom, right - x, y - bottom)
        self._at_least.set_data([x, x], [bottom, top])
        self._at_most.set_data([left, right], [y, y])
        room = x - left > 0.3 * (right - left)
        self._tau1.set_horizontalalignment("right" if room else "left")
        self._tau1.set_position((x + (-0.015 if room else 0.015) * (right - left), top - 0.01 * (top - bottom)))
        self._tau1.set_text("" if least is None else f"τ1: confidence > {_probability(least)}")
        above = top - y > 0.1 * (top - bottom)
        self._tau2.set_verticalalignment("bottom" if above else "top")
        self._tau2.set_position((left + 0.01 * (right - left), y + (0.012 if above else -0.012) * (top - bottom)))
        self._tau2.set_text("" if most is None else f"τ2: entropy < {most:.3g} nats")
        marks = _thinned([(_odds(p), _probability(p)) for p in _CONFIDENCES], left, right, 7)
        axes.set_xticks([at for at, _ in marks], [label for _, label in marks])
        marks = _thinned([(float(np.log10(h)), f"{h:g}") for h in _NATS], bottom, top, 8)
        axes.set_yticks([at for at, _ in marks], [label for _, label in marks])

    def _classes(self, read: _Reading) -> None:
        client, counts = read.client, read.counts
        true, kept, selected, right = (
            one[client].numpy() for one in (counts.true, counts.kept, counts.selected, counts.selected_right)
        )
        shares = [100 * one / max(int(one.sum()), 1) for one in (true, kept)]
        _raise(self._true, shares[0])
        _raise(self._estimated, shares[1])
        self._mix.set_ylim(0, nice_top(max(map(np.max, shares))))
        _raise(self._kept, kept)
        _raise(self._right, right)
        _raise(self._wrong, selected - right, right)
        asked = np.flatnonzero(read.quota)
        self._quota.set_data(asked + _BAR / 2, read.quota[asked])
        self._taken.set_ylim(0, nice_top(float(max(kept.max(), read.quota.max(), selected.max()))))
        own, means = [], []
        for stage in _STAGES:
            accuracy = 100 * counts.accuracy(stage)
            own.append(float(accuracy[client].nan_to_num()))
            means.append(float(accuracy.nanmean()))
        for bar, width in zip(self._own, own, strict=True):
            bar.set_width(width)
        self._mean.set_data(means, range(len(means)))


def _told(read: _Reading) -> Shown:
    client, filtered = read.client, read.filtered
    kept, every = int(filtered.kept.sum()), len(filtered.kept)
    gained, lost = int(read.gained.sum()), int(read.lost.sum())
    right = {stage: float(read.counts.accuracy(stage)[client]) for stage in _STAGES}
    chosen = int(read.counts.selected[client].sum())
    text = (
        f"Client {client} keeps {kept} of {every} images ({gained} gained, {lost} lost by this move), "
        f"{100 * right['kept']:.1f} % of them with the right label; the server asks for {int(read.quota.sum())}, "
        f"it finds {chosen}, {100 * right['selected']:.1f} % right. Distance of the estimated from the true "
        f"classes: {read.distance:.2f} (total variation, 0 to 1)."
    )
    note = ""
    if filtered.fallback:
        note = "No image passes both filters: the most confident share is kept instead."
    return Shown(text, {
        "kept": kept, "images": every, "gained": gained, "lost": lost, "quota": int(read.quota.sum()),
        "selected": chosen, "label_accuracy": right["selected"], "kept_accuracy": right["kept"],
        "kept_per_class": read.counts.kept[client].tolist(), "estimate_distance": read.distance,
        "thresholds": (filtered.confidence_threshold, filtered.entropy_threshold), "fallback": filtered.fallback,
    }, note)  # fmt: skip


def _bars(axes: Axes, x: Any, **look: Any) -> Any:
    return axes.bar(x, np.zeros(len(x)), _BAR, linewidth=0.7, **look)


def _raise(bars: Any, heights: Any, bottoms: Any = None) -> None:
    for number, bar in enumerate(bars):
        bar.set_height(float(heights[number]))
        if bottoms is not None:
            bar.set_y(float(bottoms[number]))


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


def _thinned(marks: list[tuple[float, str]], low: float, high: float, at_most: int) -> list[tuple[float, str]]:
    """Those inside the axis that do not meet."""
    inside = [mark for mark in marks if low <= mark[0] <= high]
    kept: list[tuple[float, str]] = []
    for mark in inside:
        if not kept or mark[0] - kept[-1][0] >= (high - low) / at_most:
            kept.append(mark)
    return kept
