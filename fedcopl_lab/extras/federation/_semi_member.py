"""A client of semi-supervised learning: sends its model and what its method adds, keeps its memory (SAGE Alg. 1)."""

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from fedcopl_lab.extras.federation._letters import Answer, Letter
from fedcopl_lab.extras.federation._member import Member
from fedcopl_lab.methods import LocalTask, SemiMethod, SemiSetting
from fedcopl_lab.methods._noted import Noted
from fedcopl_lab.methods._semi import exact_convolutions
from fedcopl_lab.steps import recalibrate

MODEL, EXTRA = "model/", "extra/"
"""Prefixes of the model and of what a method sends beside it."""

_MEMORY, _LOSS, _NOTED = "memory/", "loss/", "noted/"


class SemiMember(Member):
    """What it does for each letter: ``train`` a round; ``recalibrate`` measures the merged model's statistics."""

    kinds: ClassVar[tuple[str, ...]] = ("train", "recalibrate")

    @cached_property
    def method(self) -> SemiMethod:
        """The method on this client's images."""
        setting = self.terms.setting(self.images)
        assert isinstance(setting, SemiSetting)
        return SemiMethod(setting)

    def work(self, letter: Letter) -> dict[str, Tensor]:
        """See :meth:`Member.work`."""
        with exact_convolutions(self.method.config.precision):
            return self._recalibrate(letter) if letter.kind == "recalibrate" else self._train(letter)

    def reply(self, letter: Letter, entry: Mapping[str, Tensor]) -> Answer:
        """See :meth:`Member.reply`."""
        sent = {name: value for name, value in entry.items() if name.startswith((MODEL, EXTRA))}
        setting = self.method.setting
        sizes = {"n_labelled": len(setting.labelled(self.client)), "n_pool": len(setting.pool(self.client))}
        return Answer(self.client, letter.kind, letter.round, sent, sizes)

    def _train(self, letter: Letter) -> dict[str, Tensor]:
        memory = grouped(self.journal.latest("train", before=letter.round), _MEMORY)
        task = LocalTask(
            self.method.setting,
            self.method.recipe,
            self.client,
            letter.round,
            {name: value.to(self.method.config.device) for name, value in grouped(letter.tensors, MODEL).items()},
            grouped(letter.tensors, EXTRA),
            memory,
        )
        update = task.run()
        entry = {f"{MODEL}{name}": value for name, value in update.model.items()}
        entry |= {f"{EXTRA}{name}": value for name, value in update.sent.items()}
        entry |= {f"{_MEMORY}{name}": value for name, value in update.memory.items()}
        entry |= {f"{_LOSS}{name}": torch.tensor(value, dtype=torch.float64) for name, value in update.losses.items()}
        entry |= {"n_steps": torch.tensor(update.n_steps)}
        entry |= {"start_scores": update.start_scores, "end_scores": update.end_scores}
        return entry | noted_tensors(update.noted)

    def _recalibrate(self, letter: Letter) -> dict[str, Tensor]:
        setting = self.method.setting
        model = setting.placed_model(grouped(letter.tensors, MODEL))
        buffers = recalibrate(model, setting.images[setting.pool(self.client)], setting.training)
        return {f"{MODEL}{name}": value for name, value in buffers.items()}


def grouped(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def noted_tensors(noted: Noted | None) -> dict[str, Tensor]:
    """What a round noted of its pseudo-labels, as entries of a journal."""
    if noted is None:
        return {}
    found = {name: getattr(noted, name) for name in ("places", "local", "target", "weight", "used")}
    if noted.global_ is not None:
        found["global_"] = noted.global_
    return {f"{_NOTED}{name}": value for name, value in found.items()}


def noted_of(entry: Mapping[str, Tensor]) -> Noted | None:
    """The inverse of :func:`noted_tensors`."""
    found = grouped(entry, _NOTED)
    return Noted(**({"global_": None} | found)) if found else None  # type: ignore[arg-type]


def memory_of(entry: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What the client kept."""
    return grouped(entry, _MEMORY)


def losses_of(entry: Mapping[str, Tensor]) -> dict[str, float]:
    """Mean of each named loss."""
    return {name: float(value) for name, value in grouped(entry, _LOSS).items()}
