"""Pictures changed in place equal pictures drawn from scratch, and their numbers equal slow counts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedcopl_lab as lab
from fedcopl_lab.extras.bench.widgets import made_up_rounds, made_up_scores, made_up_view_scores
from fedcopl_lab.methods import RECIPES, LocalTask, SemiSetting, SemiState, filter_all
from fedcopl_lab.report.looks import file_bytes
from fedcopl_lab.store import Store
from fedcopl_lab.widgets import (
    AllocationParams,
    Catalogue,
    KappaParams,
    PartitionParams,
    RoundParams,
    ThresholdParams,
    WeakViewScores,
)
from fedcopl_lab.widgets._allocation import AllocationScene
from fedcopl_lab.widgets._kappa import KappaScene
from fedcopl_lab.widgets._panels import nice_top
from fedcopl_lab.widgets._partition import PartitionScene, federation_of
from fedcopl_lab.widgets._redraw import PngPainter
from fedcopl_lab.widgets._rounds import RoundScene
from fedcopl_lab.widgets._thresholds import ThresholdScene

CATALOGUE = Catalogue([made_up_scores(3, 4, 40), replace(made_up_scores(2, 6, 30, seed=1), name="other")])
VIEWS = replace(made_up_view_scores(4, 24), batch=8)
HISTORY = made_up_rounds(3, 4, rounds=7)
LEVELS = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
NAMES = st.sampled_from(["made up", "other"])

CASES = {
    "thresholds": (lambda: ThresholdScene(CATALOGUE), ThresholdParams("made up", client=0),
                   st.builds(ThresholdParams, NAMES, st.integers(0, 1), LEVELS, LEVELS)),
    "allocation": (lambda: AllocationScene(CATALOGUE), AllocationParams("made up"),
                   st.builds(AllocationParams, NAMES, LEVELS, LEVELS, st.sampled_from(["paper", "none"]),
                             st.integers(0, 1), st.integers(0, 3), st.sampled_from([0, 7, 200]))),
    "kappa": (lambda: KappaScene(VIEWS), KappaParams(),
              st.builds(KappaParams, st.sampled_from([0.0, 2.0, 13.9, 60.0]), LEVELS, st.integers(0, 2),
                        st.integers(0, 7))),
    "partition": (PartitionScene, PartitionParams(),
                  st.builds(PartitionParams, st.just("digits"), st.sampled_from(["dirichlet", "iid", "sage iid"]),
                            st.integers(2, 6), st.sampled_from([1.0, 10.0]), seed=st.integers(0, 2))),
    "rounds": (lambda: RoundScene(HISTORY), RoundParams("made up"),
               st.builds(RoundParams, st.just("made up"), st.integers(1, 7))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=3)
@given(data=st.data())
def test_a_picture_after_moves_is_the_picture_drawn_from_scratch(name, data):
    new_scene, start, params = CASES[name]
    moved, fresh = new_scene(), new_scene()
    moved.show(start)
    painter = PngPainter(moved.figure)
    painter.png()  # drawing makes ticks and caches that a later move must not be misled by
    first, last = data.draw(params), data.draw(params)
    moved.show(first, start)
    told = moved.show(last, first)
    assert fresh.show(last, first) == told
    assert painter.png() == PngPainter(fresh.figure).png()


@pytest.mark.parametrize("draw", [
    lambda: lab.widgets.draw_thresholds(ThresholdParams("made up", client=1), CATALOGUE),
    lambda: lab.widgets.draw_allocation(AllocationParams("made up"), CATALOGUE),
    lambda: lab.widgets.draw_kappa(VIEWS, KappaParams(kappa=2.0)),
    lambda: lab.widgets.draw_partition(PartitionParams(n_clients=4, beta=1.0)),
    lambda: lab.widgets.draw_rounds(HISTORY, RoundParams("made up", 3)),
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


def test_the_explorers_keep_what_a_run_with_the_scores_settings_keeps():
    plain, pooled = (lab.configure("smoke", filter_scope=scope) for scope in ("client", "global"))
    logits = tuple(own * (k + 1) for k, own in enumerate(CATALOGUE["made up"].logits))  # the last is the surest
    scores = replace(CATALOGUE["made up"], logits=logits, config=pooled)
    kept, others = (sum(one.counts for one in filter_all(scores.logits, way)).tolist() for way in (pooled, plain))
    assert kept != others
    assert AllocationScene([scores]).show(AllocationParams("made up")).numbers["kept"] == kept
    told = ThresholdScene([scores]).show(ThresholdParams("made up", 1), ThresholdParams("made up", 1)).numbers
    assert told["gained"] == told["lost"] == 0


def test_added_images_take_quota_from_the_other_clients():
    scene = AllocationScene(CATALOGUE)
    params = AllocationParams("made up"), AllocationParams("made up", added=100)
    share = [quota[0, 0] / quota[:, 0].sum() for quota in (scene._compute(one, None).quota for one in params)]
    assert share[1] > share[0]


def test_kappa_decides_disputes():
    scene = KappaScene(VIEWS)
    for_global = [
        sum(scene.show(KappaParams(kappa, 0.3, step)).numbers["for_global"] for step in range(3))
        for kappa in (0.0, 60.0)
    ]
    disputed = sum(scene.show(KappaParams(60.0, 0.3, step)).numbers["disputed"] for step in range(3))
    assert for_global[0] == 0
    assert 0 < for_global[1] <= disputed


def test_weights_are_the_equation():
    told = KappaScene(VIEWS).show(KappaParams(kappa=5.0)).numbers
    p = [one[:8].softmax(dim=1).amax(dim=1).numpy() for one in (VIEWS.local, VIEWS.global_)]
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
    scene = RoundScene(HISTORY)
    rows = HISTORY.rows
    first, second = (np.array(rows[at]["labels"]["selected"]) for at in (0, 5))
    assert scene.show(RoundParams("made up", 5)).numbers["changed"] == first.sum()
    told = scene.show(RoundParams("made up", 7)).numbers
    assert told["changed"] == np.abs(second - first).sum()
    assert told["labels_made_in"] == 6


@pytest.mark.parametrize(("scene", "params", "saying"), [
    ("thresholds", ThresholdParams("made up", client=3), "client=3 does not exist in made up"),
    ("thresholds", ThresholdParams("made up", 0, q_conf=1.5), "q_conf=1.5"),
    ("thresholds", ThresholdParams("mnist"), "choose one of made up, other"),
    ("allocation", AllocationParams("made up", label=4), "label=4 is no class"),
    ("kappa", KappaParams(kappa=-1.0), "kappa=-1.0"),
    ("kappa", KappaParams(step=3), "step=3 does not exist"),
    ("kappa", KappaParams(image=8), "image=8 is not in this batch"),
    ("partition", PartitionParams(scheme="random"), "scheme='random' is unknown"),
    ("partition", PartitionParams(beta=0.0), "beta=0.0"),
    ("rounds", RoundParams("made up", 8), "round=8 is not in made up"),
    ("rounds", RoundParams("other"), "run='other' is not in this player"),
])  # fmt: skip
def test_bad_parameters_are_refused_with_value_and_remedy(scene, params, saying):
    with pytest.raises(lab.FedCoPLError, match=saying):
        CASES[scene][0]().draw(params)


def test_nothing_to_look_at_is_refused():
    for make, saying in ((lambda: RoundScene([]), "no run to play"), (lambda: Catalogue([]), "no data set to look at")):
        with pytest.raises(lab.FedCoPLError, match=saying):
            make()


def test_axes_end_above_their_values():
    round_values = [float(f"{digit}e{power}") for digit in range(1, 10) for power in range(-3, 6)]
    for value in (*np.geomspace(1e-3, 1e6, 2000).tolist(), *round_values):
        assert 1.03 * value <= nice_top(value) <= 2.5 * value


def test_a_client_s_scores_begin_with_its_own_statistics(tmp_path):
    few = {"rounds": 1, "steps_per_epoch": 2, "participation": 0.2, "width": 0.25, "clients_per_forward": 1}
    run = lab.run(lab.configure("smoke", method="SAGE", bn="local", **few), Store(tmp_path), progress=False)
    setting, state = SemiSetting.of(run.config, run.split), SemiState.from_tensors(run.load_state(), "cpu")
    client, shown = min(state.memories), WeakViewScores.of(run, min(state.memories)).global_
    for memory, same in ((state.memories[client], True), ({}, False)):
        noted = LocalTask(setting, RECIPES["SAGE"], client, 1, state.model, memory=memory).run().noted
        assert torch.equal(noted.global_, shown) == same
