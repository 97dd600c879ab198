"""The round player: step through a stored run (FedCoPL Alg. 1, Fig. 2; SAGE Sec. 4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import ipywidgets
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.report.looks import BLUE, DASHED, FAINT, GLOBAL, GREEN, INK, LOCAL, ORANGE, QUIET, Picture, every_few
from fedcopl_lab.store import Run
from fedcopl_lab.widgets._explorer import Explorer, dropdown, int_slider
from fedcopl_lab.widgets._panels import Bubbles, nice_top, note, panel
from fedcopl_lab.widgets._redraw import Readout, Scene
from fedcopl_lab.widgets._sources import RunHistory

Runs = Run | RunHistory | Mapping[str, Run] | Sequence[Run | RunHistory]
_BOXES = {"clients": (0.065, 0.565, 0.415, 0.36), "rounds": (0.065, 0.1, 0.415, 0.315),
          "drift": (0.57, 0.1, 0.42, 0.315), "labels": (0.57, 0.565, 0.42, 0.36)}  # fmt: skip
_TO_HUNDRED: dict[str, Any] = {"ylim": (0, 124), "yticks": range(0, 101, 20)}  # room for a legend above 100 %
_DRIFT = {"text prompt": ("drift_text",), "visual prompt": ("drift_visual",)}
_GAPS = {"views labelled differently": ("both", "agreement"), "mean confidence gap": ("both", "gap")}
_DECIDED_BY = {"local label, undisputed": FAINT, "local label leads a dispute": ORANGE,
               "global label leads a dispute": BLUE, "global model alone": GREEN}  # fmt: skip


@dataclass(frozen=True)
class RoundParams:
    """What the round player shows.

    Attributes:
        run: which run, by its name in the player.
        round: which round, 1 to T.
    """

    run: str = ""
    round: int = 1


def draw_rounds(runs: Runs, params: RoundParams | None = None) -> Picture:
    """One round of a stored run: accuracy of every client, drift of the prompts, labels that changed hands.

    For SAGE, the disagreement of the two models stands in the place of the drift, and who decided the labels in
    the place of the selected images.

    Args:
        runs: a stored run, several, or several by name.
        params: run and round; None takes the first round of the first run.

    Returns:
        A figure of four panels.

    Raises:
        FedCoPLError: no run of that name, no such round, or a run without rounds.

    >>> history = RunHistory("mine", ({"accuracy": 0.5, "clients": {"accuracy": [0.4, 0.6]}},))
    >>> figure = draw_rounds(history, RoundParams("mine", round=1))

    Shown in notebook ``explore``.
    """
    scene = RoundScene(runs)
    return scene.draw(params or RoundParams(scene.names[0]))


def play_rounds(runs: Runs, **start: Any) -> Explorer[RoundParams]:
    """The round player: :func:`draw_rounds` with a slider, a play button and a choice of runs.

    Args:
        runs: a stored run, several, or several by name.
        start: fields of :class:`RoundParams` to begin with.

    >>> history = RunHistory("mine", ({"accuracy": 0.5, "clients": {"accuracy": [0.4, 0.6]}},))
    >>> play_rounds(history).readout
    'Round 1 of 1: accuracy 50.0 %.'

    Shown in notebook ``explore``.
    """
    scene = RoundScene(runs)
    params = RoundParams(**{"run": scene.names[0]} | start)
    last = len(scene.history(params.run).rows)
    moving = {
        "round": int_slider("round", params.round, 1, last, "communication round"),
        "run": dropdown("run", params.run, scene.names, "which stored run"),
    }
    play = ipywidgets.Play(value=params.round, min=1, max=last, interval=700, tooltip="play the rounds")
    ipywidgets.link((play, "value"), (moving["round"], "value"))

    def settle(now: RoundParams) -> RoundParams:
        """Another run may be shorter: its last round then."""
        return replace(now, round=min(now.round, len(scene.history(now.run).rows)))

    def adapt(now: RoundParams) -> None:
        for control in (play, moving["round"]):
            control.max = len(scene.history(now.run).rows)

    return Explorer("rounds", scene, params, moving, extra=(play,), settle=settle, adapt=adapt)


class RoundScene(Scene[RoundParams]):
    """The figure of the round player, changed in place."""

    def __init__(self, runs: Runs) -> None:
        super().__init__()
        self._runs = _by_name(runs)

    @property
    def names(self) -> list[str]:
        """All runs."""
        return list(self._runs)

    def history(self, name: str) -> RunHistory:
        """A run by its name; an unknown name is refused."""
        if name not in self._runs:
            raise FedCoPLError(f"run={name!r} is not in this player; choose one of {', '.join(self._runs)}")
        return self._runs[name]

    def _compute(self, params: RoundParams, previous: RoundParams | None) -> SimpleNamespace:
        history = self.history(params.run)
        last = len(history.rows)
        if not 1 <= params.round <= last:
            raise FedCoPLError(f"round={params.round} is not in {params.run}; its rounds are 1 to {last}: "
                               "move the slider")  # fmt: skip
        rows, place = history.per_client(), params.round - 1
        return SimpleNamespace(
            built_for=params.run, history=history, place=place, rounds=np.arange(1, last + 1),
            is_sage=history.has("both", "agreement"), clients=rows[place], per_client=100 * np.array(rows, dtype=float),
        )  # fmt: skip

    def _build(self, values: SimpleNamespace) -> None:
        history, rounds, is_sage = values.history, values.rounds, values.is_sage
        clients = max(values.per_client.shape[1], 1)
        title = f"Accuracy of each client on {'its pool' if is_sage else 'its own test images'} (%)"
        axes = panel(self.figure, _BOXES["clients"], title, xlim=(-0.6, clients - 0.4), **_TO_HUNDRED)
        axes.set_xticks(every_few(clients, 20))
        axes.set_xlabel("client", labelpad=2)
        (self._past,) = axes.plot([], [], "o", color=QUIET, markerfacecolor="none", markersize=5, label="round before")
        (self._now,) = axes.plot([], [], "o", color=BLUE, markersize=6.5, label="this round")
        self._mean = axes.axhline(0, color=INK, linewidth=0.9, linestyle=DASHED, label="their mean")
        axes.legend(loc="upper right", ncols=3, handletextpad=0.3, columnspacing=1.0)
        self._cursors: list[Rectangle] = []
        axes = self._over_rounds("rounds", "Accuracy over the rounds (%)", rounds)
        axes.plot(rounds, values.per_client, color=FAINT, linewidth=1.0)
        mean = 100 * np.array(history.series("accuracy"), dtype=float)
        label = "test set" if is_sage else "mean of the clients"
        axes.plot(rounds, mean, color=BLUE, marker="o", markersize=4, label=label)
        axes.plot([], [], color=FAINT, label="one client")
        axes.set(**_TO_HUNDRED)
        axes.legend(loc="upper right", ncols=2)
        self._build_drift(history, rounds, is_sage)
        self._build_labels(history, rounds, is_sage)

    def _over_rounds(self, place: str, title: str, rounds: Any) -> Axes:
        """A panel over the rounds, in which a band marks the round that is shown."""
        axes = panel(self.figure, _BOXES[place], title, xlim=(0.6, len(rounds) + 0.4))
        axes.set_xticks([at + 1 for at in every_few(len(rounds), 13)])
        axes.set_xlabel("round", labelpad=2)
        self._cursors.append(axes.axvspan(0.5, 1.5, color=BLUE, alpha=0.12, linewidth=0, zorder=0))
        return axes

    def _build_drift(self, history: RunHistory, rounds: Any, is_sage: bool) -> None:
        title = "Disagreement of local and global model" if is_sage else "Drift diversity of the clients' prompts, ξ"
        axes = self._over_rounds("drift", title, rounds)
        series = {name: history.series(*path) for name, path in (_GAPS if is_sage else _DRIFT).items()}
        series = {name: values for name, values in series.items() if any(value is not None for value in values)}
        highest = 0.0
        for look, (name, values) in zip((LOCAL, GLOBAL), series.items(), strict=False):
            heights = np.array(values, dtype=float)
            heights = 1 - heights if name.startswith("views") else heights
            highest = max(highest, float(np.nanmax(heights)))
            axes.plot(rounds, heights, color=look.color, marker=look.marker, linestyle=look.line, label=name)
        if series:
            axes.set_ylim(0, nice_top(1.2 * highest))
            axes.legend(loc="upper right", ncols=2)
        else:
            note(axes, "this run has no prompts that move")

    def _build_labels(self, history: RunHistory, rounds: Any, is_sage: bool) -> None:
        self._bubbles: Bubbles | None = None
        if history.label_rounds:
            classes = history.selected(history.label_rounds[0])[1].shape[1]
            self._bubbles = Bubbles(panel(self.figure, _BOXES["labels"], grid=""), [str(c) for c in range(classes)])
            self._bubbles.axes.xaxis.labelpad = 2
            return
        axes = self._over_rounds("labels", "Weak views with a label, by who decides it", rounds)
        if not is_sage:
            note(axes, "this run makes no pseudo-labels")
            return
        bottom = np.zeros(len(rounds))
        for (name, color), heights in zip(_DECIDED_BY.items(), _decided(history), strict=True):
            axes.bar(rounds, heights, 0.7, bottom, color=color, label=name, edgecolor="white", linewidth=0.4)
            bottom = bottom + heights
        axes.set_ylim(0, nice_top(1.5 * float(bottom.max())))
        axes.legend(loc="upper left", ncols=2, handlelength=1.1, fontsize=6.5)

    def _update(self, values: SimpleNamespace) -> None:
        place, now = values.place, values.per_client[values.place]
        x = np.arange(len(now))
        self._now.set_data(x, now)
        self._past.set_data(x, values.per_client[place - 1] if place else np.full(len(now), np.nan))
        mean = float(np.nanmean(now)) if np.isfinite(now).any() else float("nan")
        self._mean.set_ydata([mean, mean])
        for cursor in self._cursors:
            cursor.set_x(place + 0.5)
        if self._bubbles is not None:
            self._update_bubbles(self._bubbles, values.history, place)

    def _update_bubbles(self, bubbles: Bubbles, history: RunHistory, place: int) -> None:
        first = history.label_rounds[0]
        made, selected, before = history.selected(max(place, first))
        if place < first:
            bubbles.title.set_text("No pseudo-labels yet")
            bubbles.show(before.numpy(), 1.0)
            return
        change = (selected - before).numpy()
        what = "taken" if made == first else "gained (blue) and lost (orange)"
        bubbles.title.set_text(f"Pseudo-labels made in round {made + 1}: {what}")
        bubbles.show(change, float(max(np.abs(change).max(), 1)))

    def _describe(self, values: SimpleNamespace) -> Readout:
        history, place = values.history, values.place
        row = history.rows[place]
        accuracy = row.get("accuracy")
        numbers: dict[str, Any] = {"round": place + 1, "accuracy": accuracy, "clients": values.clients}
        parts = [f"Round {place + 1} of {len(history.rows)}: accuracy {100 * (accuracy or 0):.1f} %"]
        if "drift_text" in row or "drift_visual" in row:
            numbers["drift"] = {name: row.get(path[0]) for name, path in _DRIFT.items()}
            shown = [f"{name} {value:.2f}" for name, value in numbers["drift"].items() if value is not None]
            parts += [f"drift diversity: {', '.join(shown)}"] if shown else []
        if history.label_rounds and history.label_rounds[0] <= place:
            made, now, before = history.selected(place)
            gained, lost = (int(change.clamp(min=0).sum()) for change in (now - before, before - now))
            numbers |= {"labels_made_in": made + 1, "labels": int(now.sum()), "changed": gained + lost}
            labels = f"{int(now.sum())} pseudo-labels since round {made + 1}"
            parts.append(f"{labels}, {gained} gained and {lost} lost there")
        elif values.is_sage:
            counts = [int(part[place]) for part in _decided(history)]
            numbers |= dict(zip(("local", "disputed_local", "disputed_global", "global_alone"), counts, strict=True))
            total = sum(counts)
            parts.append(f"{total} weak views with a label, {counts[2]} disputes decided for the global model")
        return Readout("; ".join(parts) + ".", numbers)


def _decided(history: RunHistory) -> list[Any]:
    """Weak views of every round by who decides their label, in the order of ``_DECIDED_BY``."""
    union, added, disputed, for_global = (
        np.array([value or 0 for value in history.series("both", key)])
        for key in ("n_union", "n_added", "n_disputed", "n_disputed_for_global")
    )
    return [union - added - disputed, disputed - for_global, for_global, added]


def _by_name(runs: Runs) -> dict[str, RunHistory]:
    if isinstance(runs, Run | RunHistory):
        runs = [runs]
    named = runs.items() if isinstance(runs, Mapping) else [(None, run) for run in runs]
    found = [run if isinstance(run, RunHistory) else RunHistory.of(run, name) for name, run in named]
    if not found:
        raise FedCoPLError("there is no run to play; pass one, such as lab.run(lab.configure('smoke'))")
    by_name: dict[str, RunHistory] = {}
    for one in found:  # a run's own name leaves out settings, so that two runs of a sweep may share it
        name, number = one.name, 1
        while name in by_name:
            number += 1
            name = f"{one.name} ({number})"
        by_name[name] = replace(one, name=name)
    return by_name
