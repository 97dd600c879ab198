"""``bench sage --clients``: a local step of several clients, one after the other and in one pass."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import torch

from fedcopl_lab.config import configure
from fedcopl_lab.extras.bench.plain_sage import plain_step
from fedcopl_lab.extras.bench.timing import check_counts, timed
from fedcopl_lab.methods import RECIPES, Batch, LocalTask, SemiSetting, Team

SIZES = ((8, 0.5, 8, 24), (8, 1.0, 8, 24), (16, 1.0, 32, 64))
"""Side in pixels, width of ResNet-8, labelled and unlabelled images of a step; the first is the profile smoke's."""


@dataclass(frozen=True)
class TogetherTiming:
    """A client's step, as the mean over clients; views are made before. A row of ``ours_bench_sage_together.csv``."""

    method: str
    pixels: int  # side of the images
    width: float  # of ResNet-8
    labelled: int  # labelled images of a client's step
    unlabelled: int  # unlabelled ones, each in a weak and a strong view
    clients: int  # in one pass
    seconds_plain: float | None  # median of the plain form, which is of SAGE alone
    seconds_alone: float  # median of ours, one client after the other
    seconds: float  # median of ours, all in one pass
    speed_up: float  # the second over the third
    threads: int  # CPU threads
    repeats: int  # timed steps of each form
    compiled: bool  # whether our models were compiled; on a card they are CUDA graphs then

    def __str__(self) -> str:
        plain = "" if self.seconds_plain is None else f"plain {1e3 * self.seconds_plain:.1f} ms, "
        ours = f"one by one {1e3 * self.seconds_alone:.1f} ms, together {1e3 * self.seconds:.1f} ms a client"
        size = f"{self.pixels}x{self.pixels} width {self.width:g}, {self.clients} clients"
        return f"{self.method} {size}: {plain}{ours}, {self.speed_up:.2f}x"


def bench_together(
    clients: int = 4,
    methods: tuple[str, ...] = ("SAGE",),
    repeats: int = 20,
    sizes: Sequence[tuple[int, float, int, int]] = SIZES,
    device: str = "cpu",
    compiled: bool = False,
) -> Iterator[TogetherTiming]:
    """Time a local step of several clients in the plain form, one by one, and in one pass, turn by turn.

    ``methods`` are of SAGE's tables; of ``repeats`` steps of each form and one more the first is not timed. An unknown
    method and numbers out of range are errors. With ``compiled`` the first step takes half a minute.

    >>> next(bench_together(2, repeats=1, sizes=((8, 0.25, 4, 8),))).clients
    2
    """
    check_counts(clients=clients, repeats=repeats)
    for method in methods:
        for pixels, width, labelled, unlabelled in sizes:
            setting = SemiSetting.of(configure(
                "smoke", method=method, image_size=pixels, width=width, batch_size=labelled,
                unlabelled_batch_size=unlabelled, n_clients=clients, participation=1.0, scheme="iid",
                steps_per_epoch=repeats + 1, threads=torch.get_num_threads(), device=device, compile=compiled,
            ))  # fmt: skip
            median = {name: statistics.median(times) for name, times in _times(setting, repeats).items()}
            yield TogetherTiming(
                method=method, pixels=pixels, width=width, labelled=labelled, unlabelled=unlabelled, clients=clients,
                seconds_plain=median.get("plain"), seconds_alone=median["alone"], seconds=median["together"],
                speed_up=median["alone"] / median["together"], threads=torch.get_num_threads(), repeats=repeats,
                compiled=compiled,
            )  # fmt: skip


def _times(setting: SemiSetting, repeats: int) -> dict[str, list[float]]:
    config, start, later = setting.config, setting.new_model().state_dict(), setting.config.rounds - 1
    tasks = [LocalTask(setting, RECIPES[config.method], k, later, start) for k in range(config.n_clients)]
    for task in tasks:
        task.begin()
    batches = list(zip(*(islice(task.batches(), repeats + 1) for task in tasks), strict=True))
    alone, together = [Team([task]) for task in tasks], Team(tasks)
    plain, global_model = setting.placed_model(start).train(), setting.placed_model(start).eval()
    optimiser = tasks[0].sgd(plain.parameters())
    times: dict[str, list[float]] = {}
    for step, own in enumerate(batches):

        def one_by_one(own: Sequence[Batch] = own) -> None:
            for team, batch in zip(alone, own, strict=True):
                team.step([batch])

        def plainly(own: Sequence[Batch] = own) -> None:
            for batch in own:
                weak, strong, _ = batch.pool_views
                plain_step(plain, global_model, optimiser, (batch.labelled, weak, strong), batch.labels, config)

        forms: dict[str, Callable[[], object]] = {"alone": one_by_one, "together": partial(together.step, own)}
        if config.method == "SAGE":
            forms["plain"] = plainly
        for name, work in forms.items():
            seconds = timed(work, config.device) / len(tasks)
            if step:  # the first is not counted
                times.setdefault(name, []).append(seconds)
    return times
