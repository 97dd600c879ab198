"""The round player: step through a stored run (FedCoPL Alg. 1, Fig. 2; SAGE Sec. 4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ipywidgets
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.report.looks import BLUE, FAINT, GREEN, INK, LOOKS, ORANGE, QUIET, Picture, light_grid, style
from fedcopl_lab.store import Run
from fedcopl_lab.widgets import _controls as controls
from fedcopl_lab.widgets._bubbles import Bubbles
from fedcopl_lab.widgets._canvas import DASHED, every_few, fixed_figure, nice_top, note, panel
from fedcopl_lab.widgets._explorer import Explorer, Shown
from fedcopl_lab.widgets._sources import Played

Runs = Run | Played | Mapping[str, Run] | Sequence[Run | Played]
_PLACES = {"clients": (0.065, 0.565, 0.415, 0.36), "rounds": (0.065, 0.1, 0.415, 0.315),
           "drift": (0.57, 0.1, 0.42, 0.315), "labels": (0.57, 0.565, 0.42, 0.36)}  # fmt: skip
_DRIFT = {"text prompt": ("drift_text",), "visual prompt": ("drift_visual",)}
_GAPS = {"views labelled differently": ("both", "agreement"), "mean confidence gap": ("both", "gap")}
_DECIDED = (
    "local label, undisputed",
    "local label leads a dispute",
    "global label leads a dispute",
    "global model alone",
)
_DECIDED_COLORS = (FAINT, ORANGE, BLUE, GREEN)


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

    >>> draw_rounds(lab.run(lab.configure("smoke")), RoundParams(round=3))

    Shown in notebook ``explore``.
    """
    scene = RoundScene(runs)
    scene.show(params or RoundParams(scene.names[0]))
    return scene.figure


def play_rounds(runs: Runs, **start: Any) -> Explorer[RoundParams]:
    """The round player: :func:`draw_rounds` with a slider, a play button and a choice of runs.

    Args:
        runs: a stored run, several, or several by name.
        start: fields of :class:`RoundParams` to begin with.

    Returns:
        The explorer; display it.

    >>> play_rounds({"FedCoPL": lab.run(lab.configure("smoke"))})

    Shown in notebook ``explore``.
    """
    scene = RoundScene(runs)
    params = RoundParams(**{"run": scene.names[0]} | start)
    last = len(scene.played(params.run).rows)
    moving = {
        "round": controls.whole("round", params.round, 1, last, "communication round"),
        "run": controls.choice("run", params.run, scene.names, "which stored run"),
    }
    play = ipywidgets.Play(value=params.round, min=1, max=last, interval=700, tooltip="play the rounds")
    ipywidgets.link((play, "value"), (moving["round"], "value"))

    def settle(now: RoundParams) -> RoundParams:
        """Another run may be shorter: its last round then."""
        return replace(now, round=min(now.round, len(scene.played(now.run).rows)))

    def adapt(now: RoundParams) -> None:
        for control in (play, moving["round"]):
            control.max = len(scene.played(now.run).rows)

    return Explorer("rounds", scene, params, moving, extra=(play,), settle=settle, adapt=adapt)


class RoundScene:
    """The figure of the round player, changed in place."""

    def __init__(self, runs: Runs) -> None:
        self._runs = _by_name(runs)
        with style():
            self.figure = fixed_figure(4.9)
        self._built = ""

    @property
    def names(self) -> list[str]:
        """All runs."""
        return list(self._runs)

    def played(self, name: str) -> Played:
        """A run by its name.

        Raises:
            FedCoPLError: no run of that name.
        """
        if name not in self._runs:
            raise FedCoPLError(f"run={name!r} is not in this player; choose one of {', '.join(self._runs)}")
        return self._runs[name]

    def show(self, params: RoundParams, previous: RoundParams | None = None) -> Shown:
        """Show this round."""
        played = self.played(params.run)
        if not 1 <= params.round <= len(played.rows):
            raise FedCoPLError(
                f"round={params.round} is not in {params.run}; its rounds are 1 to {len(played.rows)}: move the slider"
            )
        with style():
            if params.run != self._built:
                self._build(played)
                self._built = params.run
            self._update(played, params.round - 1)
        return _told(played, params.round - 1)

    def _build(self, played: Played) -> None:
        self.figure.clear()
        rounds = np.arange(1, len(played.rows) + 1)
        self._per_client = _percent(played.per_client())
        clients = self._per_client.shape[1]
        of_sage = played.has("both", "agreement")
        where = "its pool" if of_sage else "its own test images"
        axes = panel(self.figure, _PLACES["clients"], f"Accuracy of each client on {where} (%)")
        light_grid(axes)
        axes.set_xlim(-0.6, max(clients, 1) - 0.4)
        _to_hundred(axes)
        axes.set_xticks(every_few(max(clients, 1), 20))
        axes.set_xlabel("client", labelpad=2)
        (self._past,) = axes.plot([], [], "o", color=QUIET, markerfacecolor="none", markersize=5, label="round before")
        (self._now,) = axes.plot([], [], "o", color=BLUE, markersize=6.5, label="this round")
        self._mean = axes.axhline(0, color=INK, linewidth=0.9, linestyle=DASHED, label="their mean")
        axes.legend(loc="upper right", ncols=3, handletextpad=0.3, columnspacing=1.0)
        self._cursors: list[Rectangle] = []
        axes = self._over_rounds("rounds", "Accuracy over the rounds (%)", rounds)
        for client in range(clients):
            axes.plot(rounds, self._per_client[:, client], color=FAINT, linewidth=1.0)
        mean = _percent([played.series("accuracy")])[0]
        label = "test set" if of_sage else "mean of the clients"
        axes.plot(rounds, mean, color=BLUE, marker="o", markersize=4, label=label)
        axes.plot([], [], color=FAINT, label="one client")
        _to_hundred(axes)
        axes.legend(loc="upper right", ncols=2)
        self._drift_panel(played, rounds, of_sage)
        self._labels_panel(played, rounds, of_sage)

    def _over_rounds(self, place: str, title: str, rounds: Any) -> Axes:
        axes = panel(self.figure, _PLACES[place], title)
        light_grid(axes)
        axes.set_xlim(0.6, len(rounds) + 0.4)
        axes.set_xticks([at + 1 for at in every_few(len(rounds), 13)])
        axes.set_xlabel("round", labelpad=2)
        self._cursors.append(axes.axvspan(0.5, 1.5, color=BLUE, alpha=0.12, linewidth=0, zorder=0))
        return axes

    def _drift_panel(self, played: Played, rounds: Any, of_sage: bool) -> None:
        title = "Disagreement of local and global model" if of_sage else "Drift diversity of the clients' prompts, ξ"
        axes = self._over_rounds("drift", title, rounds)
        series = {name: played.series(*path) for name, path in (_GAPS if of_sage else _DRIFT).items()}
        series = {name: values for name, values in series.items() if any(value is not None for value in values)}
        highest = 0.0
        for look, (name, values) in zip((LOOKS[1], LOOKS[3]), series.items(), strict=False):
            heights = np.array([np.nan if value is None else value for value in values])
            heights = 1 - heights if name.startswith("views") else heights
            highest = max(highest, float(np.nanmax(heights)))
            axes.plot(rounds, heights, color=look.color, marker=look.marker, linestyle=look.line, label=name)
        if series:
            axes.set_ylim(0, nice_top(1.2 * highest))
            axes.legend(loc="upper right", ncols=2)
        else:
            note(axes, "this run has no prompts that move")

    def _labels_panel(self, played: Played, rounds: Any, of_sage: bool) -> None:
        self._bubbles: Bubbles | None = None
        if played.label_rounds:
            classes = played.selected(played.label_rounds[0])[1].shape[1]
            axes = panel(self.figure, _PLACES["labels"], "")
            self._bubbles = Bubbles(axes, [str(c) for c in range(classes)])
            axes.xaxis.labelpad = 2
            return
        axes = self._over_rounds("labels", "Weak views with a label, by who decides it", rounds)
        if not of_sage:
            note(axes, "this run makes no pseudo-labels")
            return
        start = np.zeros(len(rounds))
        for name, color, heights in zip(_DECIDED, _DECIDED_COLORS, _decided(played), strict=True):
            axes.bar(rounds, heights, 0.7, bottom=start, color=color, edgecolor="white", linewidth=0.4, label=name)
            start = start + heights
        axes.set_ylim(0, nice_top(1.5 * float(start.max())))
        axes.legend(loc="upper left", ncols=2, handlelength=1.1, fontsize=6.5)

    def _update(self, played: Played, place: int) -> None:
        now = self._per_client[place]
        x = np.arange(len(now))
        self._now.set_data(x, now)
        self._past.set_data(x, self._per_client[place - 1] if place else np.full(len(now), np.nan))
        mean = float(np.nanmean(now)) if np.isfinite(now).any() else float("nan")
        self._mean.set_ydata([mean, mean])
        for cursor in self._cursors:
            cursor.set_x(place + 0.5)
        if self._bubbles is not None:
            self._show_labels(self._bubbles, played, place)

    def _show_labels(self, bubbles: Bubbles, played: Played, place: int) -> None:
        if place < played.label_rounds[0]:
            nothing = played.selected(played.label_rounds[0])[2].numpy()
            bubbles.title.set_text("No pseudo-labels yet")
            bubbles.show(nothing, 1.0)
            return
        made, selected, before = played.selected(place)
        change = (selected - before).numpy()
        first = made == played.label_rounds[0]
        what = "taken" if first else "gained (blue) and lost (orange)"
        bubbles.title.set_text(f"Pseudo-labels made in round {made + 1}: {what}")
        bubbles.show(change, float(max(np.abs(change).max(), 1)))


def _told(played: Played, place: int) -> Shown:
    row = played.rows[place]
    accuracy = row.get("accuracy")
    numbers: dict[str, Any] = {"round": place + 1, "accuracy": accuracy, "clients": played.per_client()[place]}
    text = f"Round {place + 1} of {len(played.rows)}: accuracy {100 * (accuracy or 0):.1f} %"
    if "drift_text" in row or "drift_visual" in row:
        numbers["drift"] = {name: row.get(path[0]) for name, path in _DRIFT.items()}
        shown = [f"{name} {value:.2f}" for name, value in numbers["drift"].items() if value is not None]
        text += f"; drift diversity: {', '.join(shown)}" if shown else ""
    if played.label_rounds and played.label_rounds[0] <= place:
        made, now, before = played.selected(place)
        change = now - before
        numbers |= {"labels_made_in": made + 1, "labels": int(now.sum()), "changed": int(change.abs().sum())}
        text += f"; {int(now.sum())} pseudo-labels since round {made + 1}, "
        text += f"{int(change.clamp(min=0).sum())} gained and {int((-change).clamp(min=0).sum())} lost there"
    elif played.has("both", "agreement"):
        counts = [int(part[place]) for part in _decided(played)]
        numbers |= dict(zip(("local", "disputed_local", "disputed_global", "global_alone"), counts, strict=True))
        text += f"; {sum(counts)} weak views with a label, {counts[2]} disputes decided for the global model"
    return Shown(text + ".", numbers)


def _decided(played: Played) -> list[Any]:
    """Weak views of every round by who decides their label, in the order of ``_DECIDED``."""
    read = {key: np.array([value or 0 for value in played.series("both", key)])
            for key in ("n_union", "n_added", "n_disputed", "n_disputed_for_global")}  # fmt: skip
    leads = read["n_disputed"] - read["n_disputed_for_global"]
    alone = read["n_union"] - read["n_added"] - read["n_disputed"]
    return [alone, leads, read["n_disputed_for_global"], read["n_added"]]


def _by_name(runs: Runs) -> dict[str, Played]:
    if isinstance(runs, Run | Played):
        runs = [runs]
    if isinstance(runs, Mapping):
        found = [Played.of(run, name) for name, run in runs.items()]
    else:
        found = [run if isinstance(run, Played) else Played.of(run) for run in runs]
    if not found:
        raise FedCoPLError("there is no run to play; pass one, such as lab.run(lab.configure('smoke'))")
    return {one.name: one for one in found}


def _to_hundred(axes: Axes) -> None:
    """A percent axis with room for a legend above 100."""
    axes.set_ylim(0, 124)
    axes.set_yticks(range(0, 101, 20))


def _percent(values: list[list[float | None]]) -> Any:
    return 100 * np.array([[np.nan if one is None else one for one in row] for row in values], dtype=float)
