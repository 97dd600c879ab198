"""The allocation explorer: what the server makes of the clients' counts (Eq. 3)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.report.looks import BLUE, FAINT, INK, ORANGE, QUIET, Picture, light_grid, style
from fedcopl_lab.steps import allocate, filter_confident, select_top
from fedcopl_lab.widgets import _controls as controls
from fedcopl_lab.widgets._bubbles import Bubbles
from fedcopl_lab.widgets._canvas import DASHED, class_axis, fixed_figure, nice_top, panel
from fedcopl_lab.widgets._explorer import Explorer, Shown
from fedcopl_lab.widgets._sources import DATASETS, Catalogue, Scores

_BAR = 0.27
_GROUND = {"facecolor": "white", "edgecolor": "none", "pad": 0.2, "alpha": 0.9}
_TITLE = "All clients together: each class against its budget M"
_MODES = (
    ("paper: exact, M not rounded", "paper"),
    ("authors: M rounded up first", "authors"),
    ("none: own counts", "none"),
)


@dataclass(frozen=True)
class AllocationParams:
    """What the allocation explorer shows.

    Attributes:
        dataset: whose images.
        q_conf: level of the confidence filter, in [0, 1].
        q_ent: level of the entropy filter, in [0, 1].
        mode: ``"paper"``, ``"authors"`` or ``"none"``, as in :func:`lab.allocate`.
        client: whose upload is changed.
        label: in which class.
        added: by how many images; what if this client's filter had counted more?
    """

    dataset: str = "digits"
    q_conf: float = 0.5
    q_ent: float = 0.5
    mode: Any = "paper"
    client: int = 0
    label: int = 0
    added: int = 0


def draw_allocation(
    params: AllocationParams | None = None, sources: Iterable[str | Scores] | Catalogue = DATASETS
) -> Picture:
    """Counts of all clients before and after the allocation, and each class against its budget M (Eq. 3).

    Args:
        params: levels, mode and a change of one count; None takes the defaults.
        sources: names of data sets, or :class:`Scores`, to choose among.

    Returns:
        A figure of three panels.

    Raises:
        FedCoPLError: an unknown data set, client, class or mode, or levels outside [0, 1].

    >>> draw_allocation(AllocationParams(mode="authors"))

    Shown in notebook ``explore``.
    """
    scene = AllocationScene(sources)
    scene.show(params or AllocationParams())
    return scene.figure


def explore_allocation(
    sources: Iterable[str | Scores] | Catalogue = DATASETS, **start: Any
) -> Explorer[AllocationParams]:
    """The allocation explorer: :func:`draw_allocation` with its controls.

    Args:
        sources: names of data sets, or :class:`Scores`, to choose among.
        start: fields of :class:`AllocationParams` to begin with.

    Returns:
        The explorer; display it.

    >>> explore_allocation(mode="authors")

    Shown in notebook ``explore``.
    """
    scene = AllocationScene(sources)
    params = AllocationParams(**{"dataset": scene.catalogue.names[0]} | start)
    scores = scene.catalogue[params.dataset]
    return Explorer("allocation", scene, params, {
        "q_conf": controls.slider("τ1 level (q_conf)", params.q_conf, 0, 1, 0.02, "level of the confidence filter"),
        "q_ent": controls.slider("τ2 level (q_ent)", params.q_ent, 0, 1, 0.02, "level of the entropy filter"),
        "client": controls.whole("client", params.client, 0, len(scores.logits) - 1, "whose upload is changed"),
        "label": controls.whole("class", params.label, 0, len(scores.class_names) - 1, "in which class it is changed"),
        "added": controls.whole("images added", params.added, 0, 200, "what if this client had counted more?"),
        "mode": controls.choice("mode", params.mode, _MODES, "as the paper says, as the released code does, or off"),
        "dataset": controls.choice("data set", params.dataset, scene.catalogue.names, "whose images are shown"),
    })  # fmt: skip


@dataclass(frozen=True)
class _Reading:
    names: tuple[str, ...]
    counts: Any
    quota: Any
    found: Any
    budget: float | None
    mode: str
    ignored: bool


class AllocationScene:
    """The figure of the allocation explorer, changed in place."""

    def __init__(self, sources: Iterable[str | Scores] | Catalogue = DATASETS) -> None:
        self.catalogue = sources if isinstance(sources, Catalogue) else Catalogue(sources)
        with style():
            self.figure = fixed_figure(5.0)
        self._names: tuple[str, ...] = ()

    def show(self, params: AllocationParams, previous: AllocationParams | None = None) -> Shown:
        """Show the allocation of these counts."""
        read = self._read(params)
        with style():
            if read.names != self._names:
                self._build(read.names)
            self._update(read)
        return _told(read)

    def _read(self, params: AllocationParams) -> _Reading:
        scores = self.catalogue[params.dataset]
        client = scores.client(params.client)
        if not 0 <= params.label < len(scores.class_names):
            raise FedCoPLError(
                f"label={params.label} is no class of {params.dataset}; its classes are 0 to "
                f"{len(scores.class_names) - 1}: move the class slider back"
            )
        filtered = [filter_confident(z, params.q_conf, params.q_ent) for z in scores.logits]
        counts = np.stack([one.counts.numpy() for one in filtered])
        counts[client, params.label] += params.added
        allocation = allocate(filtered[0].counts.new_tensor(counts), params.mode, n_train=scores.n_train, phase=0)
        found = [
            select_top(z, quota).counts(len(scores.class_names)).numpy()
            for z, quota in zip(scores.logits, allocation.quota, strict=True)
        ]
        return _Reading(
            names=scores.class_names,
            counts=counts,
            quota=allocation.quota.numpy(),
            found=np.stack(found),
            budget=allocation.per_class,
            mode=params.mode,
            ignored=any(one.fallback for one in filtered),
        )

    def _build(self, names: tuple[str, ...]) -> None:
        self.figure.clear()
        self._names = names
        titles = ("Before: images that passed the filters", "After: images that the server asks for")
        places = ((0.055, 0.46, 0.44, 0.475), (0.555, 0.46, 0.44, 0.475))
        self._before, self._after = (
            Bubbles(panel(self.figure, place, title), names) for place, title in zip(places, titles, strict=True)
        )
        axes = panel(self.figure, (0.055, 0.085, 0.872, 0.245), "")
        self._axes = axes
        class_axis(axes, names, label=False)
        axes.set_ylabel("images")
        light_grid(axes)
        x = np.arange(len(names))
        self._kept = axes.bar(x - _BAR, x * 0.0, 0.9 * _BAR, facecolor=FAINT, edgecolor=QUIET, linewidth=0.7)
        self._asked = axes.bar(x, x * 0.0, 0.9 * _BAR, facecolor="white", edgecolor=INK, linewidth=0.9)
        self._found = axes.bar(x + _BAR, x * 0.0, 0.9 * _BAR, facecolor=BLUE, edgecolor=BLUE, linewidth=0.7)
        self._budget = axes.axhline(0, color=INK, linewidth=0.9, linestyle=DASHED)
        self._marks = [
            axes.text(0, 0, "", ha="center", va="bottom", fontsize=6.5, bbox=_GROUND) for _ in x
        ] if len(x) <= 24 else []  # fmt: skip
        self._written = axes.text(
            1.008, 0, "", transform=axes.get_yaxis_transform(), ha="left", va="center", fontsize=7.5
        )
        handles = [
            Line2D([], [], linestyle="none", marker="s", markersize=6, markerfacecolor=face, label=label,
                   markeredgecolor=edge)
            for face, edge, label in ((ORANGE, ORANGE, "kept, over-fed"), (FAINT, QUIET, "kept"),
                                      ("white", INK, "asked for"), (BLUE, BLUE, "found"))
        ]  # fmt: skip
        axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.005, 0.97), ncols=4, handletextpad=0.1,
                    columnspacing=1.2)  # fmt: skip

    def _update(self, read: _Reading) -> None:
        top = float(max(read.counts.max(), read.quota.max()))
        self._before.show(read.counts, top)
        self._after.show(read.quota, top)
        kept, asked, found = (one.sum(axis=0) for one in (read.counts, read.quota, read.found))
        budget = read.budget or 0.0
        highest = nice_top(1.12 * max(kept.max(), asked.max(), found.max(), budget))
        self._axes.set_ylim(0, highest)
        for c in range(len(kept)):
            over = read.budget is not None and kept[c] > budget
            self._kept[c].set_height(float(kept[c]))
            self._kept[c].set_facecolor(ORANGE if over else FAINT)
            self._kept[c].set_edgecolor(ORANGE if over else QUIET)
            self._asked[c].set_height(float(asked[c]))
            self._found[c].set_height(float(found[c]))
        for c, mark in enumerate(self._marks):
            mark.set_position((c - _BAR, float(kept[c]) + 0.03 * highest))
            mark.set_text("" if read.budget is None else f"{kept[c] - budget:+.0f}".replace("-", "−"))
        self._axes.set_title(_TITLE if read.budget is not None else "All clients together", loc="left", pad=5)
        self._budget.set_visible(read.budget is not None)
        self._budget.set_ydata([budget, budget])
        self._written.set_y(budget)
        self._written.set_text("" if read.budget is None else f"M = {budget:g}")


def _told(read: _Reading) -> Shown:
    kept, asked, found = (one.sum(axis=0) for one in (read.counts, read.quota, read.found))
    gaps = {} if read.budget is None else dict(zip(read.names, (kept - read.budget).round(1).tolist(), strict=True))
    over = [name for name, gap in sorted(gaps.items(), key=lambda one: -one[1]) if gap > 0]
    under = [name for name, gap in sorted(gaps.items(), key=lambda one: one[1]) if gap < 0]
    if read.budget is None:
        text = f"Every client keeps its own counts, {int(kept.sum())} images; no class has a budget."
    else:
        text = (
            f"M = {read.budget:.4g} images per class. Over-fed by the filters: {_listed(over)}; under-fed: "
            f"{_listed(under)}. The server asks for {int(asked.sum())} images, the clients find {int(found.sum())}."
        )
    unseen = [name for name, count in zip(read.names, kept, strict=True) if not count]
    note = f"No client kept an image of {_listed(unseen)}: the formula is 0/0 there." if unseen and gaps else ""
    if read.ignored:
        note = (note + " At least one client's filters kept nothing, and its most confident images stand in.").strip()
    return Shown(text, {
        "per_class": read.budget, "kept": kept.tolist(), "quota": asked.tolist(), "selected": found.tolist(),
        "over_fed": over, "under_fed": under, "mode": read.mode,
    }, note)  # fmt: skip


def _listed(names: list[str], at_most: int = 6) -> str:
    shown = ", ".join(names[:at_most]) or "none"
    return shown if len(names) <= at_most else f"{shown} and {len(names) - at_most} more"
