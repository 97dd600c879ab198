"""The exercises: how a case is drawn, the reference in plain loops, and what to think of where it differs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from fedcopl_lab.steps import PseudoLabels

Arguments = dict[str, Any]
Hint = tuple[Callable[[Arguments], bool], str]


@dataclass(frozen=True)
class Exercise:
    """One step to be written."""

    task: str  # what the function takes and gives, in one sentence
    draw: Callable[[torch.Generator], Arguments]  # random numbers -> the arguments of one case, by name
    reference: Callable[..., tuple[Tensor, ...]]  # the same function in plain loops
    answer: Callable[[Any], tuple[Tensor, ...]]  # what a function returned -> the tensors that are compared
    hints: tuple[Hint, ...]  # (which cases, what to think of); all that fit are shown


def _whole(generator: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high + 1, (), generator=generator))


def _one_of(generator: torch.Generator, choices: Sequence[Any]) -> Any:
    return choices[_whole(generator, 0, len(choices) - 1)]


def _scores(generator: torch.Generator, n: int, n_classes: int, scale: float) -> Tensor:
    return scale * torch.randn(n, n_classes, generator=generator)


def _draw_filter(generator: torch.Generator) -> Arguments:
    n, n_classes = _whole(generator, 1, 7), _whole(generator, 2, 4)
    logits = _scores(generator, n, n_classes, _one_of(generator, (1.0, 3.0, 30.0)))
    levels = (0.3, 0.5, 0.7)
    return {"logits": logits, "q_conf": _one_of(generator, levels), "q_ent": _one_of(generator, levels)}


def _quantile(values: Sequence[float], level: float) -> float:
    place, ordered = level * (len(values) - 1), sorted(values)
    low = math.floor(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(values) - 1)] - ordered[low])


def _filter(logits: Tensor, q_conf: float, q_ent: float) -> tuple[Tensor, ...]:
    odds, nats = [], []
    for row in logits.double().tolist():
        top = max(row)
        rest = list(row)
        rest.remove(top)
        odds.append(top - math.log(sum(math.exp(z - max(rest)) for z in rest)) - max(rest))
        total = sum(math.exp(z - top) for z in row)
        nats.append(-sum(math.exp(z - top) / total * (z - top - math.log(total)) for z in row))
    least, most = _quantile(odds, q_conf), _quantile(nats, 1 - q_ent)
    kept = [o > least and h < most for o, h in zip(odds, nats, strict=True)]
    if not any(kept):
        share = max(1, math.ceil(round((1 - q_conf) * len(odds), 9)))
        best = sorted(range(len(odds)), key=lambda i: -odds[i])[:share]
        kept = [i in best for i in range(len(odds))]
    return (torch.tensor(kept),)


def _draw_allocate(generator: torch.Generator) -> Arguments:
    shape = _whole(generator, 1, 4), _whole(generator, 1, 4)
    counts = torch.randint(0, _one_of(generator, (2, 6, 40)), shape, generator=generator)
    counts[0, 0] += not counts.any()
    return {"counts": counts}


def _allocate(counts: Tensor) -> tuple[Tensor, ...]:
    n_classes, rows = counts.shape[1], counts.tolist()
    budget = Fraction(sum(map(sum, rows)), n_classes)
    of_class = [sum(row[c] for row in rows) for c in range(n_classes)]
    quota = [
        [math.ceil(Fraction(u, of_class[c]) * budget) if of_class[c] else 0 for c, u in enumerate(row)] for row in rows
    ]
    return (torch.tensor(quota),)


def _draw_select(generator: torch.Generator) -> Arguments:
    n, n_classes = _whole(generator, 1, 7), _whole(generator, 2, 4)
    quota = torch.randint(0, 4, (n_classes,), generator=generator)
    return {"logits": _scores(generator, n, n_classes, 2.0), "quota": quota}


def _select(logits: Tensor, quota: Tensor) -> tuple[Tensor, ...]:
    chosen: list[int] = []
    probabilities = logits.double().softmax(dim=1).tolist()
    for c, wanted in enumerate(quota.tolist()):
        pool = [i for i, row in enumerate(probabilities) if row.index(max(row)) == c]
        chosen += sorted(pool, key=lambda i: -probabilities[i][c])[:wanted]
    return (torch.tensor(sorted(chosen), dtype=torch.long),)


def _sorted_indices(found: Any) -> tuple[Tensor, ...]:
    chosen = torch.as_tensor(found.indices if isinstance(found, PseudoLabels) else found, dtype=torch.long)
    return (chosen.sort().values,)


def _draw_aggregate(generator: torch.Generator) -> Arguments:
    n_clients = _whole(generator, 1, 4)
    shape = (n_clients, *([_whole(generator, 1, 3)] * _whole(generator, 1, 2)))
    weights = torch.randint(0, 9, (n_clients,), generator=generator)
    weights[0] += not weights.any()
    return {"stacked": torch.randn(shape, generator=generator), "weights": weights}


def _aggregate(stacked: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    mean, total = torch.zeros(stacked.shape[1:], dtype=torch.float64), sum(weights.tolist())
    for one, weight in zip(stacked, weights.tolist(), strict=True):
        mean += one.double() * weight / total
    return (mean.float(),)


def _draw_correct(generator: torch.Generator) -> Arguments:
    n, n_classes = _whole(generator, 1, 4), _whole(generator, 2, 3)
    scores = {f"{name}_logits": _scores(generator, n, n_classes, 3.0) for name in ("local", "global")}
    return {**scores, "threshold": _one_of(generator, (0.6, 0.8)), "kappa": _one_of(generator, (0.0, 2.0, 14.0))}


def _correct(local_logits: Tensor, global_logits: Tensor, threshold: float, kappa: float) -> tuple[Tensor, ...]:
    targets, used = [], []
    pairs = zip(*(one.double().softmax(dim=1).tolist() for one in (local_logits, global_logits)), strict=True)
    for local, global_ in pairs:
        own, other = max(local), max(global_)
        weight = math.exp(-kappa * abs(own - other)) if own >= threshold else 0.0
        target = [0.0] * len(local)
        target[local.index(own)] += weight
        target[global_.index(other)] += 1 - weight
        used.append(own >= threshold or other >= threshold)
        targets.append(target if used[-1] else [0.0] * len(local))
    return torch.tensor(targets), torch.tensor(used)


def _used_targets(found: Any) -> tuple[Tensor, ...]:
    target, used = (found.target, found.used) if hasattr(found, "used") else found
    return target * used[:, None], used


def _one(name: str) -> Callable[[Any], tuple[Tensor, ...]]:
    """A result's field of that name, or what was returned itself."""
    return lambda found: (getattr(found, name, found),)


def _always(arguments: Arguments) -> bool:
    return True


EXERCISES: dict[str, Exercise] = {
    "filter_confident": Exercise(
        "(logits [n, C], q_conf, q_ent) -> which images are kept, bool [n] (Eq. 2)",
        _draw_filter, _filter, _one("kept"),
        (
            (lambda a: not bool(torch.isfinite(a["logits"].softmax(1).amax(1).logit()).all()),
             "At this scale float32 confidences round to 1 and no longer differ: compare log-odds in float64."),
            (_always, "τ1 is the q_conf quantile of the confidences, τ2 the (1 − q_ent) quantile of the entropies; an "
             "image must be strictly above τ1 and strictly below τ2. If none is, keep the most confident "
             "⌈(1 − q_conf) n⌉."),
        ),
    ),
    "allocate": Exercise(
        "(counts [K, C]) -> how many images of each class every client is to select, whole numbers [K, C] (Eq. 3)",
        _draw_allocate, _allocate, _one("quota"),
        (
            (lambda a: bool((a["counts"].sum(dim=0) == 0).any()), "No client kept an image of one class, and u / U "
             "is 0 / 0 there: in the paper's mode its quota is 0."),
            (_always, "M is the sum of all counts over the number of classes; ũ = ⌈u / U · M⌉ with U the sum of the "
             "class over clients. Round up once, at the end, in whole numbers: ⌈a / b⌉ = −(−a // b)."),
        ),
    ),
    "select_top": Exercise(
        "(logits [n, C], quota [C]) -> positions of the selected images (Sec. 3.3, after Eq. 3)",
        _draw_select, _select, _sorted_indices,
        (
            (lambda a: bool((torch.bincount(a["logits"].argmax(1), minlength=len(a["quota"])) < a["quota"]).any()),
             "A class has fewer candidates than its quota: take them all."),
            (_always, "Candidates of a class are all images predicted as it; take the quota of those with the "
             "largest probability of that class."),
        ),
    ),
    "aggregate": Exercise(
        "(stacked [K, …], weights [K]) -> their weighted mean […] (Eq. 4)",
        _draw_aggregate, _aggregate, lambda found: (found,),
        (
            (lambda a: a["stacked"].ndim > 2, "The weights have one axis, the prompts more: give them the shape "
             "[K, 1, …] before you multiply."),
            (_always, "The weights need not sum to 1: divide by their sum."),
        ),
    ),
    "correct_pseudo_labels": Exercise(
        "(local_logits [n, C], global_logits [n, C], threshold, kappa) -> target [n, C] and used [n] (SAGE Eqs. 1-6)",
        _draw_correct, _correct, _used_targets,
        (
            (lambda a: bool((a["local_logits"].softmax(1).amax(1) < a["threshold"]).any()),
             "Where the local model is not confident, the target is the global model's label, used only if that "
             "one is confident."),
            (_always, "λ = exp(−κ · |local confidence − global confidence|); the target is λ times the local one-hot "
             "label plus 1 − λ times the global one."),
        ),
    ),
}  # fmt: skip
"""Name -> exercise."""
