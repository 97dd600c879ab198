"""The public functions: tensors of odd shapes and values, numbers out of range, names that are none."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fuzz import NUMBERS, WORDS, Case, target

import fedcopl_lab as lab
from fedcopl_lab.store import Store


def matrix(draw: random.Random, rows: int | None = None, columns: int | None = None) -> torch.Tensor:
    """Scores of the annotated shape [n, C]: none, one or some of each, ordinary or hostile values."""
    n = draw.choice((0, 1, 2, 7, 40)) if rows is None else rows
    c = draw.choice((1, 2, 5, 10)) if columns is None else columns
    values = torch.randn(n, c, generator=torch.Generator().manual_seed(draw.randrange(10**6)))
    values *= draw.choice((0.0, 1.0, 100.0, 1e30))
    if n and draw.random() < 0.3:
        values[draw.randrange(n), draw.randrange(c)] = draw.choice((float("nan"), float("inf"), -float("inf")))
    return values.to(draw.choice((torch.float32, torch.float32, torch.float64, torch.float16)))


def counts(draw: random.Random, *shape: int) -> torch.Tensor:
    """Numbers of images, some of them no such thing."""
    lowest = draw.choice((0, 0, 0, -2))
    made = torch.Generator().manual_seed(draw.randrange(10**6))
    return torch.randint(lowest, draw.choice((1, 5, 10**6)), shape, generator=made)


def real(draw: random.Random) -> float:
    """Any floating number."""
    return float(draw.choice(NUMBERS))


@target("filter_confident")
def _filter(draw: random.Random, folder: Path) -> Case:
    scores, levels = matrix(draw), [draw.choice((0.5, None, real(draw))) for _ in range(2)]
    limits = draw.choice((None, None, (real(draw), real(draw))))
    return lambda: lab.filter_confident(scores, *levels, thresholds=limits).counts.sum()


@target("allocate")
def _allocate(draw: random.Random, folder: Path) -> Case:
    table = counts(draw, draw.choice((0, 1, 3, 50)), draw.choice((0, 1, 4, 20)))
    mode = draw.choice(("paper", "authors", "none")) if draw.random() < 0.8 else draw.choice(WORDS)
    unseen = draw.choice((None, None, "zero", "authors_quota", "x"))
    n_train = draw.choice((None, 100, 1))
    return lambda: lab.allocate(table, mode, n_train, draw.randrange(3), unseen).quota


@target("select_top")
def _select(draw: random.Random, folder: Path) -> Case:
    scores = matrix(draw)
    quota = counts(draw, draw.choice((scores.shape[1], 3)))
    return lambda: lab.select_top(scores, quota, draw.choice(("argmax", "any", "x"))).indices


@target("aggregate, drift, cosine")
def _aggregate(draw: random.Random, folder: Path) -> Case:
    stack = matrix(draw)
    weights = counts(draw, draw.choice((len(stack), 2))).to(draw.choice((torch.int64, torch.float32)))
    return draw.choice((
        lambda: lab.aggregate(stack, weights), lambda: lab.drift_diversity(stack), lambda: lab.cosine_distance(stack)
    ))  # fmt: skip


@target("correct_pseudo_labels")
def _correct(draw: random.Random, folder: Path) -> Case:
    scores = matrix(draw)
    other = draw.choice((matrix(draw), matrix(draw, *scores.shape)))
    weight = draw.choice((None, None, real(draw)))
    return lambda: lab.correct_pseudo_labels(scores, other, real(draw), real(draw), fixed_weight=weight).target


@target("evaluate")
def _evaluate(draw: random.Random, folder: Path) -> Case:
    labels = torch.arange(20) % 3
    empty = np.array([], dtype=np.int64)
    shards = [
        lab.Shard(empty, draw.choice((empty, np.arange(draw.randrange(1, 20)), np.array([25]), np.array([-30]))))
        for _ in range(draw.randrange(4))
    ]
    return lambda: lab.evaluate(lambda k, indices: indices * 0, shards, labels, draw.random() < 0.5).client_mean


def _class_numbers(draw: random.Random) -> Any:
    n = draw.choice((0, 1, 5, 60))
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: [draw.randrange(4) for _ in range(n)],
        lambda: np.arange(n) % 5,
        lambda: torch.arange(n) % 3,
        lambda: np.arange(n) - 1,
        lambda: np.ones((n, 2), dtype=np.int64),
        lambda: [0.5] * n,
        lambda: ["a"] * n,
    )
    return draw.choice(kinds[:3] * 4 + kinds)()


@target("partitions of labels")
def _partitions(draw: random.Random, folder: Path) -> Case:
    train, test = _class_numbers(draw), _class_numbers(draw)
    n_clients, seed = draw.choice((1, 2, 2, 5, 0, -3, 10**9)), draw.choice((0, 1, 7, 2**40))
    mode, level = draw.choice(("paper", "paper", "authors", "x")), draw.choice((0.5, 0.3, real(draw)))
    more = {"min_train": draw.choice((0, 1, 1, 10, -1)), "min_test": draw.choice((0, 0, 1, -1)), "max_redraws": 20}
    return draw.choice((
        lambda: lab.dirichlet_partition(train, test, n_clients, level, seed, mode, **more),
        lambda: lab.quantity_partition(train, test, n_clients, level, seed, mode, **more),
        lambda: lab.iid_partition(train, test, n_clients, seed, mode),
    ))  # fmt: skip


@target("partition of a set")
def _partition(draw: random.Random, folder: Path) -> Case:
    scheme = draw.choice(("dirichlet", "quantity", "iid", "pairwise_balanced", *WORDS[:4]))
    changes: dict[str, Any] = {
        name: draw.choice((None, 0.1, 1.0, real(draw)))
        for name in ("beta", "alpha", "label_fraction") if draw.random() < 0.4
    }  # fmt: skip
    changes |= {name: draw.choice((0, 1, 20, -1, 10**6)) for name in ("min_train", "min_test") if draw.random() < 0.3}
    n_clients = draw.choice((1, 3, 10, 0, -1, 5000))
    return lambda: lab.partition(lab.load_dataset("digits"), scheme, n_clients, **changes).sha256


@target("load_dataset and load_clip")
def _load(draw: random.Random, folder: Path) -> Case:
    size, word = draw.choice((None, 8, 0, -1)), draw.choice((*WORDS, "digits:30", "digits:5", "digits:99999", "svhn"))
    weights = draw.choice((None, folder / "nowhere.pt", "nowhere"))
    return draw.choice((
        lambda: lab.load_dataset(word, folder, size),
        lambda: lab.load_clip(draw.choice((word, "tiny", "ViT-B-32")), draw.choice(("cpu", word)), weights=weights),
        lambda: lab.load_clip("tiny", dtype=draw.choice((torch.int64, torch.bool))),
    ))  # fmt: skip


@target("zero_shot")
def _zero_shot(draw: random.Random, folder: Path) -> Case:
    indices = draw.choice(([], [0], [1796], [1797], [-1], [-5000], list(range(20))))
    return lambda: lab.zero_shot(lab.load_clip("tiny"), lab.load_dataset("digits"), indices).labels


@target("PromptedCLIP")
def _prompted(draw: random.Random, folder: Path) -> Case:
    names = draw.choice(((), ("a",), ("zero", "one"), ("word " * 80,), ("",), WORDS))
    sizes = {name: draw.choice((1, 2, 0, -1, 8, 500)) for name in ("n_text", "n_visual", "visual_depth")}

    def case() -> None:
        clip = lab.load_clip("tiny")
        prompted = lab.PromptedCLIP(clip.model, clip.tokenizer, list(names), **sizes)
        prompted.initial_prompts(torch.Generator().manual_seed(0))

    return case


@target("stores")
def _stores(draw: random.Random, folder: Path) -> Case:
    store, word = Store(folder), draw.choice(WORDS).replace("\0", "")
    return draw.choice((
        lambda: store.find(word), lambda: lab.runs(store, **{word or "x": 1}),
        lambda: lab.runs(store, seed=draw.choice(NUMBERS)),
        lambda: store.run(word or "x").rows, lambda: store.run("x").result, lambda: store.run("x").load_prompts(),
        lambda: store.remove_incomplete(),
    ))  # fmt: skip
