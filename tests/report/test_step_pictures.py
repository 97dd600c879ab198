"""The pictures of the steps show the arrays they were given."""

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from fedcopl_lab import FedCoPLError
from fedcopl_lab.report import arrows, bars, confusion, curves, prompt_maps


def test_confusion_counts_every_pair_and_both_margins() -> None:
    true, predicted = np.array([0, 0, 1, 2, 2, 2]), np.array([0, 1, 1, 2, 0, 2])
    figure = confusion(true, predicted, ["zero", "one", "two"])
    expected = [[sum((true == t) & (predicted == p)) for p in range(3)] for t in range(3)]
    assert figure.axes[0].collections[0].get_array().tolist() == expected
    heights = [[bar.get_height() for bar in group] for group in figure.axes[1].containers]
    assert heights == [[2, 1, 3], [2, 2, 2]]
    figure.canvas.draw()


def test_bars_and_curves_hold_the_values() -> None:
    values = {"a": np.array([1.0, np.nan]), "b": np.array([3.0, 4.0])}
    drawn = bars(values, "client", "accuracy (%)", ["x", "y"])
    for group, heights in zip(drawn.axes[0].containers, values.values(), strict=True):
        np.testing.assert_array_equal([bar.get_height() for bar in group], heights)
    assert [label.get_text() for label in drawn.axes[0].get_xticklabels()] == ["x", "y"]
    assert (drawn.get_figwidth(), bars(values, "client", "%", width="single").get_figwidth()) == (6.75, 3.25)
    lines = curves({"client 0": [2.0, 1.5, 1.0]}, "local epoch", "loss").axes[0].lines
    assert (lines[0].get_xdata().tolist(), list(lines[0].get_ydata())) == ([1, 2, 3], [2.0, 1.5, 1.0])


def test_prompts_share_one_colour_scale() -> None:
    figure = prompt_maps({"client 0": np.full((2, 3), 0.5), "client 1": np.full((2, 3), -2.0)})
    assert [axes.collections[0].get_clim() for axes in figure.axes[:2]] == [(-2.0, 2.0), (-2.0, 2.0)]
    figure.canvas.draw()


def test_bad_input_is_named() -> None:
    with pytest.raises((FedCoPLError, TypeCheckError)):
        confusion(np.array([0, 1]), np.array([0]), ["zero", "one"])
    with pytest.raises(FedCoPLError, match="outside 0 to 1"):
        confusion(np.array([0, 2]), np.array([0, 1]), ["zero", "one"])
    with pytest.raises(FedCoPLError, match=r"lengths \[1, 2\]"):
        bars({"a": np.array([1.0]), "b": np.array([1.0, 2.0])}, "", "")
    with pytest.raises(FedCoPLError, match="one length"):
        curves({}, "", "")
    with pytest.raises(FedCoPLError, match="no prompt"):
        prompt_maps({})


def test_arrows_show_every_move_and_their_average() -> None:
    figure = arrows({"right angle": [[1.0, 0.0], [0.0, 1.0]], "alike": [[2.0, 0.0], [2.0, 0.0]]})
    one, other = figure.axes
    assert [text.xy for text in one.texts] == [(1.0, 0.0), (0.0, 1.0)]
    assert one.lines[0].get_xydata().tolist() == [[0, 0], [0.5, 0.5]]
    assert one.get_xlim() == other.get_xlim()
    with pytest.raises(FedCoPLError, match="a pair"):
        arrows({"three numbers": [[1.0, 0.0, 2.0]]})
