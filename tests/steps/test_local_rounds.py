"""What the trainers add to a local round, against the plain forward and losses written out by hand."""

from copy import copy
from dataclasses import replace

import pytest
import torch
from small_round import LABELS, config_of, plain_images, start_of, stream, trained
from torch.nn import functional as F

from fedcopl_lab import PseudoLabels, configure, train_round
from fedcopl_lab._card import tf32_in
from fedcopl_lab.steps import ImageCache, ImageRows, Scorer, label_loss, learning_rate, transport_plan


def whole_batch(**changes):
    """One step on all images: its gradient can be written out."""
    return {"momentum": 0.0, "weight_decay": 0.0, "lr_schedule": "constant"} | changes


def assert_descends(update, state, loss_of):
    """Two steps of plain gradient descent on all images, in the order of the round's generator."""
    prompts, order = [state.text.clone(), state.visual.clone()], stream()
    for _ in range(2):
        leaves = [p.clone().requires_grad_() for p in prompts]
        loss = loss_of(torch.randperm(7, generator=order), *leaves)
        prompts = [p - 0.1 * g for p, g in zip(prompts, torch.autograd.grad(loss, leaves), strict=True)]
    assert (update.text - prompts[0]).abs().max() <= 1e-10
    assert (update.visual - prompts[1]).abs().max() <= 1e-10
    assert update.epoch_losses[1] == pytest.approx(float(loss.detach()), abs=1e-10)


def template_of(small):
    return F.normalize(torch.randn(3, 12, generator=torch.Generator().manual_seed(3), dtype=torch.float64), dim=1)


def test_prox_with_mu_0_is_promptfl_bit_for_bit(small):
    plain = trained(small, config_of())
    for gradient in (True, False):
        prox = trained(small, config_of("PromptProx", prox_mu=0.0, prox_gradient=gradient))
        assert torch.equal(prox.text, plain.text)
        assert torch.equal(prox.visual, plain.visual)
        assert prox.epoch_losses == plain.epoch_losses


def test_prox_without_gradient_prints_another_loss_and_trains_the_same(small):
    plain = trained(small, config_of())
    prox = trained(small, config_of("PromptProx", prox_mu=0.7, prox_gradient=False))
    assert torch.equal(prox.text, plain.text)
    assert torch.equal(prox.visual, plain.visual)
    assert prox.epoch_losses[1] > plain.epoch_losses[1]


def test_prox_with_gradient_equals_the_loss_by_hand(small):
    config = replace(config_of("PromptProx", prox_mu=0.7, **whole_batch()), batch_size=7)
    state = start_of(small)

    def loss_of(batch, text, visual):
        logits = small.plain_logits(small.images[LABELS.indices[batch]], text, visual)
        far = (text - state.text).square().sum() + (visual - state.visual).square().sum()
        return F.cross_entropy(logits, LABELS.labels[batch]) + 0.35 * far

    assert_descends(trained(small, config, state), state, loss_of)


def test_a_strong_proximal_term_holds_the_prompts(small):
    """The pull equals the gradient at gradient / mu, 2 of the free run's first steps; its later ones are shorter."""
    changes = whole_batch(lr=1e-4)
    runs = (config_of("PromptProx", prox_mu=mu, **changes) for mu in (0.0, 5000.0))
    free, held = (trained(small, replace(config, batch_size=7, local_epochs=20)) for config in runs)
    start = start_of(small)
    assert (held.text - start.text).norm() < 0.5 * (free.text - start.text).norm()


def test_candidate_loss_sums_probabilities_over_the_set():
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    masks = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 0, 0]]).bool()
    by_hand = [-(z.softmax(0)[mask].sum()).log() for z, mask in zip(logits, masks, strict=True)]
    labels = torch.zeros(5, dtype=torch.long)
    assert float(label_loss(logits, labels, masks)) == pytest.approx(float(torch.stack(by_hand).mean()), abs=1e-12)
    single = F.one_hot(labels + 2, 4).bool()
    assert float(label_loss(logits, labels, single)) == pytest.approx(float(F.cross_entropy(logits, labels + 2)))


def test_sets_of_one_class_train_as_hard_labels_and_wider_ones_do_not(small):
    single = replace(LABELS, candidates=F.one_hot(LABELS.labels, 3).bool())
    wider = replace(LABELS, candidates=F.one_hot(LABELS.labels, 3).bool() | torch.tensor([True, False, False]))
    hard, sets, doubtful = (trained(small, config_of(), labels=labels) for labels in (LABELS, single, wider))
    assert (hard.text - sets.text).abs().max() <= 1e-12
    assert (hard.text - doubtful.text).abs().max() > 1e-4


def slow_votes(features, keys, labels, own, summed):
    """Image by image; ``own`` is each image's place in the cache, None for one that is not in it."""
    votes = []
    for feature, place in zip(features, own, strict=True):
        near = torch.exp(-3 * (1 - keys @ feature))
        line = []
        for c in range(3):
            of_class = [i for i, label in enumerate(labels.tolist()) if label == c and (summed or i != place)]
            total = sum((near[i] for i in of_class), torch.zeros((), dtype=near.dtype))
            line.append(total if summed else 16 * total / max(len(of_class), 1))
        votes.append(torch.stack(line))
    return 2 * torch.stack(votes)


PLACES = [{image: i for i, image in enumerate(LABELS.indices.tolist())}.get(image) for image in range(9)]


@pytest.mark.parametrize("votes", ["mean", "sum"])
def test_pfedprompt_adds_the_votes_of_its_cache(small, votes):
    config = config_of("pFedPrompt", cache_weight=2.0, cache_sharpness=3.0, cache_votes=votes)
    state, scorer = start_of(small), Scorer(small.prompted, config)
    cache = scorer.cache(ImageRows.of(small.images, torch.arange(9), "cpu"), state.visual, LABELS)
    features = small.prompted.image_features(small.images, state.visual)
    halves = scorer.images(small.images, state.visual), scorer.texts({"text": state.text})
    plain = small.plain_logits(small.images, state.text, state.visual)
    for own, places in ((None, [None] * 9), (torch.arange(9), PLACES)):
        expected = slow_votes(features, features[LABELS.indices], LABELS.labels, places, votes == "sum")
        assert (scorer.logits(*halves, cache, own) - plain - expected).abs().max() <= 1e-10
    assert cache.keys.requires_grad is False
    update = trained(small, config, state)
    assert not torch.equal(update.text, trained(small, config_of()).text)
    without = trained(small, config_of("pFedPrompt", cache_weight=0.0, cache_votes=votes))
    assert torch.equal(without.text, trained(small, config_of()).text)


def test_a_clients_images_are_encoded_once_for_one_prompt(small, monkeypatch):
    scorer, visual, encoded = Scorer(copy(small.prompted), config_of("pFedPrompt")), start_of(small).visual, []
    encode = Scorer.known_images
    monkeypatch.setattr(Scorer, "known_images", lambda self, *of: encoded.append(len(of[0])) or encode(self, *of))
    other_images, other_labels = small.images.flip(0), PseudoLabels(LABELS.indices[:4], LABELS.labels[:4])
    asked = [(small.images, visual, LABELS), (small.images, visual + 0.1, LABELS), (small.images, visual, other_labels),
             (other_images, visual, LABELS)]  # fmt: skip
    for calls, (images, prompt, labels) in enumerate(asked, start=1):
        rows = ImageRows.of(images, torch.arange(9), "cpu")
        for _ in range(2):
            keys = scorer.cache(rows, prompt, labels).keys
            assert torch.equal(keys, small.prompted.image_features(images[labels.indices], prompt))
        assert len(encoded) == calls
    with tf32_in(matrices=True):
        scorer.cache(rows, prompt, labels)
    assert len(encoded) == calls + 1, "a test's features are not those of a training in TF32"


def test_a_class_with_many_cached_images_has_no_louder_vote(small):
    """A client may cache thousands of images of one class: their sum drowns the prompts, their mean does not."""
    many = PseudoLabels(LABELS.indices.repeat(200), LABELS.labels.repeat(200))
    features = small.prompted.image_features(small.images, start_of(small).visual)
    for votes, grows in (("mean", False), ("sum", True)):
        config = config_of("pFedPrompt", cache_votes=votes)
        once, often = (ImageCache.of(features[one.indices], one, 3, config).votes(features) for one in (LABELS, many))
        assert torch.allclose(often, once * (200 if grows else 1), atol=1e-9)


def test_a_class_without_cached_images_has_no_vote_and_no_gradient_of_it():
    labels = PseudoLabels(torch.tensor([4]), torch.tensor([1]))
    cache = ImageCache.of(torch.tensor([[1.0, 0.0]]), labels, 3, config_of("pFedPrompt", cache_sharpness=2.0))
    feature = torch.tensor([[0.6, 0.8]], requires_grad=True)
    votes = cache.votes(feature, torch.tensor([-1]))
    assert votes[0, [0, 2]].tolist() == [0.0, 0.0]
    votes.sum().backward()
    assert feature.grad.isfinite().all()
    assert cache.votes(feature, torch.tensor([4])).tolist() == [[0.0, 0.0, 0.0]], "alone in its class"


@pytest.mark.parametrize("votes", ["mean", "sum"])
def test_the_cache_is_frozen_when_the_round_starts(small, votes):
    """By hand: the keys stay those of the first prompt while the visual prompt moves."""
    changes = whole_batch(cache_weight=2.0, cache_sharpness=3.0, cache_votes=votes)
    config = replace(config_of("pFedPrompt", **changes), batch_size=7)
    state = start_of(small)
    with torch.no_grad():
        keys = small.prompted.image_features(small.images[LABELS.indices], state.visual)

    def loss_of(batch, text, visual):
        images = small.images[LABELS.indices[batch]]
        features = small.prompted.image_features(images, visual)
        added = slow_votes(features, keys, LABELS.labels, batch.tolist(), votes == "sum")
        logits = small.plain_logits(images, text, visual) + added
        return F.cross_entropy(logits, LABELS.labels[batch])

    assert_descends(trained(small, config, state), state, loss_of)


def test_a_cache_of_candidates_votes_for_all_of_them():
    labels = PseudoLabels(torch.tensor([0]), torch.tensor([1]), torch.tensor([[False, True, True]]))
    for votes, expected in (("sum", [[0.0, 0.5, 0.5]]), ("mean", [[0.0, 16.0, 16.0]])):
        cache = ImageCache.of(torch.tensor([[1.0, 0.0]]), labels, 3, config_of("pFedPrompt", cache_votes=votes))
        assert cache.votes(torch.tensor([[1.0, 0.0]])).tolist() == expected


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_way_of_a_prompt_is_its_gradients_part_and_weight_decays(small, momentum):
    """Step by step: what weight decay does to each prompt, with a momentum of its own."""
    changes = {"momentum": momentum, "weight_decay": 0.3, "lr_schedule": "constant"}
    config = replace(config_of(**changes), batch_size=7, local_epochs=3)
    state = start_of(small)
    update = trained(small, config, state)
    prompts = {"text": state.text, "visual": state.visual}
    buffers, way = ({part: torch.zeros_like(p) for part, p in prompts.items()} for _ in range(2))
    for steps in range(1, 4):
        for part, prompt in prompts.items():
            buffers[part] = momentum * buffers[part] + 0.3 * prompt
            way[part] = way[part] - 0.1 * buffers[part]
        reached = trained(small, replace(config, local_epochs=steps), state)
        prompts = {"text": reached.text, "visual": reached.visual}
    for part, expected in way.items():
        assert (update.decay[part] - expected).abs().max() <= 1e-12
    still = trained(small, replace(config, weight_decay=0.0), state)
    assert not any(one.any() for one in still.decay.values())


def test_fedotp_equals_transport_by_hand(small):
    """One step on all images: patches of the plain tower, two contexts, no gradient through the plan."""
    config = replace(config_of("FedOTP", **whole_batch()), batch_size=7, local_epochs=1)
    state = start_of(small, "FedOTP")
    leaves = [p.clone().requires_grad_() for p in (state.text, state.text_local, state.visual)]
    images = small.images[LABELS.indices]
    patches = small.prompted.patch_features(images, leaves[2])
    texts = [small.prompted.text_features(leaf) for leaf in leaves[:2]]
    logits = torch.zeros(7, 3).double()
    for c in range(3):
        similarity = torch.stack([patches @ text[c] for text in texts], dim=2)
        logits[:, c] = small.model.logit_scale.exp() * (transport_plan(similarity.detach()) * similarity).sum(
            dim=(1, 2)
        )
    loss = F.cross_entropy(logits, LABELS.labels)
    gradients = torch.autograd.grad(loss, leaves)
    update = trained(small, config, state)
    for found, leaf, gradient in zip((update.text, update.text_local, update.visual), leaves, gradients, strict=True):
        assert gradient.abs().max() > 0
        assert (found - (leaf - 0.1 * gradient)).abs().max() <= 1e-10
    assert update.epoch_losses == pytest.approx([float(loss.detach())], abs=1e-10)


@pytest.mark.parametrize("method", ["PromptFL", "FedOTP", "pFedPrompt"])
def test_text_alone_is_trained_on_plain_images(small, method):
    config = config_of(method, modalities="text")
    prompted, state = plain_images(small), start_of(small, method, visual=False)
    update = trained(small, config, state, prompted=prompted)
    assert update.visual.shape == (2, 0, 24)
    assert not torch.equal(update.text, state.text)
    assert set(update.momentum) == ({"text", "text_local"} if method == "FedOTP" else {"text"})
    own = F.normalize(small.model.encode_image(small.images), dim=-1)
    assert (prompted.image_features(small.images, update.visual) - own).abs().max() <= 1e-10


def test_text_alone_equals_sgd_on_frozen_features(small):
    config = replace(config_of(modalities="text", **whole_batch()), batch_size=7, local_epochs=1)
    prompted, state = plain_images(small), start_of(small, visual=False)
    leaf = state.text.clone().requires_grad_()
    logits = small.plain_logits(small.images[LABELS.indices], leaf, state.visual)
    gradient = torch.autograd.grad(F.cross_entropy(logits, LABELS.labels), leaf)[0]
    update = trained(small, config, state, prompted=prompted)
    assert (update.text - (state.text - 0.1 * gradient)).abs().max() <= 1e-10


@pytest.mark.parametrize("method", ["PromptFL", "FedOTP"])
def test_visual_alone_is_trained_against_the_template(small, method):
    config, template = config_of(method, modalities="visual"), template_of(small)
    state = start_of(small, method)
    update = trained(small, config, state, template=template)
    assert torch.equal(update.text, state.text)
    assert not torch.equal(update.visual, state.visual)
    assert set(update.momentum) == {"visual"}
    if method == "PromptFL":
        once = replace(config, batch_size=7, local_epochs=1, **whole_batch())
        leaf = state.visual.clone().requires_grad_()
        features = small.prompted.image_features(small.images[LABELS.indices], leaf)
        logits = small.model.logit_scale.exp() * features @ template.T
        gradient = torch.autograd.grad(F.cross_entropy(logits, LABELS.labels), leaf)[0]
        found = trained(small, once, state, template=template)
        assert (found.visual - (state.visual - 0.1 * gradient)).abs().max() <= 1e-10


def test_visual_alone_needs_the_template(small, refused):
    with refused("modalities='visual'", "template's text features"):
        trained(small, config_of(modalities="visual"))


@pytest.mark.parametrize("method", ["PromptProx", "pFedPrompt", "FedOTP"])
@pytest.mark.parametrize("modalities", ["text", "visual", "both"])
def test_clients_in_one_pass_equal_one_by_one(small, method, modalities):
    config = config_of(method, modalities=modalities)
    prompted = plain_images(small) if modalities == "text" else small.prompted
    starts = [start_of(small, method, visual=modalities != "text") for _ in range(2)]
    sets = [LABELS, PseudoLabels(indices=torch.tensor([4, 6]), labels=torch.tensor([0, 2]))]
    template = template_of(small) if modalities == "visual" else None
    streams = [[torch.Generator().manual_seed(k) for k in (1, 2)] for _ in range(2)]
    together = train_round(
        prompted, [small.images] * 2, sets, starts, config=config, generator=streams[0], template=template
    )
    for k, joint in enumerate(together):
        alone = train_round(
            prompted, small.images, sets[k], starts[k], config=config, generator=streams[1][k], template=template
        )
        for part in ("text", "visual") + (("text_local",) if method == "FedOTP" else ()):
            ours, theirs = getattr(joint, part), getattr(alone, part)
            assert ours.shape == theirs.shape
            assert not ours.numel() or (ours - theirs).abs().max() <= 1e-9, part


def test_only_fedotp_has_a_second_text(small):
    assert trained(small, config_of()).text_local is None
    update = trained(small, config_of("FedOTP"))
    assert not torch.equal(update.text, update.text_local)


def test_constant_rates_and_warm_up():
    config = configure("smoke", lr_schedule="constant", warmup_epochs=2, lr=0.01, local_epochs=3)
    rates = [learning_rate(config, r, e) for r, e in ((0, 0), (0, 1), (0, 2), (1, 0), (3, 2))]
    assert rates == [1e-5, 1e-5, 0.01, 0.01, 0.01]
    cosine = replace(config, lr_schedule="run", warmup_epochs=1)
    assert learning_rate(cosine, 0, 0) == 1e-5
    assert 0 < learning_rate(cosine, 0, 1) < 0.01
