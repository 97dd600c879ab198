"""Pictures changed in place equal pictures drawn anew, and their numbers equal slow counts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedcopl_lab as lab
from fedcopl_lab.extras.bench.widgets import made_up_opinions, made_up_rounds, made_up_scores
from fedcopl_lab.report.looks import file_bytes
from fedcopl_lab.widgets._allocation import AllocationParams, AllocationScene, draw_allocation
from fedcopl_lab.widgets._canvas import Painter, nice_top, to_png
from fedcopl_lab.widgets._kappa import KappaParams, KappaScene, draw_kappa
from fedcopl_lab.widgets._partition import PartitionParams, PartitionScene, draw_partition, federation_of
from fedcopl_lab.widgets._rounds import RoundParams, RoundScene, draw_rounds
from fedcopl_lab.widgets._sources import Catalogue
from fedcopl_lab.widgets._threshold_scene import ThresholdParams, ThresholdScene
from fedcopl_lab.widgets._thresholds import draw_thresholds

CATALOGUE = Catalogue([made_up_scores(3, 4, 40), replace(made_up_scores(2, 6, 30, seed=1), name="other")])
OPINIONS = replace(made_up_opinions(4, 24), batch=8)
PLAYED = made_up_rounds(3, 4, rounds=7)
LEVELS = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
NAMES = st.sampled_from(["made up", "other"])

CASES = {
    "thresholds": (lambda: ThresholdScene(CATALOGUE), ThresholdParams("made up", client=0),
                   st.builds(ThresholdParams, NAMES, st.integers(0, 1), LEVELS, LEVELS)),
    "allocation": (lambda: AllocationScene(CATALOGUE), AllocationParams("made up"),
                   st.builds(AllocationParams, NAMES, LEVELS, LEVELS, st.sampled_from(["paper", "none"]),
                             st.integers(0, 1), st.integers(0, 3), st.sampled_from([0, 7, 200]))),
    "kappa": (lambda: KappaScene(OPINIONS), KappaParams(),
              st.builds(KappaParams, st.sampled_from([0.0, 2.0, 13.9, 60.0]), LEVELS, st.integers(0, 2),
                        st.integers(0, 7))),
    "partition": (PartitionScene, PartitionParams(),
                  st.builds(PartitionParams, st.just("digits"), st.sampled_from(["dirichlet", "iid", "sage iid"]),
                            st.integers(2, 6), st.sampled_from([1.0, 10.0]), seed=st.integers(0, 2))),
    "rounds": (lambda: RoundScene(PLAYED), RoundParams("made up"),
               st.builds(RoundParams, st.just("made up"), st.integers(1, 7))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_a_picture_after_moves_is_the_picture_drawn_anew(name, data):
    new_scene, start, params = CASES[name]
    moved, fresh = new_scene(), new_scene()
    moved.show(start)
    painter = Painter(moved.figure)
    painter.png()  # drawing makes ticks and caches that a later move must not be misled by
    first, last = data.draw(params), data.draw(params)
    moved.show(first, start)
    told = moved.show(last, first)
    assert fresh.show(last, first) == told
    assert painter.png() == to_png(fresh.figure)


@pytest.mark.parametrize("draw", [
    lambda: draw_thresholds(ThresholdParams("made up", client=1), CATALOGUE),
    lambda: draw_allocation(AllocationParams("made up"), CATALOGUE),
    lambda: draw_kappa(OPINIONS, KappaParams(kappa=2.0)),
    lambda: draw_partition(PartitionParams(n_clients=4, beta=1.0)),
    lambda: draw_rounds(PLAYED, RoundParams("made up", 3)),
], ids=list(CASES))  # fmt: skip
def test_draw_gives_a_figure_with_the_same_bytes_each_time(draw):
    assert file_bytes(draw(), "png", 60) == file_bytes(draw(), "png", 60)


def test_kept_gained_and_lost_are_what_a_slow_count_finds():
    scores = CATALOGUE["made up"]
    scene = ThresholdScene(CATALOGUE)
    before, now = ThresholdParams("made up", 1, 0.3, 0.3), ThresholdParams("made up", 1, 0.7, 0.1)
    told = scene.show(now, before).numbers
    kept = []
    for params in (before, now):
        p = scores.logits[1].double().softmax(dim=1).numpy()
        confidence, entropy = p.max(axis=1), -(p * np.log(p)).sum(axis=1)
        # quantiles of log-odds, which interpolate otherwise than quantiles of p
        odds = np.log(confidence / (1 - confidence))
        kept.append((odds > np.quantile(odds, params.q_conf)) & (entropy < np.quantile(entropy, 1 - params.q_ent)))
    assert told["kept"] == kept[1].sum()
    assert told["gained"] == (kept[1] & ~kept[0]).sum()
    assert told["lost"] == (kept[0] & ~kept[1]).sum()
    labels = scores.logits[1].argmax(dim=1).numpy()[kept[1]]
    assert told["kept_per_class"] == [int((labels == c).sum()) for c in range(4)]


def test_nothing_is_gained_or_lost_across_clients():
    told = ThresholdScene(CATALOGUE).show(ThresholdParams("made up", 1), ThresholdParams("made up", 0, 0.9))
    assert told.numbers["gained"] == told.numbers["lost"] == 0


def test_over_fed_classes_lie_above_the_budget():
    told = AllocationScene(CATALOGUE).show(AllocationParams("made up", added=60, label=2)).numbers
    over = {f"c{c}" for c, count in enumerate(told["kept"]) if count > told["per_class"]}
    assert set(told["over_fed"]) == over
    assert "c2" in over
    assert told["per_class"] == pytest.approx(sum(told["kept"]) / 4)


def test_added_images_take_quota_from_the_other_clients():
    before, after = AllocationScene(CATALOGUE), AllocationScene(CATALOGUE)
    read = before._read(AllocationParams("made up")).quota, after._read(AllocationParams("made up", added=100)).quota
    share = [quota[0, 0] / quota[:, 0].sum() for quota in read]
    assert share[1] > share[0]


def test_kappa_decides_disputes():
    scene = KappaScene(OPINIONS)
    for_global = [
        sum(scene.show(KappaParams(kappa, 0.3, step)).numbers["for_global"] for step in range(3))
        for kappa in (0.0, 60.0)
    ]
    disputed = sum(scene.show(KappaParams(60.0, 0.3, step)).numbers["disputed"] for step in range(3))
    assert for_global[0] == 0
    assert 0 < for_global[1] <= disputed


def test_weights_are_the_equation():
    told = KappaScene(OPINIONS).show(KappaParams(kappa=5.0)).numbers
    p = [one[:8].softmax(dim=1).amax(dim=1).numpy() for one in (OPINIONS.local, OPINIONS.global_)]
    np.testing.assert_allclose(told["weights"], np.exp(-5 * np.abs(p[0] - p[1])), atol=1e-5)


def test_partition_is_the_one_that_lab_partition_makes():
    params = PartitionParams(n_clients=4, beta=1.0, seed=3)
    expected = lab.partition(lab.load_dataset("digits"), "dirichlet", 4, beta=1.0, seed=3)
    assert federation_of(params).sha256 == expected.sha256
    told = PartitionScene().show(params).numbers
    assert told["sizes"] == expected.class_counts("train").sum(axis=1).tolist()
    assert told["total_variation"] == expected.heterogeneity.total_variation


@pytest.mark.parametrize("scheme", ["quantity", "sage dirichlet", "sage pairwise_balanced"])
@pytest.mark.parametrize("mode", ["paper", "authors"])
def test_every_scheme_can_be_drawn(scheme, mode):
    told = PartitionScene().show(PartitionParams(scheme=scheme, n_clients=5, alpha=1.0, mode=mode))
    assert len(told.numbers["sizes"]) == 5


def test_label_changes_are_differences_of_label_phases():
    scene = RoundScene(PLAYED)
    rows = PLAYED.rows
    first, second = (np.array(rows[at]["labels"]["selected"]) for at in (0, 5))
    assert scene.show(RoundParams("made up", 5)).numbers["changed"] == first.sum()
    told = scene.show(RoundParams("made up", 7)).numbers
    assert told["changed"] == np.abs(second - first).sum()
    assert told["labels_made_in"] == 6


@pytest.mark.parametrize(("make", "saying"), [
    (lambda: draw_thresholds(ThresholdParams("made up", client=3), CATALOGUE), "client=3 does not exist in made up"),
    (lambda: draw_thresholds(ThresholdParams("made up", 0, q_conf=1.5), CATALOGUE), "q_conf=1.5"),
    (lambda: draw_thresholds(ThresholdParams("mnist"), CATALOGUE), "choose one of made up, other"),
    (lambda: draw_allocation(AllocationParams("made up", label=4), CATALOGUE), "label=4 is no class"),
    (lambda: draw_kappa(OPINIONS, KappaParams(kappa=-1.0)), "kappa=-1.0"),
    (lambda: draw_kappa(OPINIONS, KappaParams(step=3)), "step=3 does not exist"),
    (lambda: draw_kappa(OPINIONS, KappaParams(image=8)), "image=8 is not in this batch"),
    (lambda: draw_partition(PartitionParams(scheme="random")), "scheme='random' is unknown"),
    (lambda: draw_partition(PartitionParams(beta=0.0)), "beta=0.0"),
    (lambda: draw_rounds(PLAYED, RoundParams("made up", 8)), "round=8 is not in made up"),
    (lambda: draw_rounds(PLAYED, RoundParams("other")), "run='other' is not in this player"),
    (lambda: draw_rounds([]), "no run to play"),
])  # fmt: skip
def test_bad_parameters_are_refused_with_value_and_remedy(make, saying):
    with pytest.raises(lab.FedCoPLError, match=saying):
        make()


@given(st.floats(1e-3, 1e6))
def test_axes_end_above_their_values(value):
    assert 1.03 * value <= nice_top(value) <= 2.5 * value
