"""The local update against SGD written out by hand on the plain forward."""

import math
from dataclasses import replace

import pytest
import torch
from small_round import LABELS, config_of, start_of, stream, trained
from torch.nn import functional as F

from fedcopl_lab import PromptState, PseudoLabels, configure, train_round
from fedcopl_lab.steps import learning_rate


def by_hand(small, state, config, generator):
    """g = gradient + decay * prompt; v = momentum * v + g; prompt = prompt - lr * v, batch after batch."""
    prompts = [state.text.clone(), state.visual.clone()]
    speed = [state.momentum.get(name, torch.zeros(())) for name in ("text", "visual")]
    losses, n = [], len(LABELS)
    for epoch in range(config.local_epochs):
        period = {"phase": config.refresh_every, "run": config.rounds, "round": 1}[config.lr_schedule]
        place = (state.round % period) * config.local_epochs + epoch
        lr = 0.5 * config.lr * (1 + math.cos(math.pi * place / (period * config.local_epochs)))
        order, total = torch.randperm(n, generator=generator), 0.0
        for first in range(0, n, config.batch_size):
            batch = order[first : first + config.batch_size]
            leaves = [p.clone().requires_grad_() for p in prompts]
            logits = small.plain_logits(small.images[LABELS.indices[batch]], *leaves)
            loss = F.cross_entropy(logits, LABELS.labels[batch])
            gradients = torch.autograd.grad(loss, leaves)
            for i in range(2):
                speed[i] = config.momentum * speed[i] + gradients[i] + config.weight_decay * prompts[i]
                prompts[i] = prompts[i] - lr * speed[i]
            total += float(loss.detach()) * len(batch)
        losses.append(total / n)
    return prompts, speed, losses


@pytest.mark.parametrize(
    ("round_index", "changes"),
    [
        (0, {}),
        (1, {}),
        (3, {"lr_schedule": "run"}),
        (3, {"lr_schedule": "round", "weight_decay": 0.0, "momentum": 0.5}),
    ],
)
def test_equals_sgd_by_hand(small, round_index, changes):
    config = config_of(**changes)
    state = start_of(small, round=round_index)
    (text, visual), speed, losses = by_hand(small, state, config, stream())
    update = trained(small, config, state)
    assert (update.text - text).abs().max() <= 1e-10
    assert (update.visual - visual).abs().max() <= 1e-10
    assert (update.momentum["text"] - speed[0]).abs().max() <= 1e-10
    assert (update.momentum["visual"] - speed[1]).abs().max() <= 1e-10
    assert update.epoch_losses == pytest.approx(losses, abs=1e-10)
    assert (update.n_samples, update.n_steps) == (7, 6)  # ceil(7 / 3) batches in each of 2 epochs
    assert (update.text - state.text).abs().max() > 1e-3
    assert (update.visual - state.visual).abs().max() > 1e-5


def test_momentum_that_is_carried_in_continues_the_run(small):
    shared = {"refresh_every": 2, "rounds": 2}
    generator = stream()
    first = trained(small, config_of(**shared), generator=generator)
    resumed = PromptState(text=first.text, visual=first.visual, round=1, momentum=first.momentum)
    second = trained(small, config_of(**shared), resumed, generator=generator)
    whole = trained(small, config_of(refresh_every=1, rounds=1, local_epochs=4))
    assert torch.equal(second.text, whole.text)
    assert torch.equal(second.visual, whole.visual)
    assert torch.equal(second.momentum["text"], whole.momentum["text"])
    assert first.epoch_losses + second.epoch_losses == whole.epoch_losses
    forgetful = trained(small, config_of(**shared), replace(resumed, momentum={}))
    assert not torch.equal(forgetful.text, whole.text)


def test_leaves_what_it_was_given_as_it_was(small):
    buffers = {"text": torch.ones(small.prompted.text_shape).double()}
    buffers["visual"] = torch.ones(small.prompted.visual_shape).double()
    state = start_of(small, momentum=buffers)
    given = [state.text, state.visual, *buffers.values(), small.images, *small.model.parameters()]
    before = [value.clone() for value in given]
    update = trained(small, config_of(), state)
    assert all(torch.equal(a, b) for a, b in zip(given, before, strict=True))
    assert not any(value.requires_grad for value in (update.text, update.visual, *update.momentum.values()))
    assert all(parameter.grad is None for parameter in small.model.parameters())


def test_the_generator_alone_decides_the_batches(small):
    def prompts(seed):
        torch.manual_seed(int(torch.randint(99, (1,))))
        return trained(small, config_of(), generator=stream(seed)).text

    assert torch.equal(prompts(1), prompts(1))
    assert not torch.equal(prompts(1), prompts(2))


def test_image_tokens_train_like_their_pixels_and_without_momentum_there_is_no_buffer(small):
    assert trained(small, config_of(momentum=0.0)).momentum == {}
    tokens = small.prompted.image_tokens(small.images)
    assert torch.equal(trained(small, config_of(), images=tokens).text, trained(small, config_of()).text)


def test_refuses_to_train_on_nothing(small, refused):
    nothing = PseudoLabels(indices=torch.tensor([], dtype=torch.long), labels=torch.tensor([], dtype=torch.long))
    with refused("0 pseudo-labelled images", "at least one", "lower q_conf"):
        trained(small, config_of(), labels=nothing)
    n_images, n_classes = len(small.images), len(small.prompted.class_names)
    for name, image, label in (("indices", n_images, 0), ("labels", 0, n_classes), ("indices", -1, 0)):
        with refused(f"{name} of pseudo-labels go from", "not 0 to"):
            trained(small, config_of(), labels=PseudoLabels(torch.tensor([image]), torch.tensor([label])))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_refuses_a_loss_that_is_no_number(small, refused, bad):
    images = small.images.clone()
    images[0, 0, 0, 0] = bad
    state = start_of(small)
    before = state.text.clone()
    with refused("epoch 1 is nan", "expected a number", "lower lr="):
        trained(small, config_of(), state, images=images)
    assert torch.equal(state.text, before)


def test_learning_rate_of_the_paper():
    config = configure("paper")
    assert learning_rate(config, 0, 0) == pytest.approx(0.1)
    assert learning_rate(config, 2, 5) == pytest.approx(0.05)  # epoch 25 of 50
    assert learning_rate(config, 4, 9) == pytest.approx(9.87e-5, rel=1e-3)  # epoch 49
    assert learning_rate(config, 5, 0) == pytest.approx(0.1)
    phase = [learning_rate(config, r, e) for r in range(5) for e in range(10)]
    assert phase == sorted(phase, reverse=True)
    assert [learning_rate(config, r, e) for r in range(5, 10) for e in range(10)] == phase


def test_learning_rate_schedules_end_where_they_say():
    last = 0.05 * (1 + math.cos(math.pi * 199 / 200))
    assert learning_rate(configure("paper", lr_schedule="run"), 19, 9) == pytest.approx(last)
    assert learning_rate(configure("paper", lr_schedule="run"), 10, 0) == pytest.approx(0.05)
    assert learning_rate(configure("paper", lr_schedule="round"), 7, 5) == pytest.approx(0.05)
    assert learning_rate(configure("paper", refresh_every=0), 10, 0) == pytest.approx(0.05)  # labelled once


SETS = (  # unequal sizes: last batches of 1, 2 and 3 images, and 6, 2 and 4 steps
    LABELS,
    PseudoLabels(indices=torch.tensor([4, 6]), labels=torch.tensor([1, 2])),
    PseudoLabels(indices=torch.tensor([0, 1, 2, 3, 4, 5]), labels=torch.tensor([0, 1, 2, 0, 1, 2])),
)


def stack_of(small, momentum=False):
    drawn = [small.prompted.initial_prompts(torch.Generator().manual_seed(k)) for k in range(len(SETS))]
    buffers = [{"text": torch.full_like(t, 0.1), "visual": torch.full_like(v, 0.2)} for t, v in drawn]
    return [
        PromptState(text=text, visual=visual, round=1, momentum=one if momentum else {})
        for (text, visual), one in zip(drawn, buffers, strict=True)
    ]


@pytest.mark.parametrize("momentum", [False, True])
def test_a_stack_of_clients_trains_as_one_by_one(small, momentum):
    config, states = config_of(), stack_of(small, momentum)
    streams = [stream(k) for k in range(3)]
    together = trained(small, config, states, SETS, images=[small.images] * 3, generator=streams)
    assert [update.n_steps for update in together] == [6, 2, 4]
    for k, update in enumerate(together):
        alone = trained(small, config, states[k], SETS[k], generator=stream(k))
        assert (update.text - alone.text).abs().max() <= 1e-10
        assert (update.visual - alone.visual).abs().max() <= 1e-10
        for part in ("text", "visual"):
            assert (update.momentum[part] - alone.momentum[part]).abs().max() <= 1e-10
        assert update.epoch_losses == pytest.approx(alone.epoch_losses, abs=1e-10)
        assert (update.n_samples, update.n_steps) == (alone.n_samples, alone.n_steps)


def test_a_stack_of_one_is_the_client_itself(small):
    one = trained(small, config_of(), [start_of(small)], [LABELS], images=[small.images], generator=[stream()])
    alone = trained(small, config_of())
    assert torch.equal(one[0].text, alone.text)
    assert torch.equal(one[0].visual, alone.visual)


def test_refuses_stacks_that_cannot_be_trained(small, refused):
    states, streams = stack_of(small), [stream(k) for k in range(3)]
    with refused("3 image sets, 2 label sets", "one of each per client"):
        train_round(small.prompted, [small.images] * 3, SETS[:2], states, config=config_of(), generator=streams)
    with refused("0 image sets", "at least one client"):
        train_round(small.prompted, [], [], [], config=config_of(), generator=[])
    with refused("3 clients at once with momentum_state='shared'", "one after another"):
        config = config_of(momentum_state="shared")
        train_round(small.prompted, [small.images] * 3, SETS, states, config=config, generator=streams)
