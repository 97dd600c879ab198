"""Zero-shot scores against open_clip called by hand, one image and one caption at a time."""

import dataclasses
from inspect import unwrap

import pytest
import torch
from torch.nn import functional as F

from fedcopl_lab import Predictions, load_clip, load_dataset, zero_shot


@pytest.fixture(scope="module", params=["random", "tiny"])
def clip(request):
    return load_clip("tiny", weights="random" if request.param == "random" else None)


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


def by_hand(clip, digits, image, name):
    pixels = digits.images[image].float() / 255
    pixels = torch.stack([(pixels[i] - clip.mean[i]) / clip.std[i] for i in range(3)])
    tokens = clip.tokenizer([digits.template.replace("{}", name)])
    with torch.no_grad():
        a = clip.model.encode_image(pixels[None])[0]
        b = clip.model.encode_text(tokens)[0]
    return float(clip.model.logit_scale.exp() * F.cosine_similarity(a, b, dim=0))


def test_equals_open_clip_by_hand(clip, digits):
    chosen = [1796, 0, 5]
    logits = zero_shot(clip, digits, chosen).logits
    assert logits.shape == (3, 10)
    expected = torch.tensor([[by_hand(clip, digits, i, name) for name in digits.class_names] for i in chosen])
    assert (logits - expected).abs().max() <= 1e-4 * float(clip.model.logit_scale.exp())


def test_takes_all_images_and_any_kind_of_index(clip, digits):
    everything = zero_shot(clip, digits).logits
    assert everything.shape == (len(digits), 10)
    assert not everything.requires_grad
    for indices in (range(250, 262), list(range(250, 262)), torch.arange(250, 262)):
        assert torch.allclose(zero_shot(clip, digits, indices).logits, everything[250:262], atol=1e-4)


def test_predictions_describe_their_logits():
    result = Predictions(torch.tensor([[0.0, 2.0], [3.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    assert result.labels.tolist() == [1, 0, 1, 0]
    assert result.accuracy(torch.tensor([1, 0, 0, 0])) == 0.75
    assert torch.allclose(result.probabilities.sum(dim=1), torch.ones(4).double())
    assert float(result.probabilities[0, 1]) == pytest.approx(1 / (1 + 2.718281828459045**-2))
    assert repr(result) == "Predictions(4 images × 2 classes)"


@pytest.mark.parametrize("outside", [1797, -1798])
def test_refuses_an_image_that_is_not_there(clip, digits, refused, outside):
    with refused("indices go from", "digits has 1797 images", "choose from 0 to 1796"):
        zero_shot(clip, digits, [0, outside])


def test_refuses_no_image(clip, digits, refused):
    with refused("0 images", "at least one index"):
        zero_shot(clip, digits, [])


@pytest.mark.parametrize("indices", [torch.ones(1797, dtype=torch.bool), [0.5], torch.tensor(3)])
def test_refuses_what_are_no_positions(clip, digits, refused, indices):
    with refused("expected a list of whole numbers", ".nonzero()[:, 0]"):
        unwrap(zero_shot)(clip, digits, indices)


def test_refuses_a_class_name_that_the_context_cuts_off(clip, digits, refused):
    names = (*digits.class_names[:9], "very " * clip.context_length + "nine")
    with refused("nine' fills the context of", "shorten it"):
        zero_shot(clip, dataclasses.replace(digits, class_names=names), [0])
