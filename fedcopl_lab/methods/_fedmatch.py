"""FedMatch: weights are a sum sigma + psi, labels train sigma, unlabelled images train psi, and helpers vote.

From the paper (ICLR 2021): the decomposition, the agreement with the H clients whose models answer most alike, the
vote as the strong view's label, sparse psi. From public code: the constants, psi starts as 0.2 sigma, helpers
are the nearest by the models' outputs for one fixed image of noise, looked up every 10th of 200 rounds; a helper is
the client's own sigma with the helper's psi; KL has the helper first. Our port:

- Tensors of two and more dimensions are decomposed; batch normalisation and biases are sigma's alone.
- The common optimiser with its learning rate divided by lambda_s, so that labels pull as in the other methods.
- The joint schedule: one step of sigma on the labelled batch, then one of psi on the unlabelled one.
- Where own model and helpers all differ, the vote is the own label; losses are means over the whole batch.
- The model travels dense, since nearly all of sigma changes; psi, its changes and the helpers' psi travel packed,
  to every participant in every round. The server's means are weighted as in the other methods.
- Only clients that took part have an answer to be found by; before the first look-up there are no helpers.

Dense, that is 6 models of values per client and round with two helpers where other methods send 2. The 1.5 times
that a later paper prints would hold with a quarter of psi's entries left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from fedcopl_lab.methods._batches import Batch
from fedcopl_lab.methods._recipe import Recipe, RoundEnd
from fedcopl_lab.methods._sage_local_task import LocalTask, WeakScores
from fedcopl_lab.methods._sage_setting import SemiSetting
from fedcopl_lab.methods._sage_state import SemiState
from fedcopl_lab.methods._sage_together import OWN_MODEL, Descend, Pass, Step, moved_by
from fedcopl_lab.methods.protocol import Tensors, grouped, named
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import CorrectedLabels, aggregate, average_models, consistency_loss

_PSI, _CHANGE, _ANSWER, _HELPERS = "psi", "psi change", "answer", "helpers"
_SIGMA = "sigma"
_NO_CLIENT = -1
_DENSE, _VALUES, _POSITIONS = "dense", "values", "positions"


def voted_labels(
    own: Float[Tensor, "n c"], helpers: Sequence[Float[Tensor, "n c"]], threshold: float
) -> CorrectedLabels:
    """The class that most models name, where the own model is confident (FedMatch Eq. 3).

    Of several classes with most votes it is the own one, if that is among them, else the first.

    >>> voted_labels(torch.tensor([[9.0, 0.0]]), [torch.tensor([[0.0, 1.0]])] * 2, 0.75).target.tolist()
    [[0.0, 1.0]]
    """
    p = own.detach().softmax(dim=1)
    n_classes = p.shape[1]
    ballots = [F.one_hot(scores.argmax(dim=1), n_classes).to(p.dtype) for scores in (p, *helpers)]
    counts = torch.stack(ballots).sum(dim=0) + 0.5 * ballots[0]
    target = F.one_hot(counts.argmax(dim=1), n_classes).to(p.dtype)
    return CorrectedLabels(target=target, weight=torch.ones_like(p[:, 0]), used=p.amax(dim=1) >= threshold)


def disagreement(
    own: Float[Tensor, "n c"], helpers: Sequence[Float[Tensor, "n c"]], used: Bool[Tensor, "n"]
) -> Float[Tensor, ""]:
    """Mean over helpers of KL(helper || own), images that are not used counting as 0 (FedMatch Eq. 2)."""
    if not helpers:
        return own.new_zeros(())
    log_p = own.log_softmax(dim=1)
    log_h = torch.stack(list(helpers)).detach().log_softmax(dim=2)
    divergence = (log_h.exp() * (log_h - log_p)).sum(dim=2)
    return (divergence * used).sum() / (len(helpers) * max(len(used), 1))


def nearest_clients(answers: Float[Tensor, "k c"], n_helpers: int) -> Int[Tensor, "k h"]:
    """The clients whose answers lie nearest to each client's own, nearest first, then the lower number; -1 for none.

    Answers are probabilities by each client's model for one image, rows of NaN for clients that never took part.

    >>> nearest_clients(torch.tensor([[0.0], [1.0], [3.0]]), 1).tolist()
    [[1], [0], [1]]
    """
    distances = (answers[:, None] - answers[None]).double().square().sum(dim=2)
    distances = distances.nan_to_num(nan=torch.inf).fill_diagonal_(torch.inf)
    nearest = distances.sort(dim=1, stable=True)
    table = nearest.indices.masked_fill(nearest.values.isinf(), _NO_CLIENT)
    padding = table.new_full((len(answers), n_helpers), _NO_CLIENT)
    return torch.cat([table, padding], dim=1)[:, :n_helpers]


def initial_psi(model: Tensors, share: float) -> Float[Tensor, "p"]:
    """The part of a model's decomposed weights that is psi at first: share * sigma, with sigma + psi the model."""
    return share / (1 + share) * torch.cat([value.flatten() for value in _decomposed(model).values()])


def packed(vector: Float[Tensor, "n"], name: str) -> Tensors:
    """A vector as named tensors: dense, or its non-zero values with int32 positions where that is shorter."""
    positions = vector.nonzero().squeeze(1).int()
    if positions.nbytes + positions.numel() * vector.element_size() >= vector.nbytes:
        return {f"{name}/{_DENSE}": vector.clone()}
    return {f"{name}/{_VALUES}": vector[positions.long()], f"{name}/{_POSITIONS}": positions}


def holds(tensors: Mapping[str, Tensor], name: str) -> bool:
    """Whether a vector of that name was packed."""
    return f"{name}/{_DENSE}" in tensors or f"{name}/{_VALUES}" in tensors


def unpacked(tensors: Mapping[str, Tensor], name: str, size: int) -> Float[Tensor, "size"]:
    """The vector that :func:`packed` took apart, [size].

    >>> unpacked(packed(torch.tensor([0.0, 0.0, 5.0]), "psi"), "psi", 3)
    tensor([0., 0., 5.])
    """
    parts = grouped(tensors, f"{name}/")
    if _DENSE in parts:
        return parts[_DENSE]
    vector = parts[_VALUES].new_zeros(size)
    vector[parts[_POSITIONS].long()] = parts[_VALUES]
    return vector


def send_psi(setting: SemiSetting, state: SemiState, participants: Sequence[int]) -> dict[int, Tensors]:
    """The mean psi, and for every client its helpers' psi; nothing before the first merge."""
    messages = {}
    for client in participants:
        message = packed(state.extras[_PSI], _PSI) if _PSI in state.extras else {}
        helpers = state.extras[_HELPERS][client].tolist() if _HELPERS in state.extras else []
        for slot, helper in enumerate(one for one in helpers if one != _NO_CLIENT):
            message |= named(f"helper {slot}/", grouped(state.extras, f"{_psi_of(helper)}/"))
        messages[client] = message
    return messages


def decompose(task: LocalTask) -> None:
    """Split the model into sigma and psi, and build the helpers' models."""
    config = task.config
    psi = _received_psi(task)
    task.models[_SIGMA] = _model_with(task, -psi).train()
    task.models[_PSI] = task.copy_of(task.start).train()
    _write(task.models[_PSI], psi)
    lr = task.lr / config.fedmatch.lambda_s
    task.optimiser = task.sgd(task.models[_SIGMA].parameters(), lr=lr)
    task.optimisers[_PSI] = task.sgd(_weights(task.models[_PSI]).values(), lr=lr)
    sent = [name for slot in range(config.fedmatch.helpers) if holds(task.received, name := f"helper {slot}")]
    helpers = [_model_with(task, unpacked(task.received, name, len(psi)) - psi) for name in sent]
    if helpers:  # in a list, which no team of clients stacks
        task.models[_HELPERS] = nn.ModuleList(helpers).eval().requires_grad_(False)


def two_part_step(task: LocalTask, batch: Batch) -> Step:
    """Labels move sigma, then unlabelled images move psi."""
    config = task.config
    views, strong_views, places = batch.pool_views
    (labelled,) = yield Pass((batch.labelled,))
    supervised = F.cross_entropy(labelled, batch.labels)
    yield Descend(config.fedmatch.lambda_s * supervised, move=partial(_move, part=_SIGMA))

    weak, strong = yield Pass((views, strong_views))
    helpers = task.models[_HELPERS].children() if _HELPERS in task.models else ()
    answers = [task.eval_scores(helper, views) for helper in helpers]
    labels = voted_labels(weak, answers, config.fedmatch.threshold)
    task.note(WeakScores(weak.detach(), task.global_scores_of(batch), places), labels)
    losses = {
        "supervised": supervised,
        "disagreement": disagreement(weak, answers, labels.used),
        "unsupervised": consistency_loss(strong, labels.target, labels.used, config.kl),
        "penalty": _penalty(task),
    }
    weighted = config.fedmatch.lambda_i * losses["disagreement"] + config.fedmatch.lambda_a * losses["unsupervised"]
    yield Descend(weighted + losses["penalty"], move=partial(_move, part=_PSI))
    return losses


def send_change(task: LocalTask) -> None:
    """What changed in psi travels, and the answer to the image of noise; the model is what the server will hold."""
    config, before = task.config, _received_psi(task)
    psi = _read(task.models[_PSI])
    psi = psi.masked_fill(psi.abs() < config.fedmatch.zero, 0)
    change = psi - before
    change = change.masked_fill(change.abs() < config.fedmatch.unsent, 0)
    _write(task.model, _read(task.models[_SIGMA]) + before + change)
    task.send |= packed(change, _CHANGE)
    task.send[_ANSWER] = task.eval_scores(task.model, noise_image(task.setting)).softmax(dim=1)[0]


def noise_image(setting: SemiSetting) -> Float[Tensor, "1 3 h w"]:
    """One image of normal noise cut off at two standard deviations, the same for the whole run."""
    image = torch.empty(1, *setting.images.shape[1:])
    generator = torch_generator(setting.config.seed, "noise image")
    return nn.init.trunc_normal_(image, a=-2, b=2, generator=generator).to(setting.config.device)


def merge_parts(end: RoundEnd) -> SemiState:
    """Means of models and of changes of psi; what clients answered; at the end of a period new helpers."""
    config, extras = end.setting.config, dict(end.before.extras)
    before = extras[_PSI] if _PSI in extras else initial_psi(end.before.model, config.fedmatch.psi_share)
    changes = [unpacked(update.sent, _CHANGE, len(before)) for update in end.updates.values()]
    extras[_PSI] = before + aggregate(torch.stack(changes), end.weights)
    answers = extras.get(_ANSWER, before.new_full((config.n_clients, end.setting.dataset.n_classes), torch.nan))
    extras[_ANSWER] = answers.clone()
    for (client, update), change in zip(end.updates.items(), changes, strict=True):
        kept = {name: value for name, value in extras.items() if not name.startswith(f"{_psi_of(client)}/")}
        extras = kept | packed(before + change, _psi_of(client))
        extras[_ANSWER][client] = update.sent[_ANSWER]
    if (end.before.round + 1) % config.lookup_period == 0:
        extras[_HELPERS] = nearest_clients(extras[_ANSWER], config.fedmatch.helpers)
    model = average_models([update.model for update in end.updates.values()], end.weights)
    return replace(end.before, model=model, extras=extras)


def _psi_of(client: int) -> str:
    return f"{_PSI} of {client:04d}"


def _decomposed(tensors: Mapping[str, Tensor]) -> Tensors:
    return {name: value for name, value in tensors.items() if value.ndim > 1}


def _weights(model: nn.Module) -> Tensors:
    return _decomposed(dict(model.named_parameters()))


def _read(model: nn.Module) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in _weights(model).values()])


@torch.no_grad()
def _write(model: nn.Module, vector: Tensor) -> None:
    weights = list(_weights(model).values())
    for weight, values in zip(weights, vector.split([weight.numel() for weight in weights]), strict=True):
        weight.copy_(values.view(weight.shape))


def _model_with(task: LocalTask, added: Tensor) -> nn.Module:
    """The round's start with this added to its decomposed weights."""
    model = task.copy_of(task.start)
    _write(model, _read(model) + added)
    return model


def _received_psi(task: LocalTask) -> Tensor:
    first = initial_psi(task.start, task.config.fedmatch.psi_share)
    return unpacked(task.received, _PSI, len(first)) if holds(task.received, _PSI) else first


def _penalty(task: LocalTask) -> Tensor:
    """What keeps psi near sigma and sparse."""
    config = task.config
    sigma, psi = (_decomposed(task.trained(part)).values() for part in (_SIGMA, _PSI))
    apart = [(s.detach() - p).square().sum() for s, p in zip(sigma, psi, strict=True)]
    sizes = [p.abs().sum() for p in psi]
    return config.fedmatch.lambda_l2 * torch.stack(apart).sum() + config.fedmatch.lambda_l1 * torch.stack(sizes).sum()


@torch.no_grad()
def _move(models: Mapping[str, nn.Module], optimisers: Mapping[str, Optimizer], part: str) -> None:
    """One step of a part by the model's gradient, which is the part's own; the model follows what it moved."""
    optimiser = optimisers[_PSI if part == _PSI else OWN_MODEL]
    chosen = {id(parameter) for parameter in moved_by(optimiser)}
    whole, sigma, psi = (list(models[name].parameters()) for name in (OWN_MODEL, _SIGMA, _PSI))
    for own, one in zip(models[part].parameters(), whole, strict=True):
        if id(own) in chosen:
            own.grad = one.grad if own.grad is None or one.grad is None else own.grad + one.grad
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    for one, s, p in zip(whole, sigma, psi, strict=True):
        one.copy_(s + p if one.ndim > 1 else s)


FEDMATCH = Recipe(begin=decompose, step=two_part_step, end=send_change, message=send_psi, merge=merge_parts)
"""Inter-client consistency with disjoint parameters."""
