"""Every statistic of SAGE's claims on made-up stored runs whose answer is known, both ways."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from made_up_runs import jitter
from sage_rows import model, sage_row

from fedcopl_lab.config import KAPPA_STAR, SageConfig
from fedcopl_lab.paper.items import targets
from fedcopl_lab.paper.statistics.sage import RIVALS

YES, NO, NOISE, FLOOR = "holds", "does not hold", "within noise", "not tested"
ROUNDS = 6


def skew(c: SageConfig) -> int:
    """How uneven the split is: 0, 1, 2 for α = 1, 0.5, 0.1."""
    return {1.0: 0, 0.5: 1, 0.1: 2}[c.alpha]


def world(**values: Any) -> Callable[[SageConfig], list[dict[str, Any]]]:
    """Runs whose rows have these values; a function gets the configuration and the round. Numbers get small noise."""

    def rows(c: SageConfig) -> list[dict[str, Any]]:
        made = []
        for number in range(1, ROUNDS + 1):
            own = {path: value(c, number) if callable(value) else value for path, value in values.items()}
            noisy = {path: v + jitter(c, 0.0005) if isinstance(v, float) else v for path, v in own.items()}
            made.append(sage_row(number, **noisy))
        return made

    return rows


def accuracy(of: Callable[[SageConfig], float]):
    """Runs of one round of which only the accuracy is there, in percent."""
    return lambda c: [{"round": 1, "accuracy": of(c) / 100 + jitter(c, 0.0005)}]


def counted(of: Callable[[SageConfig], int]):
    return lambda c, number: model(of(c))["counts"]


def at_nine(views: int, sign: int):
    """Confidences of 1,000 views of which so many lie in bin 9, more or fewer of them on uneven splits."""

    def counts(c, number):
        return [0] * 9 + [views + sign * 90 * skew(c)] + [(1000 - views) // 10 - sign * 9 * skew(c)] * 10

    return counts


def arriving(of: Callable[[SageConfig, float], int]):
    """Runs that reach the targets in the rounds that ``of`` gives for the first to the fourth."""

    def curve(c, number):
        there = [target for place, target in enumerate(targets("smoke"), 1) if number >= of(c, place)]
        return max(there, default=10) / 100 + 0.01

    return lambda c: [{"round": number, "accuracy": curve(c, number)} for number in range(1, ROUNDS + 1)]


def split(labelled, unlabelled):
    def rows(c):
        return [sage_row(1) | {"split": {"class_counts": {"labelled": labelled, "unlabelled": unlabelled}}}]

    return rows


def early(number: int) -> bool:
    return number <= ROUNDS // 3


def is_sage(c: SageConfig) -> bool:
    return c.method == "SAGE"


UNEVEN_HURTS = {
    "both__agreement": lambda c, number: 0.7 - 0.05 * skew(c),
    "local__n_sure_correct": lambda c, number: 150 - 20 * skew(c),
    "accuracy": lambda c, number: 0.6 if number > 1 + skew(c) else 0.1,
}
LAMBDA_UP = {f"both__{key}": lambda c, number: 0.3 + 0.1 * skew(c) for key in ("lambda", "lambda_sure")}
LAMBDA_DOWN = {f"both__{key}": lambda c, number: 0.6 - 0.1 * skew(c) for key in ("lambda", "lambda_sure")}

CASES = [
    ("local_grows_confident", world(local__counts=counted(lambda c: 300 + 50 * skew(c))), YES),
    ("local_grows_confident", world(local__counts=counted(lambda c: 300 - 50 * skew(c))), NO),
    ("global_grows_careful", world(global__counts=counted(lambda c: 300 - 50 * skew(c))), YES),
    ("global_grows_careful", world(global__counts=counted(lambda c: 300 + 50 * skew(c))), NO),
    ("confidence_gap_grows", world(both__gap=lambda c, n: 0.2 + 0.05 * skew(c)), YES),
    ("confidence_gap_grows", world(both__gap=lambda c, n: 0.3 - 0.05 * skew(c)), NO),
    ("trends_hold_at_every_threshold", world(local__counts=at_nine(900, -1), global__counts=at_nine(700, 1)), YES),
    ("trends_hold_at_every_threshold", world(local__counts=at_nine(900, -1), global__counts=at_nine(900, -1)), NO),
    # a strong local trend does not speak for a global one that is not there, nor for one that is 0 at every seed
    ("trends_hold_at_every_threshold", world(
        local__counts=at_nine(900, -1),
        global__counts=lambda c, n: [0] * 9 + [900 + round(jitter(c, 20))] + [10] * 10), NOISE),
    ("trends_hold_at_every_threshold", world(local__counts=at_nine(900, -1), global__counts=at_nine(900, 0)), FLOOR),
    ("local_labels_more_early", world(), YES),
    ("local_labels_more_early", world(local__n_sure=lambda c, n: 100 if early(n) else 900), NO),
    ("global_entropy_rises", world(global__entropy=lambda c, n: 1 + 0.1 * skew(c),
                                   global__histogram_entropy=lambda c, n: 0.5 + 0.1 * skew(c)), YES),
    ("global_entropy_rises", world(global__entropy=lambda c, n: 1 + 0.1 * skew(c),
                                   global__histogram_entropy=lambda c, n: 0.9 - 0.1 * skew(c)), NO),
    ("local_entropy_falls", world(local__entropy=lambda c, n: 1 - 0.1 * skew(c) * (2 if early(n) else 1)), YES),
    ("local_entropy_falls", world(local__entropy=lambda c, n: 1 - 0.1 * skew(c) * (1 if early(n) else 2)), NO),
    ("local_is_overconfident", world(local__confidence=0.6), YES),
    ("local_is_overconfident", world(local__confidence=0.4), NO),
    ("uneven_splits_do_harm", world(**UNEVEN_HURTS), YES),
    ("uneven_splits_do_harm", world(**UNEVEN_HURTS | {"both__agreement": lambda c, n: 0.7 + 0.05 * skew(c)}), NO),
    ("predictions_follow_the_client", world(), YES),
    ("predictions_follow_the_client", world(clients__end_batch_labelled_distance=[0.6, 0.5, None]), NO),
    ("entropy_follows_the_client", world(), YES),
    ("entropy_follows_the_client", world(clients__local_entropy=[0.8, 0.5, None]), NO),
    ("posterior_entropy_is_a_sum", world(clients__end_information=[0.01, 0.02, None],
                                         clients__end_printed=[-0.01, -0.02, None]), YES),
    ("posterior_entropy_is_a_sum", world(), NO),
    ("posterior_entropy_is_a_sum", world(clients__end_information=[0.01, 0.02, None]), NO),
    ("merged_model_is_the_mean", world(), YES),
    ("merged_model_is_the_mean", world(ensemble__distance_to_mean=0.5), NO),
    ("sure_only_where_clients_agree", world(ensemble__rank_correlation=0.5), YES),
    ("sure_only_where_clients_agree", world(ensemble__rank_correlation=-0.5), NO),
    ("labelled_and_unlabelled_differ", split([[50, 0], [0, 50]], [[50, 450], [450, 50]]), YES),
    ("labelled_and_unlabelled_differ", split([[10, 10], [5, 5]], [[100, 100], [50, 50]]), NO),
    ("lambda_rises_with_skew", world(**LAMBDA_UP), YES),
    ("lambda_rises_with_skew", world(**LAMBDA_DOWN), NO),
    ("relies_more_on_global", world(**LAMBDA_DOWN, both__n_disputed_for_global=lambda c, n: 20 + 5 * skew(c)), YES),
    ("relies_more_on_global", world(**LAMBDA_DOWN, both__n_disputed_for_global=lambda c, n: 40 - 5 * skew(c)), NO),
    ("lambda_lower_for_minority", world(groups__minority__lambda=0.5), YES),
    ("lambda_lower_for_minority", world(groups__minority__lambda=0.9), NO),
    ("lambda_rises_in_training", world(both__lambda=lambda c, n: 0.3 + 0.05 * n), YES),
    ("lambda_rises_in_training", world(both__lambda=lambda c, n: 0.9 - 0.05 * n), NO),
    ("lambda_gap_narrows", world(groups__minority__lambda=lambda c, n: 0.3 + 0.05 * n), YES),
    ("lambda_gap_narrows", world(groups__minority__lambda=lambda c, n: 0.6 - 0.05 * n), NO),
    ("agreement_rises_with_sage", world(both__agreement=lambda c, n: 0.8 if is_sage(c) else 0.7), YES),
    ("agreement_rises_with_sage", world(both__agreement=lambda c, n: 0.6 if is_sage(c) else 0.7), NO),
    ("corrected_labels_soften_errors", world(both__disputed_true_mass=0.6), YES),
    ("corrected_labels_soften_errors", world(both__disputed_true_mass=0.45), NO),
    ("hard_labels_beat_soft", accuracy(lambda c: 60 - 5 * (c.target == "soft")), YES),
    ("hard_labels_beat_soft", accuracy(lambda c: 60 + 5 * (c.target == "soft") * is_sage(c)), NO),
    ("sage_beats_one_model", accuracy(lambda c: 60 + 5 * is_sage(c)), YES),
    ("sage_beats_one_model", accuracy(lambda c: 60 + 2 * is_sage(c) + 4 * (c.method == "FixMatch-GPL")), NO),
    ("cpg_adds_labels", world(), YES),
    ("cpg_adds_labels", world(both__n_added=0), FLOOR),
    ("added_labels_are_right_early", world(), YES),
    ("added_labels_are_right_early", world(both__n_added_correct=lambda c, n: 20 if early(n) else 90), NO),
    ("cpg_helps_minority", world(), YES),
    ("cpg_helps_minority", world(groups__minority__n_used=10), NO),
    ("both_parts_help", accuracy(
        lambda c: 60 - 4 * (not c.use_cpg) - 4 * (not c.use_cdsc) - 4 * (c.fixed_weight is not None)), YES),
    ("both_parts_help", accuracy(lambda c: 60 - 9 * (not c.use_cpg) + 4 * (not c.use_cdsc)), NO),
    ("any_kappa_works", accuracy(lambda c: 60 + 5 * is_sage(c)), YES),
    ("any_kappa_works", accuracy(lambda c: 60 + is_sage(c) * (5 - 9 * (c.kappa == 2))), NO),
    ("large_kappas_are_alike", accuracy(lambda c: 60 - 20 / c.kappa**2), YES),
    ("large_kappas_are_alike", accuracy(lambda c: 60 - c.kappa), NO),
    ("kappa_star_is_best", accuracy(lambda c: 60 - abs(c.kappa - KAPPA_STAR)), YES),
    ("kappa_star_is_best", accuracy(lambda c: 60 - c.kappa), NO),
    ("fewest_rounds", arriving(lambda c, place: place + (not is_sage(c))), YES),
    ("fewest_rounds", arriving(lambda c, place: place + is_sage(c)), NO),
    ("largest_lead_early", arriving(lambda c, place: (1 if is_sage(c) else 3) if place == 1 else 4), YES),
    ("largest_lead_early", arriving(lambda c, place: 2 if place < 4 else 3 if is_sage(c) else 6), NO),
    ("best_with_a_fifth_labelled", accuracy(lambda c: 60 + 3 * is_sage(c) + 9 * (c.method == "FedAvg-SL")), YES),
    ("best_with_a_fifth_labelled", accuracy(lambda c: 60 + 3 * is_sage(c) + 9 * (c.method == "FedDB")), NO),
    ("best_with_a_tenth_labelled", accuracy(lambda c: 60 + 3 * is_sage(c)), YES),
    ("best_with_a_tenth_labelled", accuracy(lambda c: 60 - 3 * is_sage(c)), NO),
    ("lead_independent_of_labels", accuracy(lambda c: 60 + 3 * is_sage(c) + c.labelled_per_class), YES),
    ("lead_independent_of_labels", accuracy(lambda c: 60 + 2 * c.labelled_per_class * is_sage(c)), NO),
    ("robust_to_skew", accuracy(lambda c: 60 - skew(c) * (1 if is_sage(c) else 3)), YES),
    ("robust_to_skew", accuracy(lambda c: 60 - skew(c) * (3 if is_sage(c) else 1)), NO),
    ("passes_the_reference_on_svhn", accuracy(lambda c: 90 + is_sage(c)), YES),
    ("passes_the_reference_on_svhn", accuracy(lambda c: 90 - is_sage(c)), NO),
]  # fmt: skip


@pytest.mark.parametrize(("name", "made_up", "verdict"), CASES, ids=[f"{name}-{v}" for name, _, v in CASES])
def test_the_verdict_is_the_made_up_truth(name, made_up, verdict, judged_by) -> None:
    judged = judged_by(name, made_up, "paper" if name == "passes_the_reference_on_svhn" else "smoke")
    assert judged.verdict == verdict, judged
    assert judged.n_seeds == 3
    assert judged.text


@pytest.mark.parametrize(("gain", "others", "verdict"), [(3, (0,), "not tested"), (-3, (), NO)])
def test_a_best_row_cannot_be_named_without_its_rivals_but_a_loss_can_be_seen(gain, others, verdict, judged_by) -> None:
    full, known = accuracy(lambda c: 60 + gain * is_sage(c)), ("SAGE", "FixMatch-LPL", "FixMatch-GPL")
    stored = judged_by(
        "best_with_a_tenth_labelled", lambda c: full(c) if c.method in known or c.seed in others else None
    )
    assert stored.verdict == verdict
    if verdict != NO:
        assert "Only over the best of FixMatch-LPL, FixMatch-GPL (holds)" in stored.note
        assert all(name in stored.note for name in RIVALS)


def test_curves_that_never_arrive_count_with_their_bound(judged_by) -> None:
    judged = judged_by("fewest_rounds", arriving(lambda c, place: 1 if is_sage(c) else 99))
    assert judged.difference == pytest.approx(math.log2((ROUNDS + 1) / 1))
    assert "36 curves never reached a target" in judged.note  # LPL, 3 seeds, 3 α, 4 targets
