"""The allocation explorer: what the server makes of the clients' counts (Eq. 3)."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from matplotlib.lines import Line2D

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.methods import filter_all
from fedcopl_lab.report.looks import BLUE, DASHED, FAINT, INK, ORANGE, QUIET, Picture
from fedcopl_lab.steps import allocate, select_top
from fedcopl_lab.widgets._explorer import Explorer, dropdown, int_slider, slider
from fedcopl_lab.widgets._panels import Bubbles, class_axis, nice_top, panel, set_heights
from fedcopl_lab.widgets._redraw import Readout, Scene
from fedcopl_lab.widgets._sources import DATASETS, Sources, catalogue_of

_BAR = 0.27
_GROUND = {"facecolor": "white", "edgecolor": "none", "pad": 0.2, "alpha": 0.9}
_TITLE = "All clients together"
_LEGEND = (ORANGE, ORANGE, "kept, over-fed"), (FAINT, QUIET, "kept"), ("white", INK, "asked for"), (BLUE, BLUE, "found")
_MODES = {"paper: exact, M not rounded": "paper", "authors: M rounded up first": "authors", "none: own counts": "none"}


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


def draw_allocation(params: AllocationParams | None = None, sources: Sources = DATASETS) -> Picture:
    """Counts of all clients before and after the allocation, and each class against its budget M (Eq. 3).

    Args:
        params: levels, mode and a change of one count; None takes the defaults.
        sources: names of data sets, or :class:`Scores`, to choose among.

    Returns:
        A figure of three panels.

    Raises:
        FedCoPLError: an unknown data set, client, class or mode, or levels outside [0, 1].

    >>> figure = lab.widgets.draw_allocation(AllocationParams(mode="authors"))

    Shown in notebook ``explore``.
    """
    return AllocationScene(sources).draw(params or AllocationParams())


def explore_allocation(sources: Sources = DATASETS, **start: Any) -> Explorer[AllocationParams]:
    """The allocation explorer: :func:`draw_allocation` with its controls.

    Args:
        sources: names of data sets, or :class:`Scores`, to choose among.
        start: fields of :class:`AllocationParams` to begin with.

    >>> lab.widgets.explore_allocation(mode="authors").numbers["mode"]
    'authors'

    Shown in notebook ``explore``.
    """
    scene = AllocationScene(sources)
    params = AllocationParams(**{"dataset": scene.catalogue.names[0]} | start)
    scores = scene.catalogue[params.dataset]
    clients, classes = len(scores.logits), len(scores.class_names)
    moving = {
        "q_conf": slider("τ1 level (q_conf)", params.q_conf, 0, 1, 0.02, "level of the confidence filter"),
        "q_ent": slider("τ2 level (q_ent)", params.q_ent, 0, 1, 0.02, "level of the entropy filter"),
        "client": int_slider("client", params.client, 0, clients - 1, "whose upload is changed"),
        "label": int_slider("class", params.label, 0, classes - 1, "in which class it is changed"),
        "added": int_slider("images added", params.added, 0, 200, "what if this client had counted more?"),
        "mode": dropdown("mode", params.mode, _MODES.items(), "as the paper says, as the released code does, or off"),
        "dataset": dropdown("data set", params.dataset, scene.catalogue.names, "whose images are shown"),
    }

    def adapt(now: AllocationParams) -> None:
        """Another data set may have more clients and classes."""
        if scores := scene.catalogue.get(now.dataset):
            for name, count in (("client", len(scores.logits)), ("label", len(scores.class_names))):
                moving[name].max = max(moving[name].max, count - 1)

    return Explorer("allocation", scene, params, moving, adapt=adapt)


class AllocationScene(Scene[AllocationParams]):
    """The figure of the allocation explorer, changed in place."""

    height = 5.0

    def __init__(self, sources: Sources = DATASETS) -> None:
        super().__init__()
        self.catalogue = catalogue_of(sources)

    def _compute(self, params: AllocationParams, previous: AllocationParams | None) -> SimpleNamespace:
        scores = self.catalogue[params.dataset]
        client, names = scores.client(params.client), scores.class_names
        if not 0 <= params.label < len(names):
            raise FedCoPLError(f"label={params.label} is no class of {params.dataset}; its classes are "
                               f"0 to {len(names) - 1}: move the class slider back")  # fmt: skip
        filtered = filter_all(scores.logits, replace(scores.config, q_conf=params.q_conf, q_ent=params.q_ent))
        counts = torch.stack([one.counts for one in filtered])
        counts[client, params.label] += params.added
        allocation = allocate(counts, params.mode, n_train=scores.n_train, phase=0)
        by_client = zip(scores.logits, allocation.quota, strict=True)
        selected = [select_top(*own, scores.config.candidates) for own in by_client]
        return SimpleNamespace(
            built_for=names, mode=params.mode, budget=allocation.per_class,
            counts=counts.numpy(), kept=counts.sum(dim=0).numpy(),
            quota=allocation.quota.numpy(), asked=allocation.quota.sum(dim=0).numpy(),
            found=np.sum([labels.counts(len(names)).numpy() for labels in selected], axis=0),
            fallback=any(one.fallback for one in filtered),
        )  # fmt: skip

    def _build(self, values: SimpleNamespace) -> None:
        names = values.built_for
        before = panel(self.figure, (0.055, 0.46, 0.44, 0.475), "Before: images that passed the filters", grid="")
        after = panel(self.figure, (0.555, 0.46, 0.44, 0.475), "After: images that the server asks for", grid="")
        self._before, self._after = Bubbles(before, names), Bubbles(after, names)
        self._axes = axes = panel(self.figure, (0.055, 0.085, 0.872, 0.245), ylabel="images")
        class_axis(axes, names, label=False)
        x = np.arange(len(names))
        self._kept = axes.bar(x - _BAR, x * 0.0, 0.9 * _BAR, facecolor=FAINT, edgecolor=QUIET, linewidth=0.7)
        self._asked = axes.bar(x, x * 0.0, 0.9 * _BAR, facecolor="white", edgecolor=INK, linewidth=0.9)
        self._found = axes.bar(x + _BAR, x * 0.0, 0.9 * _BAR, facecolor=BLUE, edgecolor=BLUE, linewidth=0.7)
        self._budget = axes.axhline(0, color=INK, linewidth=0.9, linestyle=DASHED)
        look: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 6.5, "bbox": _GROUND}
        self._gaps = [axes.text(0, 0, "", **look) for _ in x] if len(x) <= 24 else []
        look = {"ha": "left", "va": "center", "fontsize": 7.5, "transform": axes.get_yaxis_transform()}
        self._budget_text = axes.text(1.008, 0, "", **look)
        handles = [Line2D([], [], label=label, linestyle="none", marker="s", markersize=6, markerfacecolor=face,
                          markeredgecolor=edge) for face, edge, label in _LEGEND]  # fmt: skip
        axes.legend(handles=handles, ncols=4, handletextpad=0.1, columnspacing=1.2, loc="lower right",
                    bbox_to_anchor=(1.005, 0.97))  # fmt: skip

    def _update(self, values: SimpleNamespace) -> None:
        top = float(max(values.counts.max(), values.quota.max()))
        self._before.show(values.counts, top)
        self._after.show(values.quota, top)
        kept, asked, found = values.kept, values.asked, values.found
        has_budget, budget = values.budget is not None, values.budget or 0.0
        highest = nice_top(1.12 * max(kept.max(), asked.max(), found.max(), budget))
        self._axes.set_ylim(0, highest)
        for bars, heights in ((self._kept, kept), (self._asked, asked), (self._found, found)):
            set_heights(bars, heights)
        for bar, count in zip(self._kept, kept, strict=True):
            over_fed = has_budget and count > budget
            bar.set(facecolor=ORANGE if over_fed else FAINT, edgecolor=ORANGE if over_fed else QUIET)
        for c, text in enumerate(self._gaps):
            gap = f"{kept[c] - budget:+.0f}".replace("-", "−") if has_budget else ""
            text.set(position=(c - _BAR, float(kept[c]) + 0.03 * highest), text=gap)
        self._axes.set_title(f"{_TITLE}: each class against its budget M" if has_budget else _TITLE, loc="left", pad=5)
        self._budget.set(visible=has_budget, ydata=[budget, budget])
        self._budget_text.set(y=budget, text=f"M = {budget:g}" if has_budget else "")

    def _describe(self, values: SimpleNamespace) -> Readout:
        kept, asked, found, budget, names = values.kept, values.asked, values.found, values.budget, values.built_for
        gaps = {} if budget is None else dict(zip(names, (kept - budget).round(1).tolist(), strict=True))
        over = [name for name in sorted(gaps, key=gaps.__getitem__, reverse=True) if gaps[name] > 0]
        under = [name for name in sorted(gaps, key=gaps.__getitem__) if gaps[name] < 0]
        text = f"Every client keeps its own counts, {int(kept.sum())} images; no class has a budget."
        if budget is not None:
            text = (f"M = {budget:.4g} images per class. Over-fed by the filters: {_listed(over)}; "
                    f"under-fed: {_listed(under)}. The server asks for {int(asked.sum())} images, "
                    f"the clients find {int(found.sum())}.")  # fmt: skip
        unseen = [name for name, count in zip(names, kept, strict=True) if not count]
        note = f"No client kept an image of {_listed(unseen)}: the formula is 0/0 there." if unseen and gaps else ""
        if values.fallback:
            note += " At least one client's filters kept nothing, and its most confident images stand in."
        numbers = {"kept": kept.tolist(), "quota": asked.tolist(), "selected": found.tolist(),
                   "per_class": budget, "over_fed": over, "under_fed": under, "mode": values.mode}  # fmt: skip
        return Readout(text, numbers, note.strip())


def _listed(names: list[str], at_most: int = 6) -> str:
    shown = ", ".join(names[:at_most]) or "none"
    return shown if len(names) <= at_most else f"{shown} and {len(names) - at_most} more"
