"""Explorers without a browser: what Python reads and sets, what a move does, what is said instead of raised."""

import base64
from dataclasses import replace

import pytest

from fedcopl_lab import FedCoPLError, widgets
from fedcopl_lab.extras.bench.widgets import made_up_scores
from fedcopl_lab.widgets import ThresholdParams


@pytest.fixture
def explorer(catalogue):
    return widgets.explore_thresholds(catalogue, client=1)


@pytest.fixture(params=["thresholds", "allocation", "kappa", "partition", "rounds"])
def each(request, catalogue, views, history):
    return {
        "thresholds": lambda: widgets.explore_thresholds(catalogue),
        "allocation": lambda: widgets.explore_allocation(catalogue),
        "kappa": lambda: widgets.explore_kappa(views),
        "partition": lambda: widgets.explore_partition(n_clients=3, beta=1.0),
        "rounds": lambda: widgets.play_rounds(history),
    }[request.param]()


def test_every_parameter_has_a_labelled_control(each):
    assert set(each.controls) == set(each.state)
    for name, control in each.controls.items():
        assert control.description, name
        assert control.tooltip, name
        assert control.value == pytest.approx(each.state[name]) if isinstance(control.value, float) else True


def test_what_is_displayed_lives_and_has_a_still_picture(each):
    data, metadata = each._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == each.box.model_id
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["text/plain"] == repr(each)
    assert 700 < metadata["image/png"]["width"] < 1000
    assert each.error is None
    assert each.readout


def test_moving_a_control_changes_parameters_picture_and_words(explorer):
    picture, words = explorer.png, explorer.readout
    explorer.controls["q_conf"].value = 0.8
    assert explorer.params == ThresholdParams("made up", 1, 0.8, 0.5)
    assert explorer.png != picture
    assert explorer.readout != words


def test_setting_from_python_moves_the_controls(explorer):
    explorer.params = replace(explorer.params, q_ent=0.9)
    assert explorer.controls["q_ent"].value == 0.9
    explorer.set(q_conf=0.2, client=0)
    assert (explorer.controls["q_conf"].value, explorer.controls["client"].value) == (0.2, 0)
    kept = explorer.state
    explorer.set(q_conf=0.6)
    explorer.state = kept
    assert explorer.state == kept


@pytest.mark.parametrize(("change", "saying"), [
    ({"client": 17}, "client=17 does not exist"),
    ({"q_conf": 1.5}, "q_conf=1.5"),
    ({"dataset": "mnist"}, "dataset='mnist' is not in this explorer"),
    ({"tau": 1}, "there is no tau to set"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_said_and_nothing_changes(explorer, change, saying):
    state, picture = explorer.state, explorer.png
    explorer.set(**change)
    assert saying in explorer.message
    assert (explorer.state, explorer.png) == (state, picture)
    explorer.set(q_conf=0.4)
    assert explorer.message == ""
    assert explorer.png != picture


def test_a_control_may_ask_for_what_cannot_be_drawn(views):
    explorer = widgets.explore_partition(n_clients=3, beta=1.0)
    picture = explorer.png
    explorer.controls["mode"].value = "authors"
    explorer.controls["scheme"].value = "quantity"
    explorer.controls["fraction"].value = 0.1
    explorer.controls["n_clients"].value = 19
    assert explorer.message
    assert "The picture shows the settings before" in explorer.message
    assert explorer.params.n_clients == 19, "the controls' values stay readable"
    explorer.set(scheme="dirichlet", mode="paper", n_clients=3)
    assert explorer.message == ""
    assert explorer.png == picture


def test_an_unforeseen_failure_is_said_too(explorer, monkeypatch):
    def broken(params, previous=None):
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(explorer._scene, "show", broken)
    explorer.controls["q_conf"].value = 0.9
    assert "ZeroDivisionError: a bug of ours" in explorer.message
    assert isinstance(explorer.error, ZeroDivisionError)


def test_messages_show_no_markup(explorer):
    explorer.set(dataset="<b>bold</b>")
    assert "&lt;b&gt;" in explorer._alert.value
    assert "<b>bold</b>" in explorer.message


def test_controls_that_a_scheme_does_not_read_are_off():
    explorer = widgets.explore_partition(n_clients=3, beta=1.0)
    assert [name for name in ("beta", "fraction", "alpha") if not explorer.controls[name].disabled] == ["beta"]
    explorer.set(scheme="sage dirichlet", alpha=1.0)
    assert [name for name in ("beta", "fraction", "alpha") if not explorer.controls[name].disabled] == ["alpha"]
    explorer.controls["n_clients"].value = 6
    explorer.controls["scheme"].value = "quantity"
    assert "leaves 1 of them without a class" in explorer.message
    assert not explorer.controls["fraction"].disabled, "the way out of what is explained"
    explorer.controls["fraction"].value = 0.5
    assert not explorer.message


def test_the_fallback_of_the_filter_is_said(explorer):
    explorer.set(q_conf=1.0, q_ent=1.0)
    assert explorer.numbers["fallback"]
    assert "No image passes both filters" in explorer.message


def test_a_shorter_run_is_shown_at_its_last_round(history):
    short = replace(history, name="short", rows=history.rows[:3])
    explorer = widgets.play_rounds([history, short], round=6)
    explorer.controls["run"].value = "short"
    assert (explorer.state, explorer.controls["round"].value) == ({"run": "short", "round": 3}, 3)
    assert explorer.message == ""
    explorer.controls["run"].value = "made up"
    explorer.controls["round"].value = 7
    assert explorer.numbers["round"] == 7


def test_a_longer_run_is_shown_at_a_round_that_the_slider_did_not_have(history):
    explorer = widgets.play_rounds([replace(history, name="short", rows=history.rows[:3]), history])
    explorer.set(run="made up", round=5)
    assert (explorer.controls["round"].value, explorer.message) == (5, "")
    explorer.set(run="short")
    assert "round=5 is not in short" in explorer.message
    assert explorer.state == {"run": "made up", "round": 5}


def test_a_larger_data_set_has_all_its_clients_and_classes(catalogue):
    larger = made_up_scores(clients=5, classes=9, images=40)
    explorer = widgets.explore_allocation([*catalogue.values(), replace(larger, name="larger")])
    explorer.controls["dataset"].value = "larger"
    for name, value in (("client", 4), ("label", 8)):
        explorer.controls[name].value = value
        assert (explorer.state[name], explorer.controls[name].value, explorer.message) == (value, value, "")


def test_two_data_sets_of_one_name_are_refused(catalogue):
    with pytest.raises(FedCoPLError, match="several data sets are named made up; give one another name"):
        widgets.explore_allocation([*catalogue.values(), *catalogue.values()])


def test_what_a_control_cannot_show_is_said(views):
    explorer = widgets.explore_kappa(views, kappa=500.0)
    assert explorer.message == "kappa=500.0 is drawn, but its control cannot show it"
    explorer.set(kappa=4.0)
    assert explorer.message == ""
    explorer.set(kappa=400.0)
    assert explorer.message == "kappa=400.0 is drawn, but its control cannot show it"


def test_two_runs_of_one_name_are_both_offered(history):
    explorer = widgets.play_rounds([history, replace(history, rows=history.rows[:3])])
    assert list(explorer.controls["run"].options) == ["made up", "made up (2)"]
    explorer.controls["run"].value = "made up (2)"
    assert explorer.controls["round"].max == 3
