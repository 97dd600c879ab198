"""Every statistic of the claims on made-up stored runs whose answer is known, both ways; FedCoPL's worlds."""

import math
import re
from collections.abc import Callable

import pytest
from made_up_runs import TRUE, jitter, label_phase, rounds
from test_sage_statistics import CASES as SAGE_CASES
from test_sage_statistics import NO, NOT_TESTED, YES
from test_sage_statistics import OTHERS as SAGE_OTHERS

from fedcopl_lab.config import PromptConfig
from fedcopl_lab.paper import claim_lines, judged_claims
from fedcopl_lab.paper._claims_table import RULES
from fedcopl_lab.paper.statistics import STATISTICS

THREE_ENCODERS = "methods_follow_the_encoder"


def by_accuracy(accuracy: Callable[[PromptConfig], float]):
    """A world where only the accuracy of a run depends on its settings."""
    return lambda config: rounds([50.0, 60.0, accuracy(config) + jitter(config)])


def by_labels(percent: Callable[[PromptConfig], float]):
    """A world where only the label accuracy of a run depends on its settings."""
    return lambda config: rounds([70.0] * 3, [label_phase(percent(config) + jitter(config))] * 2)


def by_counts(**names):
    """A world where every label phase has these counts."""
    return lambda config: rounds([70.0] * 3, [label_phase(**names)] * 2)


def fedcopl(own: float, other: float = 70.0, zero: float = 70.0):
    return by_accuracy(lambda c: own if c.method == "FedCoPL" else zero if c.method == "zero-shot" else other)


def if_(test: Callable[[PromptConfig], bool], gain: float):
    return by_accuracy(lambda c: 70.0 + gain * test(c))


def on(name: str, value):
    return lambda config: getattr(config, name) == value


def by_level(name: str, drop: float):
    return by_accuracy(lambda c: 70.0 - drop * abs((getattr(c, name) or 0.5) - 0.5))


def doubling(fall: float, own: float):
    return by_accuracy(lambda c: 80 - (own if c.method == "FedCoPL" else fall) * math.log2(c.n_clients / 5))


def by_skew(*leads: float):
    def lead(c: PromptConfig) -> float:
        place = ["iid", 0.5, 0.1, 0.05].index(c.scheme if c.scheme == "iid" else c.beta)
        return 70.0 + leads[place] * (c.method == "FedCoPL")

    return by_accuracy(lead)


def by_set(side: float):
    signs = {"dtd": 1, "cub": 1, "cifar10": -1, "cifar100": -1}
    return by_accuracy(lambda c: 70 + side * signs[c.dataset] * (c.labeller == "CPL"))


def by_encoder(sign: float):
    strength = {"tiny": 0.0, "tiny-p1": 5.0, "tiny-rn": -8.0}
    return by_accuracy(lambda c: 70 + strength[c.clip] * (1 if c.method == "zero-shot" else sign))


def unsteady(test: Callable[[PromptConfig], bool]):
    """Runs that pass the test jump up and down, in accuracy and in label accuracy."""

    def rows(c: PromptConfig):
        jump = 20.0 * test(c) + jitter(c)
        return rounds([60.0, 60.0 + jump, 60.0], [label_phase(60.0), label_phase(60.0 + jump)])

    return rows


def drifting(text: float, visual: float, last_text: float | None = None):
    def rows(c: PromptConfig):
        made = rounds([70.0] * 4)
        for row in made:
            for kind in ("drift", "cosine"):
                row |= {f"{kind}_text": text + jitter(c, 0.01), f"{kind}_visual": visual,
                        f"{kind}_text_from_mean": text + jitter(c, 0.01)}  # fmt: skip
        if last_text is not None:
            made[-1] |= {"drift_text": last_text, "cosine_text": last_text}
        return made

    return rows


def exchanging(own: float, other: float, average: float):
    table = [[own, other], [other, own]]
    return lambda c: rounds([70.0] * 3, exchange=table, exchange_mean=[average + jitter(c, 0.001)] * 2)


def clients(better_labels_gain: bool, true_labels_gain: float):
    """FedOTP's clients gain with or against their label accuracy; true labels add to personal prompts."""

    def rows(c: PromptConfig):
        personal = c.method == "FedOTP"
        made = rounds([70.0, 70.0, 70.0 + true_labels_gain * (personal and c.labeller == "true") + jitter(c)])
        gains = [0.1, 0.2, 0.3] if better_labels_gain else [0.3, 0.2, 0.1]
        made[-1]["clients"] = {"accuracy": gains if personal else [0.1] * 3, "label_accuracy": [0.5, 0.6, 0.7]}
        return made

    return rows


def relabelled(change: float, gain: float):
    """Label accuracy moves by ``change`` from first to last phase; refreshing labels gains ``gain`` points."""

    def rows(c: PromptConfig):
        accuracy = 70 + gain * (c.refresh_every > 0) + jitter(c)
        return rounds([60.0, 60.0, accuracy], [label_phase(80.0), label_phase(80.0 + change + jitter(c))])

    return rows


def sending(visual: int, both: int):
    def rows(c: PromptConfig):
        made = rounds([70.0] * 3)
        for row in made:
            row["bytes_up"] = {"visual": visual, "both": both, "text": 10}[c.aggregate]
        return made

    return rows


SKEWED, EVEN, LIKE_TRUE = [[60, 20, 20], [60, 20, 20]], [[20, 20, 20], [20, 20, 20]], [[20, 5, 0], [0, 5, 20]]
# over-predicted class 0 gains by filtering; the opposite for the reversed one
GROWS = {"predicted": [[45, 5, 0], [10, 10, 30]], "filtered": [[30, 0, 0], [10, 2, 8]]}
SHRINKS = {"predicted": [[45, 5, 0], [10, 10, 30]], "filtered": LIKE_TRUE}

CASES = {
    "zero_shot_favours_classes": (by_counts(predicted=SKEWED), by_counts()),
    "filtered_set_misrepresents": (by_counts(**GROWS), by_counts(**SHRINKS)),
    "allocation_balances_classes": (by_counts(filtered=SKEWED, selected=EVEN),
        by_counts(filtered=EVEN, selected=SKEWED)),
    "allocated_labels_represent_the_client": (by_counts(filtered=EVEN, selected=LIKE_TRUE),
        by_counts(filtered=LIKE_TRUE, selected=EVEN)),
    "copl_labels_beat_fpl_and_cpl": (by_labels(lambda c: 80 if c.labeller == "CoPL" else 60),
        by_labels(lambda c: {"CoPL": 70, "FPL": 80, "CPL": 60}[c.labeller])),
    "cpl_labels_beat_fpl": (by_labels(lambda c: 80 if c.labeller == "CPL" else 60),
        by_labels(lambda c: 60 if c.labeller == "CPL" else 80)),
    "label_accuracy_falls_with_skew": (by_labels(lambda c: {0.1: 80, 0.05: 70, None: 60}[c.beta]),
        by_labels(lambda c: {0.1: 60, 0.05: 70, None: 80}[c.beta])),
    "allocation_raises_label_accuracy": (by_labels(lambda c: 80 if c.allocation == "paper" else 70),
        by_labels(lambda c: 70 if c.allocation == "paper" else 80)),
    "allocation_makes_training_steadier": (unsteady(on("allocation", "none")), unsteady(on("allocation", "paper"))),
    "refreshed_labels_stay_accurate": (relabelled(1.0, 5.0), relabelled(-9.0, 5.0), relabelled(1.0, -5.0)),
    "wrong_counts_do_no_harm": (if_(lambda c: c.count_noise != "none", -0.5), if_(on("count_noise", "shuffled"), -8)),
    "best_under_dirichlet": (fedcopl(80), fedcopl(60), if_(on("labeller", "CPL"), 20)),
    "best_under_quantity_split": (fedcopl(80), fedcopl(80, zero=90)),
    "quantity_as_good_as_dirichlet": (fedcopl(80), if_(on("scheme", "quantity"), -9)),
    "many_baselines_below_zero_shot": (fedcopl(80, zero=75), fedcopl(80, zero=60)),
    "only_fedcopl_above_zero_shot_on_cub": (fedcopl(80, zero=75), fedcopl(74, zero=75)),
    "only_fedcopl_above_zero_shot_on_cub_with_resnet": (fedcopl(80, zero=75), fedcopl(80, other=76, zero=75)),
    "fedotp_below_zero_shot": (fedcopl(80, zero=75), if_(on("labeller", "FPL"), 5)),
    "wrong_labels_and_personal_prompts": (clients(True, 4.0), clients(False, 4.0), clients(True, -4.0)),
    "cpl_and_fpl_by_set": (by_set(3), by_set(-3)),
    "lead_grows_with_skew": (by_skew(1, 2, 4, 6), by_skew(6, 4, 2, 1)),
    "copl_labels_improve_every_trainer": (if_(on("labeller", "CoPL"), 6), if_(on("labeller", "CoPL"), -6)),
    "baselines_fall_with_clients": (doubling(3, 0.2), doubling(3, 6), doubling(-3, 0.2)),
    "low_participation_hurts": (by_accuracy(lambda c: 60 + 10 * c.participation),
        by_accuracy(lambda c: 80 - 10 * c.participation)),
    "low_participation_unsteadies": (unsteady(on("participation", 0.5)), unsteady(on("participation", 1.0))),
    "best_at_every_participation": (fedcopl(80), fedcopl(60)),
    "best_with_other_encoders": (fedcopl(80), fedcopl(80, zero=90)),
    "each_filter_adds": (by_accuracy(lambda c: 70 + 2 * (c.q_conf is not None) + 2 * (c.q_ent is not None)),
        by_accuracy(lambda c: 70 - 2 * (c.q_conf is not None) - 2 * (c.q_ent is not None))),
    "allocation_helps_without_filters": (if_(on("allocation", "none"), -4), if_(on("allocation", "none"), 4)),
    "sharing_visual_prompts_is_best": (if_(on("aggregate", "visual"), 4), if_(on("aggregate", "text"), 4)),
    "sharing_both_no_better_than_none": (if_(on("aggregate", "none"), 4), if_(on("aggregate", "none"), -4)),
    "sharing_visual_prompts_helps": (if_(on("aggregate", "none"), -4), if_(on("aggregate", "none"), 4)),
    "own_text_prompt_fits": (exchanging(0.8, 0.6, 0.7), exchanging(0.6, 0.8, 0.7), exchanging(0.7, 0.6, 0.8)),
    "text_drifts_more_in_size": (drifting(0.9, 0.6), drifting(0.5, 0.6)),
    "text_drifts_more_in_direction": (drifting(0.9, 0.6), drifting(0.5, 0.6)),
    "text_drifts_more_everywhere": (drifting(0.9, 0.6), drifting(0.9, 0.6, last_text=0.5)),
    "visual_prompts_are_similar": (drifting(0.9, 0.55), drifting(0.9, 0.95)),
    "tau1_hardly_matters": (by_level("q_conf", 0), by_level("q_conf", 100)),
    "tau2_hardly_matters": (by_level("q_ent", 0), by_level("q_ent", 100)),
    "thresholds_hardly_matter_anywhere": (by_level("q_conf", 0), by_level("q_ent", 100)),
    "one_half_is_near_the_best": (by_level("q_conf", 10), by_level("q_conf", -20)),
    "less_communication_than_both_prompts": (sending(80, 100), sending(100, 80)),
    "uploads_hide_the_histograms": (by_counts(uploaded=[[0, 10, 40], [40, 10, 0]]), by_counts()),
}  # fmt: skip
"""Statistic -> a world in which its claim holds, and worlds in which it does not."""
OTHERS = [
    (THREE_ENCODERS, by_encoder(1), NOT_TESTED),
    (THREE_ENCODERS, by_encoder(-1), NOT_TESTED),
    ("uploads_tell_less_than_exact_counts", by_counts(uploaded=EVEN), YES),
    ("uploads_tell_less_than_exact_counts", by_counts(uploaded=TRUE), NOT_TESTED),
    *SAGE_OTHERS,
]
VERDICTS = [
    (name, made_up, NO if place else YES)
    for name, worlds in (CASES | SAGE_CASES).items()
    for place, made_up in enumerate(worlds)
] + OTHERS
PAPER_SETS = (
    "only_fedcopl_above_zero_shot_on_cub",
    "only_fedcopl_above_zero_shot_on_cub_with_resnet",
    "cpl_and_fpl_by_set",
    "passes_the_reference_on_svhn",
)


@pytest.mark.parametrize(("name", "world", "verdict"), VERDICTS, ids=[f"{name}-{v}" for name, _, v in VERDICTS])
def test_the_verdict_is_the_made_up_truth(name, world, verdict, judged_by) -> None:
    judged = judged_by(name, world, "paper" if name in PAPER_SETS else "smoke")
    assert judged.verdict == verdict, judged
    assert judged.n_seeds == 3
    assert judged.text


def test_a_set_without_runs_is_left_out(judged_by) -> None:
    judged = judged_by(
        "baselines_fall_with_clients", lambda c: None if c.dataset == "cifar100" else doubling(3, 0.2)(c), "paper"
    )
    assert judged.verdict == YES
    assert "CIFAR-100" in judged.note


def test_both_averages_of_the_splits_are_over_the_same_sets(judged_by) -> None:
    """A set that is hard and has no quantity split does not make the other split's average lower."""

    def world(config: PromptConfig):
        hard = config.dataset == "cifar100"
        return None if hard and config.scheme == "quantity" else fedcopl(20 if hard else 80)(config)

    judged = judged_by("quantity_as_good_as_dirichlet", world, "paper")
    assert judged.verdict == YES
    assert "CIFAR-100" in judged.note


NAMED = judged_claims()["statistic"].tolist()


@pytest.mark.parametrize("name", NAMED)
def test_every_claim_is_tested_both_ways_and_not_without_runs(name, judged_by) -> None:
    found = {verdict for other, _, verdict in VERDICTS if other == name}
    if name != THREE_ENCODERS:  # too few for any verdict
        assert YES in found
        assert len(found) > 1
    judged = judged_by(name, lambda config: None)
    assert judged.verdict == "not tested"
    assert re.match(r"Needs 3 seeds of|About .*, which profile smoke does not have", judged.note)


def test_every_claim_has_one_statistic_and_every_statistic_its_claim() -> None:
    lines = claim_lines(judged_claims())
    assert all(NAMED)
    assert len(NAMED) == len(set(NAMED))
    assert set(lines.loc[lines["rule"] == "", "statistic"]) == set(STATISTICS)
    assert set(lines["rule"]) == {"", *RULES}
