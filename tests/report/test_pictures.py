"""The notebooks' small pictures show the arrays they were given."""

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from fedcopl_lab import FedCoPLError
from fedcopl_lab.report import accuracy_per_client, confidence_entropy, counts_before_after, show_images


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
    bars = counts_before_after(true, filtered, quota, selected, ["ant", "bee", "cat"])
    heights = [[bar.get_height() for bar in group] for group in bars.axes[0].containers]
    assert heights == [list(array) for array in (true, filtered, quota, selected)]
    every = counts_before_after(*(np.stack([a, a]) for a in (true, filtered, quota, selected)))
    assert [axes.get_title() for axes in every.axes] == ["true classes", "filtered", "quota", "selected"]


def test_clients_without_test_images_are_left_out_of_the_mean() -> None:
    figure = accuracy_per_client({"zero-shot": np.array([0.5, np.nan, 0.7])}, np.array([10, 0, 12]))
    assert figure.legends[0].get_texts()[0].get_text() == "zero-shot (mean 60.0)"
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["0\nn = 10", "1\nn = 0", "2\nn = 12"]


def test_bad_input_is_named() -> None:
    one = np.array([0.5])
    with pytest.raises(FedCoPLError, match="cannot be shown"):
        show_images(np.zeros((2, 2)))
    with pytest.raises(FedCoPLError, match="cannot be shown"):
        show_images(np.zeros((0, 8, 8)))
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
