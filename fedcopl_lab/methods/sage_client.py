"""The client half of semi-supervised learning: sends its model and what its method adds (SAGE Alg. 1)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedcopl_lab._card import tf32_in
from fedcopl_lab.methods._batches import ViewLabels
from fedcopl_lab.methods._recipes import recipe_of
from fedcopl_lab.methods._sage_local_task import LocalTask
from fedcopl_lab.methods._sage_setting import SemiSetting
from fedcopl_lab.methods._sage_state import ClientUpdate
from fedcopl_lab.methods._sage_together import run_together
from fedcopl_lab.methods.protocol import MOMENTUM, Answer, ClientHalf, Letter, Tensors, grouped, named
from fedcopl_lab.steps import model_scores, recalibrate

MODEL, EXTRA, MEMORY = "model/", "extra/", "memory/"
"""Prefixes of the model, of what a method sends beside it, and of what a client keeps for itself."""

_SCORES = ("start_scores", "end_scores", "start_batch_scores", "end_batch_scores")
_LOSS, _NOTED = "loss/", "noted/"


class SageClient(ClientHalf):
    """``train``: one round, model and extras are sent; ``recalibrate``: measure the new global model's statistics.

    Args:
        setting: data and federation; only this client's images are read.
        client: its number.
        kept: entries of earlier letters.
    """

    kinds: ClassVar[tuple[str, ...]] = ("train", "recalibrate")
    setting: SemiSetting

    def work(self, letter: Letter) -> Tensors:
        """See :meth:`ClientHalf.work`."""
        with exact_convolutions():
            if letter.kind == "recalibrate":
                return self._recalibrate(letter)
            return update_tensors(self._task(letter).run())

    @classmethod
    def work_together(cls, clients: Sequence["SageClient"], letters: Sequence[Letter]) -> list[Tensors]:
        """See :meth:`ClientHalf.work_together`; those with equally many steps and reported images share passes."""
        setting = clients[0].setting
        if len(clients) == 1 or letters[0].kind != "train":
            return super().work_together(clients, letters)
        tasks = [client._task(letter) for client, letter in zip(clients, letters, strict=True)]
        alike: dict[tuple[int, int], list[int]] = {}
        for place, task in enumerate(tasks):
            sizes = setting.steps_per_epoch(task.client), len(task.reported)
            alike.setdefault(sizes, []).append(place)
        entries: dict[int, Tensors] = {}
        with exact_convolutions():
            for places in alike.values():
                updates = run_together([tasks[place] for place in places])
                entries |= {place: update_tensors(one) for place, one in zip(places, updates, strict=True)}
        return [entries[place] for place in range(len(clients))]

    def reply(self, letter: Letter, entry: Mapping[str, Tensor]) -> Answer:
        """See :meth:`ClientHalf.reply`."""
        sent = {name: value for name, value in entry.items() if name.startswith((MODEL, EXTRA))}
        sizes = {"n_labelled": len(self.setting.labelled(self.client)), "n_pool": len(self.setting.pool(self.client))}
        return Answer(self.client, letter.kind, letter.round, sent, sizes)

    def _task(self, letter: Letter) -> LocalTask:
        memory = grouped(self.kept.latest("train", before=letter.round), MEMORY)
        momentum = grouped(self.kept.latest("momentum", before=letter.round), MOMENTUM)
        start = {name: value.to(self.setting.config.device) for name, value in grouped(letter.tensors, MODEL).items()}
        received = grouped(letter.tensors, EXTRA)
        recipe = recipe_of(self.setting.config.method)
        return LocalTask(self.setting, recipe, self.client, letter.round, start, received, memory, momentum)

    def _recalibrate(self, letter: Letter) -> Tensors:
        model = self.setting.placed_model(grouped(letter.tensors, MODEL))
        images = self.setting.images[self.setting.pool(self.client)]
        return named(MODEL, recalibrate(model, images, self.setting.training))


def update_tensors(update: ClientUpdate) -> Tensors:
    """A client's update as an entry; a client without test images has no scores of the probe images."""
    entry = named(MODEL, update.model) | named(EXTRA, update.sent) | named(MEMORY, update.memory)
    entry |= named(MOMENTUM, update.momentum)
    entry |= {f"{_LOSS}{name}": torch.tensor(value, dtype=torch.float64) for name, value in update.losses.items()}
    entry |= {"n_steps": torch.tensor(update.n_steps)}
    entry |= {name: getattr(update, name) for name in _SCORES}
    if len(update.probe_scores):
        entry["probe_scores"] = update.probe_scores
    if update.noted is not None:
        entry |= named(_NOTED, {name: value for name, value in vars(update.noted).items() if value is not None})
    return entry


def update_of(entry: Mapping[str, Tensor], setting: SemiSetting) -> ClientUpdate:
    """The update in an entry of :func:`update_tensors`; scores of the probe images are made where they are missing."""
    model, noted = grouped(entry, MODEL), grouped(entry, _NOTED)
    probe_scores = entry.get("probe_scores")
    if probe_scores is None:
        probe_scores = model_scores(setting.placed_model(model), setting.images[setting.probes], setting.testing)
    return ClientUpdate(
        model=model,
        sent=grouped(entry, EXTRA),
        memory=grouped(entry, MEMORY),
        momentum=grouped(entry, MOMENTUM),
        losses={name: float(value) for name, value in grouped(entry, _LOSS).items()},
        n_steps=int(entry["n_steps"]),
        **{name: entry[name] for name in _SCORES},
        probe_scores=probe_scores,
        noted=ViewLabels(**{"global_": None, **noted}) if noted else None,  # type: ignore[arg-type]
    )


@contextmanager
def exact_convolutions(precision: str = "fp32") -> Iterator[None]:
    """The same kernels in every run; full float32 products unless the precision is another."""
    cudnn: Any = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        with tf32_in(convolutions=precision != "fp32"):
            yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before
