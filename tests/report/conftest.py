"""Made-up numbers in the shape of collected ones; nothing here was measured."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from fedcopl_lab.paper import CLIENT_METRICS, ITEMS, VALUE_COLUMNS, Item, collect, find_items, with_settings
from fedcopl_lab.report import _page, draw

MakeUp = Callable[..., pd.DataFrame]


@pytest.fixture(scope="session")
def made_up() -> MakeUp:
    def make(name: str, seeds: Sequence[int] = (0, 1, 2), profile: str = "smoke") -> pd.DataFrame:
        (item,) = find_items([name])
        if item.reads == "manifests":
            return collect(item, profile)  # counts that stand in the package, no measurement
        draw = np.random.default_rng(7)
        lines = [
            {"item": item.id, "series": cell.series, "column": cell.column, "seed": config.seed,
             "key": f"{cell.series} {cell.column} {config.seed}", **line}
            for cell, config in item.runs(profile, seeds)
            for line in _lines(item, config.rounds, config.n_clients, cell.series, draw)
        ]  # fmt: skip
        return with_settings(pd.DataFrame(lines, columns=VALUE_COLUMNS), profile)

    return make


Line = dict[str, Any]


def _lines(item: Item, rounds: int, clients: int, series: str, draw: np.random.Generator) -> Iterator[Line]:
    special = {"split": _split, "confidences": _confidences, "reached": _reached, "theory": _theory}
    if item.reads in special:
        yield from special[item.reads](item, rounds, clients, draw)
        return
    every = range(1, rounds + 1)
    rounds_read = {"rounds": every, "pseudo_labels": every, "labels": range(1, rounds + 1, 2), "first": [1]}
    for number in rounds_read.get(item.reads, [rounds]):
        for metric in item.metrics:
            if series.startswith("Zero-shot") and metric in ("label_accuracy", "n_selected"):
                continue
            value = 400.0 if metric == "n_selected" else float(draw.uniform(0.3, 0.9))
            yield {"metric": metric, "x": number, "y": None, "value": value}


def _split(item: Item, rounds: int, clients: int, draw: np.random.Generator) -> Iterator[Line]:
    for metric in item.metrics:
        for client in range(clients):
            for label in range(10):
                yield {"metric": metric, "x": label, "y": client, "value": int(draw.integers(0, 50))}


def _confidences(item: Item, rounds: int, clients: int, draw: np.random.Generator) -> Iterator[Line]:
    for metric in item.metrics:
        for place, share in enumerate(draw.dirichlet(np.ones(20))):
            yield {"metric": metric, "x": place / 20, "y": None, "value": share}


def _reached(item: Item, rounds: int, clients: int, draw: np.random.Generator) -> Iterator[Line]:
    needed = int(draw.integers(1, rounds + 2))
    values = {"rounds_needed": needed, "censored": needed > rounds, "speed_up": 2.0}
    yield from ({"metric": name, "x": 30, "y": None, "value": float(value)} for name, value in values.items())


def _theory(item: Item, rounds: int, clients: int, draw: np.random.Generator) -> Iterator[Line]:
    for metric in item.metrics:
        per_client, by_level = metric in CLIENT_METRICS, metric.endswith("agreeing")
        for place in range(clients if per_client else 9 if by_level else 1):
            x, y = (place, None) if by_level else (rounds, place if per_client else None)
            yield {"metric": metric, "x": x, "y": y, "value": float(draw.uniform(0.3, 0.9))}


@pytest.fixture(scope="session")
def all_numbers(made_up: MakeUp) -> dict[str, pd.DataFrame]:
    return {item.id: made_up(item.id) for item in ITEMS}


@pytest.fixture(scope="session")
def picture(all_numbers: dict[str, pd.DataFrame]) -> Callable[[str], Figure]:
    """Draws an item once; for tests that only look."""

    @cache
    def drawn(name: str) -> Figure:
        figure = draw(name, all_numbers[name])
        figure.canvas.draw()
        return figure

    return drawn


@pytest.fixture
def words_only(monkeypatch) -> None:
    """Reports without pictures, for tests that read what they say."""
    monkeypatch.setattr(_page, "_picture", lambda *drawn: "")
    monkeypatch.setattr(_page, "_drawn", {})


@pytest.fixture(scope="session")
def all_runs(all_numbers: dict[str, pd.DataFrame]) -> pd.DataFrame:
    keys = sorted({key for numbers in all_numbers.values() for key in numbers["key"] if key})
    return pd.DataFrame({
        "key": keys, "profile": "smoke", "method": "FedCoPL", "dataset": "digits", "clip": "tiny", "seed": 0,
        "seconds": 1.5, "hardware": "a machine", "threads": 1, "packages": "numpy=2.0",
    })  # fmt: skip
