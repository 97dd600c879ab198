"""The notebooks' small pictures show the arrays they were given."""

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from fedcopl_lab import FedCoPLError
from fedcopl_lab.report import (
    accuracy_per_client,
    arrows,
    bars,
    confidence_entropy,
    confusion,
    counts_before_after,
    curves,
    prompt_maps,
    show_images,
)


@pytest.mark.parametrize("shape", [(3, 8, 8), (3, 3, 8, 8), (3, 8, 8, 3), (3, 1, 8, 8)])
@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_images_of_every_usual_shape_are_shown(shape, kind) -> None:
    images = np.random.default_rng(0).integers(0, 255, shape).astype(kind)
    figure = show_images(images, ["a", "b", "c"], columns=2)
    shown = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title() for axes in shown] == ["a", "b", "c"]
    data = shown[1].images[0].get_array()
    assert data.shape[:2] == (8, 8)
    if kind is np.uint8:
        first_channel = images[1] if images.ndim == 3 else images[1][0] if shape[1] in (1, 3) else images[1][..., 0]
        assert np.array_equal(data if data.ndim == 2 else data[..., 0], first_channel)
    figure.canvas.draw()


def test_filter_picture_counts_the_kept_and_names_the_thresholds() -> None:
    confidence, entropy = np.array([0.9, 0.5, 0.8]), np.array([0.1, 1.0, 0.4])
    figure = confidence_entropy(confidence, entropy, np.array([True, False, False]), (0.85, 0.3))
    left_out, kept = figure.axes[0].lines[:2]
    assert kept.get_xdata().tolist() == [0.9]
    assert left_out.get_ydata().tolist() == [1.0, 0.4]
    assert [entry.get_text() for entry in figure.legends[0].get_texts()] == ["left out (2)", "kept (1)"]
    assert [text.get_text() for text in figure.axes[0].texts] == ["confidence > 0.850", "entropy < 0.300"]
    assert not confidence_entropy(confidence, entropy, np.ones(3, dtype=bool), (None, None)).axes[0].texts


def test_counts_are_bars_for_one_client_and_bubbles_for_all() -> None:
    true, filtered, quota, selected = (np.array([5, 0, 3]) // (k + 1) for k in range(4))
    one = counts_before_after(true, filtered, quota, selected, ["ant", "bee", "cat"])
    heights = [[bar.get_height() for bar in group] for group in one.axes[0].containers]
    assert heights == [list(array) for array in (true, filtered, quota, selected)]
    every = counts_before_after(*(np.stack([a, a]) for a in (true, filtered, quota, selected)))
    assert [axes.get_title() for axes in every.axes] == ["true classes", "filtered", "quota", "selected"]


def test_clients_without_test_images_are_left_out_of_the_mean() -> None:
    figure = accuracy_per_client({"zero-shot": np.array([0.5, np.nan, 0.7])}, np.array([10, 0, 12]))
    assert figure.legends[0].get_texts()[0].get_text() == "zero-shot (mean 60.0)"
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["0\nn = 10", "1\nn = 0", "2\nn = 12"]


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


def test_arrows_show_every_move_and_their_average() -> None:
    figure = arrows({"right angle": [[1.0, 0.0], [0.0, 1.0]], "alike": [[2.0, 0.0], [2.0, 0.0]]})
    one, other = figure.axes
    assert [text.xy for text in one.texts] == [(1.0, 0.0), (0.0, 1.0)]
    assert one.lines[0].get_xydata().tolist() == [[0, 0], [0.5, 0.5]]
    assert one.get_xlim() == other.get_xlim()
    with pytest.raises(FedCoPLError, match="a pair"):
        arrows({"three numbers": [[1.0, 0.0, 2.0]]})


def test_bad_input_is_named() -> None:
    one = np.array([0.5])
    for shape in ((2, 2), (0, 8, 8)):
        with pytest.raises(FedCoPLError, match="cannot be shown"):
            show_images(np.zeros(shape))
    with pytest.raises(FedCoPLError, match="1 titles for 2 images"):
        show_images(np.zeros((2, 8, 8)), ["a"])
    with pytest.raises(FedCoPLError, match="outside \\[0, 1\\]"):
        accuracy_per_client(np.array([78.6]))
    with pytest.raises(FedCoPLError, match="one value per client"):
        accuracy_per_client({"a": one, "b": np.array([0.5, 0.6])})
    # whichever looks first: ours, or the shape checks of the test run
    with pytest.raises((FedCoPLError, TypeCheckError), match=r"four arrays of one shape|n_classes"):
        counts_before_after(*(np.ones(n, dtype=int) for n in (3, 3, 3, 4)))
    with pytest.raises((FedCoPLError, TypeCheckError), match=r"pass one per image|n_images"):
        confidence_entropy(one, np.array([0.1, 0.2]), np.array([True]), (0.5, 0.5))
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
