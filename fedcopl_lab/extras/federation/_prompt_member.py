"""A client of prompt tuning: its text prompt, pseudo-labels and scores never leave its disk (FedCoPL Sec. 3.3-3.4)."""

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.extras.federation._journal import Journal
from fedcopl_lab.extras.federation._letters import Answer, Letter
from fedcopl_lab.extras.federation._member import Member
from fedcopl_lab.extras.federation._shards import OwnImages, Terms
from fedcopl_lab.methods import FederationState, PromptMethod, Setting, make_labels
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import PseudoLabels, filter_confident, perturb_counts, select_top

PROMPTS = "server."
"""Prefix of the server's prompts in a letter."""

_MOMENTUM = "momentum."


class PromptMember(Member):
    """What it does for each letter: ``score`` its images and send their filtered counts, ``select`` pseudo-labels
    by the quota, ``train`` a round and send the shared prompts, ``evaluate`` on its test images.
    """

    kinds: ClassVar[tuple[str, ...]] = ("score", "select", "train", "evaluate")

    def __init__(self, terms: Terms, images: OwnImages, journal: Journal, beside: Setting | None = None) -> None:
        super().__init__(terms, images, journal)
        self._beside = beside

    @cached_property
    def method(self) -> PromptMethod:
        """The method on this client's images."""
        setting = self.terms.setting(self.images, self._beside)
        assert isinstance(setting, Setting)
        return PromptMethod(setting)

    @property
    def config(self) -> PromptConfig:
        """The run."""
        return self.method.config

    def work(self, letter: Letter) -> dict[str, Tensor]:
        """See :meth:`Member.work`."""
        return {"score": self._score, "select": self._select, "train": self._train, "evaluate": self._evaluate}[
            letter.kind
        ](letter)

    def reply(self, letter: Letter, entry: Mapping[str, Tensor]) -> Answer:
        """See :meth:`Member.reply`."""
        tensors: dict[str, Tensor] = {}
        if letter.kind == "score" and "uploaded" in entry:
            tensors = {"counts": entry["uploaded"]}
        if letter.kind == "train":
            tensors = {part: entry[part] for part in self.config.shared}
        names = {
            "score": ("selected", "wanted"),
            "select": ("selected",),
            "train": ("weight",),
            "evaluate": ("correct", "n_test"),
        }
        numbers = {name: int(entry[name]) for name in names.get(letter.kind, ()) if name in entry}
        return Answer(self.client, letter.kind, letter.round, tensors, numbers)

    def _score(self, letter: Letter) -> dict[str, Tensor]:
        state = self._state(letter.round, letter.tensors)
        logits = self.method.client_scores(state, [self.client])[0]
        entry = {"logits": logits, **letter.tensors}
        if self.config.labeller == "CoPL":
            counts = filter_confident(logits, self.config.q_conf, self.config.q_ent).counts
            return entry | {"counts": counts, "uploaded": self._noisy(counts, letter.round)}
        phase = make_labels([logits], self.config, n_train=self.terms.n_train, phase=0)
        return entry | _labels(phase.labels[0]) | {"wanted": phase.quota.sum()}

    def _noisy(self, counts: Tensor, round_index: int) -> Tensor:
        """This client's row of the noise that all clients draw from the run's seed, or noise that nobody knows.

        The first gives the bytes of one process, and for that very reason no protection from a server that knows
        the seed.
        """
        config = self.config
        if self.terms.secret_noise:
            secret = torch.Generator()
            secret.seed()
            return perturb_counts(counts[None], config.count_noise, secret, config.epsilon)[0]
        everyone = torch.zeros(config.n_clients, len(counts), dtype=counts.dtype)
        everyone[self.client] = counts
        generator = torch_generator(self.method.stream_seed, "count noise", self.method.phase_number(round_index))
        return perturb_counts(everyone, config.count_noise, generator, config.epsilon)[self.client].clone()

    def _select(self, letter: Letter) -> dict[str, Tensor]:
        scored = self.journal.read("score", letter.round)
        if not scored:
            raise FedCoPLError(f"no scores for the label phase after round {letter.round}; it was missed")
        logits = scored["logits"]
        if self.config.allocation == "none":
            one = filter_confident(logits, self.config.q_conf, self.config.q_ent)
            chosen = PseudoLabels(indices=one.kept.nonzero().squeeze(1), labels=one.labels[one.kept])
        else:
            chosen = select_top(logits, letter.tensors["quota"], self.config.candidates)
        return {"wanted": letter.tensors["quota"].sum(), **_labels(chosen)}

    def _train(self, letter: Letter) -> dict[str, Tensor]:
        received = letter.tensors or self.journal.read("score", letter.round)
        state = self._state(letter.round, received)
        update = self.method.train_clients(state, [self.client], state.momentum)[0]
        labels = self._label_entry(letter.round)
        by_quota = self.config.weight_by == "quota"
        entry = {part: getattr(update, part) for part in state.clients}
        entry["weight"] = labels["wanted"] if by_quota else labels["selected"]
        entry |= {f"{_MOMENTUM}{part}": value for part, value in update.momentum.items()}
        return entry | {
            "epoch_losses": torch.tensor(update.epoch_losses, dtype=torch.float64),
            "n_samples": torch.tensor(update.n_samples),
            "n_steps": torch.tensor(update.n_steps),
        }

    def _evaluate(self, letter: Letter) -> dict[str, Tensor]:
        setting = self.method.setting
        indices = setting.federation.indices(self.client, "test")
        found = self.method.predict(self._state(letter.round, letter.tensors), self.client, indices)
        correct = int((found == setting.dataset.labels[indices]).sum()) if len(indices) else 0
        return {"correct": torch.tensor(correct), "n_test": torch.tensor(len(indices))}

    def _label_entry(self, round_index: int) -> dict[str, Tensor]:
        """The pseudo-labels of the last label phase."""
        kind = "select" if self.config.labeller == "CoPL" else "score"
        return self.journal.latest(kind, before=round_index + 1)

    def _state(self, round_index: int, received: Mapping[str, Tensor]) -> FederationState:
        """What the client knows, as a federation's state in which every row is its own."""
        start, k, device = self.method.initial_prompts(), self.config.n_clients, self.config.device
        own = self.journal.latest("train", before=round_index)
        latest = {part: own[part].to(device) if part in own else value for part, value in start.items()}
        clients = {part: value.expand(k, *value.shape) for part, value in latest.items()}  # K views of one tensor
        momentum = {}
        if self.config.momentum_state == "per_client":
            buffers = {n.removeprefix(_MOMENTUM): v.to(device) for n, v in own.items() if n.startswith(_MOMENTUM)}
            momentum = {part: value.expand(k, *value.shape) for part, value in buffers.items()}
        given = {part: received.get(f"{PROMPTS}{part}", start[part]) for part in self.config.shared}
        labels = _labels_of(self._label_entry(round_index))
        return FederationState(
            round=round_index,
            server={part: value.to(device) for part, value in given.items()},
            clients=clients,
            momentum=momentum,
            labels=() if labels is None else (labels,) * k,
        )


def _labels(chosen: PseudoLabels) -> dict[str, Tensor]:
    entry = {"indices": chosen.indices, "labels": chosen.labels, "selected": torch.tensor(len(chosen))}
    return entry if chosen.candidates is None else entry | {"candidates": chosen.candidates}


def _labels_of(entry: Mapping[str, Tensor]) -> PseudoLabels | None:
    if "indices" not in entry:
        return None
    return PseudoLabels(entry["indices"], entry["labels"], entry.get("candidates"))
