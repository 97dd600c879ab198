"""Claims 43 to 45: what crosses the network, and what it gives away."""

from collections.abc import Callable

import numpy as np

from fedcopl_lab.paper._evidence import Evidence, Rows, Settings
from fedcopl_lab.paper._judge import Judged, judge_difference, judge_every_case
from fedcopl_lab.paper.statistics._reads import accuracy, counts, distance, mean, phases, shares
from fedcopl_lab.paper.statistics._registry import statistic

_NOISE: dict[str, Settings] = {
    f"{kind} noise, ε = {epsilon:g}": {"count_noise": kind, "epsilon": epsilon}
    for kind in ("laplace", "gaussian")
    for epsilon in (0.1, 0.3, 1.0, 3.0, 10.0)
}


@statistic
def less_communication_than_both_prompts(runs: Evidence) -> Judged:
    """43: bytes sent up in a run, share saved against sharing both prompts."""

    def sent(rows: Rows) -> float:
        return float(sum(row["bytes_up"] for row in rows))

    def saved(own: Rows, other: Rows) -> float:
        return 100 * (1 - sent(own) / sent(other))

    text = runs.cells({"text": runs.paired(lambda own, other: sent(own) / sent(other), {}, {"aggregate": "text"})}, 0)
    return judge_difference(runs.paired(saved, {}, {"aggregate": "both"})(), "%").noting(
        f"{text['text'].mean():.1f} times what sharing the text prompt alone sends." if text else "",
        "Every seed sends the same, so the interval has no width."
        if runs.values(sent).nunique() == 1
        else "Seeds differ only in how often counts are sent.",
    )


@statistic
def uploads_hide_the_histograms(runs: Evidence) -> Judged:
    """44: error of reading a client's class shares off its upload, minus the error of guessing the global shares."""

    def hidden(rows: Rows) -> float:
        return 100 * _first(rows, lambda true, sent: _error(sent, true) - _error(_global(true), true))

    def uniform(rows: Rows) -> float:
        return _first(rows, lambda true, sent: _error(np.ones_like(true), true))

    def explained(rows: Rows) -> float:
        return _first(rows, _explained)

    def recall(rows: Rows) -> float:
        return _first(rows, lambda true, sent: float((sent[true > 0] > 0).mean()))

    equal, r2, named = (100 * float(runs.values(read).mean()) for read in (uniform, explained, recall))
    return judge_every_case(runs.in_columns(hidden, runs.columns())).noting(
        f"Guessing equal shares errs by {equal:.0f} points; the upload explains {r2:.0f} % of the shares' variance "
        f"and names {named:.0f} % of the classes that a client holds.",
        "No confusion matrix was inverted: an attacker who has one does better.",
    )


@statistic
def uploads_tell_less_than_exact_counts(runs: Evidence) -> Judged:
    """45: error of the class shares read off filtered counts; exact counts have none."""

    def error(rows: Rows) -> float:
        return 100 * _first(rows, lambda true, sent: _error(sent, true))

    noisy = runs.cells({name: runs.later(error, **own) for name, own in _NOISE.items()}, least=0)
    cost = runs.cells({name: runs.gap(accuracy, own, {}) for name, own in _NOISE.items()}, least=0)
    said = "; ".join(
        f"{name}: error {noisy[name].mean():.0f}, accuracy {cost[name].mean():+.1f}" for name in noisy if name in cost
    )
    return judge_every_case(runs.in_columns(error, runs.columns())).noting(said + "." if said else "")


def _first(rows: Rows, read: Callable[[np.ndarray, np.ndarray], float]) -> float:
    """A number from the true and the uploaded counts of the first label phase, clients with images and uploads."""
    phase = phases(rows)[0]
    true, sent = counts(phase, "true"), counts(phase, "uploaded")
    there = (true.sum(axis=1) > 0) & (sent.sum(axis=1) > 0)
    return float(read(true[there], sent[there]))


def _error(guess: np.ndarray, true: np.ndarray) -> float:
    """Client mean of the total variation between guessed and true class shares."""
    return mean(distance(guess, true))


def _global(true: np.ndarray) -> np.ndarray:
    return np.broadcast_to(true.sum(axis=0), true.shape)


def _explained(true: np.ndarray, sent: np.ndarray) -> float:
    """R² of the true shares predicted by the uploaded ones, over clients and classes."""
    own, guess = shares(true), shares(sent)
    return float(1 - ((own - guess) ** 2).sum() / ((own - own.mean()) ** 2).sum())
