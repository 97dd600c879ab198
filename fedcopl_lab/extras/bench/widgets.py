"""How long a move takes: from the new value to the finished picture, in place and as a new figure."""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.extras.bench.timing import check_counts, load_average
from fedcopl_lab.report import looks as look
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.widgets import (
    Catalogue,
    Explorer,
    RunHistory,
    Scores,
    WeakViewScores,
    draw_allocation,
    draw_kappa,
    draw_partition,
    draw_rounds,
    draw_thresholds,
    explore_allocation,
    explore_kappa,
    explore_partition,
    explore_thresholds,
    play_rounds,
)

LIMIT = 0.25
"""Seconds that a move may take."""


@dataclass(frozen=True)
class WidgetTiming:
    """One explorer's moves; a row of ``ours_bench_widgets.csv``."""

    widget: str  # which explorer
    control: str  # which control is moved
    seconds: float  # median of a move: computing, changing the artists, drawing and packing the picture
    worst: float  # the slowest move
    seconds_cpu: float  # median CPU time of a move; below ``seconds`` where others use the cores too
    seconds_new: float  # median CPU time of drawing a new figure for the same parameters and saving it as PNG
    clients: int  # number of clients K
    classes: int  # number of classes C
    images: int  # images of each client; of the whole data set for the partition
    moves: int  # timed moves
    threads: int  # CPU threads
    load: float  # processes that want a core meanwhile, this one among them

    def __str__(self) -> str:
        times = (self.seconds, self.worst, self.seconds_cpu, self.seconds_new)
        move, worst, cpu, new = (f"{1000 * seconds:.0f} ms" for seconds in times)
        return f"{self.widget}, {self.control}: {move}, slowest {worst}, CPU {cpu}; a new figure {new} of CPU"


def bench_widgets(clients: int = 10, classes: int = 10, images: int = 1000, moves: int = 12) -> Iterator[WidgetTiming]:
    """Time the moves of every explorer on made-up scores and rows; the partition divides the embedded digits.

    Each explorer makes two moves that are not timed and then ``moves`` that are; numbers below 2 are an error.

    >>> next(bench_widgets(clients=2, classes=3, images=20, moves=2)).widget
    'thresholds'
    """
    check_counts(2, clients=clients, classes=classes, images=images, moves=moves)
    catalogue = Catalogue([made_up_scores(clients, classes, images)])
    views, history = made_up_view_scores(classes, images), made_up_rounds(clients, classes)
    levels = np.linspace(0.2, 0.8, moves + 2).round(3).tolist()
    kappas, rounds = [60 * level for level in levels], [1 + place % 20 for place in range(1, moves + 3)]
    cases: list[tuple[Explorer[Any], str, list[Any], Callable[[Any], look.Picture], int]] = [
        (explore_thresholds(catalogue, client=0), "q_conf", levels, lambda p: draw_thresholds(p, catalogue), images),
        (explore_allocation(catalogue), "q_conf", levels, lambda p: draw_allocation(p, catalogue), images),
        (explore_kappa(views), "kappa", kappas, lambda p: draw_kappa(views, p), images),
        (explore_partition(n_clients=clients, beta=0.5), "seed", list(range(1, moves + 3)), draw_partition, 1797),
        (play_rounds(history), "round", rounds, lambda p: draw_rounds(history, p), images),
    ]
    for explorer, control, values, draw, shown in cases:
        moved = [_timed(partial(explorer.set, **{control: value})) for value in values][2:]
        seconds, cpu = zip(*moved, strict=True)
        few = [replace(explorer.params, **{control: value}) for value in values[: max(2, moves // 4)]]
        drawn = [_timed(partial(_new_figure_png, draw, params))[1] for params in few]
        yield WidgetTiming(
            widget=explorer.name, control=control, seconds=statistics.median(seconds), worst=max(seconds),
            seconds_cpu=statistics.median(cpu), seconds_new=statistics.median(drawn), clients=clients,
            classes=10 if explorer.name == "partition" else classes, images=shown, moves=moves,
            threads=torch.get_num_threads(), load=round(load_average(), 2),
        )  # fmt: skip


def draw_widget_bench(table: pd.DataFrame) -> look.Picture:
    """Milliseconds of a move of each explorer, beside a new figure each time and the limit.

    >>> draw_widget_bench(pd.DataFrame([vars(next(bench_widgets(clients=2, classes=3, images=20, moves=2)))]))
    <Picture size ...>
    """
    needed = ("widget", "seconds", "seconds_cpu", "seconds_new", "load")
    missing = [name for name in needed if name not in table.columns]
    if missing or table.empty:
        raise FedCoPLError(f"the table has {len(table)} rows and lacks {missing}; pass the rows of `bench widgets`")
    with look.style():
        figure = look.new_figure(look.DOUBLE, 0.9 + 0.33 * len(table))
        axes = figure.subplots()
        places = np.arange(len(table))
        axes.barh(places + 0.19, 1000 * table["seconds_new"], 0.34, facecolor=look.FAINT, edgecolor=look.QUIET,
                  linewidth=0.7, label="a new figure, CPU time")  # fmt: skip
        axes.barh(places - 0.19, 1000 * table["seconds_cpu"], 0.34, color=look.BLUE, label="changed in place, CPU time")
        axes.plot(1000 * table["seconds"], places - 0.19, "|", color=look.INK, markersize=8,
                  label=f"time that passed, while {table['load'].max():.0f} processes wanted a core")  # fmt: skip
        axes.axvline(1000 * LIMIT, color=look.INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_yticks(places, list(table["widget"]))
        axes.invert_yaxis()
        axes.set_xlabel("milliseconds from a move to the finished picture (median; dashed: the limit)")
        look.light_grid(axes, "x")
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


def made_up_view_scores(classes: int, views: int, seed: int = 0) -> WeakViewScores:
    """Random scores of two models on the same views, all of one batch."""
    generator = torch_generator(seed, "made-up opinions")
    true = torch.randint(classes, (views,), generator=generator)
    lean = 3.0 * torch.nn.functional.one_hot(true, classes)
    local, global_ = (2 * torch.randn(views, classes, generator=generator) + lean for _ in range(2))
    images = torch.randint(256, (views, 3, 8, 8), generator=generator, dtype=torch.uint8)
    return WeakViewScores(local, global_, true, images, tuple(f"c{c}" for c in range(classes)), batch=views)


def made_up_rounds(clients: int, classes: int, rounds: int = 20, seed: int = 0) -> RunHistory:
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
    return RunHistory("made up", tuple(rows))


def _new_figure_png(draw: Callable[[Any], look.Picture], params: Any) -> bytes:
    return look.file_bytes(draw(params), "png", 110)


def _timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds on the clock and of the CPU."""
    start, start_cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - start_cpu
