"""How long a move takes: from the new value to the finished picture, in place and drawn anew."""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.report.looks import BLUE, DOUBLE, FAINT, INK, QUIET, Picture, file_bytes, light_grid, new_figure, style
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.widgets._allocation import AllocationScene, explore_allocation
from fedcopl_lab.widgets._canvas import DASHED
from fedcopl_lab.widgets._explorer import Explorer
from fedcopl_lab.widgets._kappa import KappaScene, explore_kappa
from fedcopl_lab.widgets._partition import PartitionScene, explore_partition
from fedcopl_lab.widgets._rounds import RoundScene, play_rounds
from fedcopl_lab.widgets._sources import Catalogue, Opinions, Played, Scores
from fedcopl_lab.widgets._threshold_scene import ThresholdScene
from fedcopl_lab.widgets._thresholds import explore_thresholds

LIMIT = 0.25
"""Seconds that a move may take."""


@dataclass(frozen=True)
class WidgetTiming:
    """One explorer's moves.

    Attributes:
        widget: which explorer.
        control: which control is moved.
        seconds: median of a move: computing, changing the artists, drawing and packing the picture.
        worst: the slowest move.
        seconds_cpu: median of the CPU time of a move; below ``seconds`` where others use the cores too.
        seconds_new: median of the CPU time of drawing a new figure for the same parameters and saving it as PNG.
        clients: number of clients K.
        classes: number of classes C.
        images: images of each client; of the whole data set for the partition.
        moves: timed moves.
        threads: CPU threads.
        load: processes that want a core meanwhile, this one among them; on the clock a move takes its CPU time
            where there are as many cores.
    """

    widget: str
    control: str
    seconds: float
    worst: float
    seconds_cpu: float
    seconds_new: float
    clients: int
    classes: int
    images: int
    moves: int
    threads: int
    load: float

    def __repr__(self) -> str:
        return f"WidgetTiming({self.widget}, {self.control}: {1000 * self.seconds:.0f} ms a move)"

    def row(self) -> dict[str, Any]:
        """The fields by name, for a table."""
        return asdict(self)


def bench_widgets(clients: int = 10, classes: int = 10, images: int = 1000, moves: int = 12) -> Iterator[WidgetTiming]:
    """Time the moves of every explorer on made-up scores and rows; the partition divides the embedded digits.

    Args:
        clients: number of clients K.
        classes: number of classes C.
        images: images of each client.
        moves: timed moves of each explorer, after two that are not timed.

    Returns:
        One timing for each explorer.

    Raises:
        FedCoPLError: numbers below 2.

    >>> next(bench_widgets(clients=2, classes=3, images=20, moves=2)).widget
    'thresholds'

    The command is ``fedcopl-lab bench widgets``.
    """
    for name, value in (("clients", clients), ("classes", classes), ("images", images), ("moves", moves)):
        if value < 2:
            raise FedCoPLError(f"{name}={value}; expected 2 or more")
    catalogue = Catalogue([made_up_scores(clients, classes, images)])
    opinions, played = made_up_opinions(classes, images), made_up_rounds(clients, classes)
    levels = np.linspace(0.2, 0.8, moves + 2).round(3).tolist()
    cases: list[tuple[Explorer[Any], str, list[Any], Callable[[], Any], int]] = [
        (explore_thresholds(catalogue, client=0), "q_conf", levels, lambda: ThresholdScene(catalogue), images),
        (explore_allocation(catalogue), "q_conf", levels, lambda: AllocationScene(catalogue), images),
        (explore_kappa(opinions), "kappa", [60 * level for level in levels], lambda: KappaScene(opinions), images),
        (explore_partition(n_clients=clients, beta=0.5), "seed", list(range(1, moves + 3)), PartitionScene, 1797),
        (play_rounds(played), "round", [1 + place % 20 for place in range(1, moves + 3)], lambda: RoundScene(played),
         images),
    ]  # fmt: skip
    for explorer, control, values, scene, shown in cases:
        timed = [_timed(partial(explorer.set, **{control: value})) for value in values][2:]
        seconds, cpu = zip(*timed, strict=True)
        anew = [_timed(partial(_anew, scene, replace(explorer.params, **{control: value})))[1]
                for value in values[: max(2, moves // 4)]]  # fmt: skip
        yield WidgetTiming(
            widget=explorer.name, control=control, seconds=statistics.median(seconds), worst=max(seconds),
            seconds_cpu=statistics.median(cpu),
            seconds_new=statistics.median(anew), clients=clients,
            classes=10 if explorer.name == "partition" else classes, images=shown, moves=moves,
            threads=torch.get_num_threads(), load=round(_load(), 2),
        )  # fmt: skip


def draw_widget_bench(table: pd.DataFrame) -> Picture:
    """Milliseconds of a move of each explorer, beside a new figure each time and the limit.

    Args:
        table: rows of ``bench widgets``.

    Raises:
        FedCoPLError: a table without rows or columns.

    >>> draw_widget_bench(pd.read_csv("figures/ours_bench_widgets.csv"))
    """
    missing = [
        name for name in ("widget", "seconds", "seconds_cpu", "seconds_new", "load") if name not in table.columns
    ]
    if missing or table.empty:
        raise FedCoPLError(f"the table has {len(table)} rows and lacks {missing}; pass the rows of `bench widgets`")
    with style():
        figure = new_figure(DOUBLE, 0.9 + 0.33 * len(table))
        axes = figure.subplots()
        places = np.arange(len(table))
        axes.barh(places + 0.19, 1000 * table["seconds_new"], 0.34, facecolor=FAINT, edgecolor=QUIET, linewidth=0.7,
                  label="a new figure, CPU time")  # fmt: skip
        axes.barh(places - 0.19, 1000 * table["seconds_cpu"], 0.34, color=BLUE, label="changed in place, CPU time")
        axes.plot(1000 * table["seconds"], places - 0.19, "|", color=INK, markersize=8,
                  label=f"on the clock, {table['load'].max():.0f} processes at work")  # fmt: skip
        axes.axvline(1000 * LIMIT, color=INK, linewidth=0.8, linestyle=DASHED)
        axes.set_yticks(places, list(table["widget"]))
        axes.invert_yaxis()
        axes.set_xlabel("milliseconds from a move to the finished picture (median; dashed: the limit)")
        light_grid(axes, "x")
        figure.legend(loc="outside upper center", ncols=3)
    return figure


def made_up_scores(clients: int, classes: int, images: int, seed: int = 0) -> Scores:
    """Random scores that lean towards the true class; every client has as many images."""
    generator = torch_generator(seed, "made-up scores")
    true = [torch.randint(classes, (images,), generator=generator) for _ in range(clients)]
    logits = [
        2 * torch.randn(images, classes, generator=generator) + 4 * torch.nn.functional.one_hot(t, classes)
        for t in true
    ]
    return Scores("made up", tuple(logits), tuple(true), tuple(f"c{c}" for c in range(classes)))


def made_up_opinions(classes: int, views: int, seed: int = 0) -> Opinions:
    """Random scores of two models on the same views, all of one batch."""
    generator = torch_generator(seed, "made-up opinions")
    true = torch.randint(classes, (views,), generator=generator)
    lean = 3.0 * torch.nn.functional.one_hot(true, classes)
    local, global_ = (2 * torch.randn(views, classes, generator=generator) + lean for _ in range(2))
    images = torch.randint(256, (views, 3, 8, 8), generator=generator, dtype=torch.uint8)
    return Opinions(local, global_, true, images, tuple(f"c{c}" for c in range(classes)), batch=views)


def made_up_rounds(clients: int, classes: int, rounds: int = 20, seed: int = 0) -> Played:
    """Rows as FedCoPL's runs store them, with random numbers."""
    generator = torch_generator(seed, "made-up rounds")
    rows: list[dict[str, Any]] = []
    for number in range(1, rounds + 1):
        accuracy = torch.rand(clients, generator=generator).tolist()
        row: dict[str, Any] = {"round": number, "accuracy": sum(accuracy) / clients, "clients": {"accuracy": accuracy},
                               "drift_text": 0.3, "drift_visual": 0.6}  # fmt: skip
        if number % 5 == 1:
            row["labels"] = {"selected": torch.randint(100, (clients, classes), generator=generator).tolist()}
        rows.append(row)
    return Played("made up", tuple(rows), "FedCoPL")


def _anew(new_scene: Callable[[], Any], params: Any) -> bytes:
    scene = new_scene()
    scene.show(params)
    return file_bytes(scene.figure, "png", 110)


def _load() -> float:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds on the clock and of the CPU."""
    start, start_cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - start_cpu
