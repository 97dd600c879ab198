"""The client half of prompt tuning: its text prompt, pseudo-labels and scores stay with it (FedCoPL Sec. 3.3-3.4)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedcopl_lab._card import tf32_in
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.methods._labels import make_labels, select_labels, stream_seed
from fedcopl_lab.methods._predicting import client_scores
from fedcopl_lab.methods._prompt_recipes import prompt_recipe_of
from fedcopl_lab.methods._prompt_setting import PromptSetting
from fedcopl_lab.methods._prompt_state import PARTS
from fedcopl_lab.methods.protocol import MOMENTUM, Answer, ClientHalf, Kept, Letter, Tensors, grouped, named
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import LocalUpdate, PromptState, PseudoLabels, filter_confident, perturb_counts

PROMPTS = "server."
"""Prefix of the server's prompts in a letter."""

DECAY = "decay."
"""Prefix of weight decay's part of a client's update in its entry."""

NUMBERS = {
    "score": ("selected", "wanted"), "select": ("selected",), "train": ("weight",), "evaluate": ("correct", "n_test"),
}  # fmt: skip
"""What a client's answer to each letter counts."""


class PromptClient(ClientHalf):
    """``score``: filter its images and send their counts; ``select``: choose pseudo-labels by its quota, or take
    the server's; ``train``: one round, the shared prompts are sent; ``evaluate``: test.

    Args:
        setting: data and model; only this client's images are read.
        client: its number.
        kept: entries of earlier letters.
        secret_noise: draw the noise on counts from this machine's randomness instead of the run's seed.
    """

    kinds: ClassVar[tuple[str, ...]] = ("score", "select", "train", "evaluate")
    setting: PromptSetting

    def __init__(self, setting: PromptSetting, client: int, kept: Kept, secret_noise: bool = False) -> None:
        super().__init__(setting, client, kept)
        self.config: PromptConfig = setting.config
        self.secret_noise = secret_noise

    def work(self, letter: Letter) -> Tensors:
        """See :meth:`ClientHalf.work`."""
        if letter.kind == "train":
            return self.work_together([self], [letter])[0]
        return {"score": self._score, "select": self._select, "evaluate": self._evaluate}[letter.kind](letter)

    @classmethod
    def work_together(cls, clients: Sequence[Any], letters: Sequence[Letter]) -> list[Tensors]:
        """Batches of clients that train share a forward pass."""
        if letters[0].kind != "train":
            return super().work_together(clients, letters)
        setting, config, round_index = clients[0].setting, clients[0].config, letters[0].round
        labels = [one.label_entry(before=round_index + 1) for one in clients]
        images = [setting.rows(setting.train_indices(one.client)) for one in clients]
        with tf32_in(matrices=config.precision == "tf32"):
            updates = prompt_recipe_of(config.method).train(
                setting.training,
                images,
                [labels_of(entry) for entry in labels],
                [one.start(letter) for one, letter in zip(clients, letters, strict=True)],
                config=config,
                generator=[torch_generator(stream_seed(config), "batches", round_index, one.client) for one in clients],
                template=setting.template,
            )
        return [
            update_tensors(update) | {"weight": prompt_weight(config, entry["wanted"], entry["selected"])}
            for update, entry in zip(updates, labels, strict=True)
        ]

    def reply(self, letter: Letter, entry: Mapping[str, Tensor]) -> Answer:
        """See :meth:`ClientHalf.reply`."""
        tensors: Tensors = {}
        if letter.kind == "score" and pools_scores(self.config):
            tensors = {"logits": entry["logits"]}
        elif letter.kind == "score" and "uploaded" in entry:
            tensors = {"counts": entry["uploaded"]}
        elif letter.kind == "train":
            tensors = {part: entry[part] for part in self.config.shared}
        numbers = {name: int(entry[name]) for name in NUMBERS[letter.kind] if name in entry}
        return Answer(self.client, letter.kind, letter.round, tensors, numbers)

    def start(self, letter: Letter) -> PromptState:
        """What a round's training starts from."""
        received = letter.tensors or self.kept.read("score", letter.round)
        momentum: Tensors = {}
        if self.config.momentum_state != "reset":
            kind = "momentum" if self.config.momentum_state == "shared" else "train"
            momentum = self._here(grouped(self.kept.latest(kind, before=letter.round), MOMENTUM))
        return PromptState(**self.prompts(letter.round, received), round=letter.round, momentum=momentum)

    def prompts(self, round_index: int, received: Mapping[str, Tensor]) -> Tensors:
        """The prompts that the client uses, by part: the server's where it sent one, its own latest otherwise."""
        own = self.kept.latest("train", before=round_index) or initial_prompts(self.setting)
        return self._here({part: own[part] for part in PARTS if part in own} | grouped(received, PROMPTS))

    def label_entry(self, before: int) -> Tensors:
        """The pseudo-labels of the last label phase that opened a round below ``before``."""
        return self.kept.latest(label_kind(self.config), before)

    def _score(self, letter: Letter) -> Tensors:
        config, indices = self.config, self.setting.train_indices(self.client)
        if letter.round == 0:
            logits = self.setting.zero_shot_logits[indices]
        else:
            logits = self._scores(letter, indices, before=letter.round).float().cpu()
        entry = {"logits": logits, **letter.tensors}
        if pools_scores(config):
            return entry
        if config.labeller == "CoPL":
            counts = filter_confident(logits, config.q_conf, config.q_ent).counts
            return entry | {"counts": counts, "uploaded": self._noisy(counts, letter.round)}
        phase = make_labels([logits], config, n_train=0, phase=0)
        return entry | label_tensors(phase.labels[0], phase.quota[0])

    def _noisy(self, counts: Tensor, round_index: int) -> Tensor:
        """This client's row of the noise that the run's seed gives all clients, as in one process, or secret noise."""
        config = self.config
        if self.secret_noise:
            secret = torch.Generator()
            secret.seed()
            return perturb_counts(counts[None], config.count_noise, secret, config.epsilon)[0]
        all_clients = torch.zeros(config.n_clients, len(counts), dtype=counts.dtype)
        all_clients[self.client] = counts
        generator = torch_generator(stream_seed(config), "count noise", phase_number(config, round_index))
        return perturb_counts(all_clients, config.count_noise, generator, config.epsilon)[self.client].clone()

    def _select(self, letter: Letter) -> Tensors:
        if "indices" in letter.tensors:  # the server chose: it had all clients' scores
            return label_tensors(labels_of(letter.tensors), letter.tensors["quota"])
        scored = self.kept.read("score", letter.round)
        if not scored:
            raise FedCoPLError(f"no scores for the label phase after round {letter.round}; it was missed")
        quota = letter.tensors["quota"]
        return label_tensors(select_labels(scored["logits"], None, quota, self.config), quota)

    def _evaluate(self, letter: Letter) -> Tensors:
        indices = self.setting.federation.indices(self.client, "test")
        correct = 0
        if len(indices):
            found = self._scores(letter, indices, before=letter.round + 1).argmax(dim=1).cpu()
            correct = int((found == self.setting.dataset.labels[indices]).sum())
        return {"correct": torch.tensor(correct), "n_test": torch.tensor(len(indices))}

    def _scores(self, letter: Letter, indices: Tensor, before: int) -> Tensor:
        """The client's own model on images of the data set."""
        remembered = self.label_entry(before)
        labels = labels_of(remembered) if "indices" in remembered else None
        return client_scores(self.setting, self.client, self.prompts(letter.round, letter.tensors), labels, indices)

    def _here(self, tensors: Tensors) -> Tensors:
        return {name: value.to(self.config.device) for name, value in tensors.items()}


def initial_prompts(setting: PromptSetting) -> Tensors:
    """The prompts that every client starts from, by part, N(0, 0.02²)."""
    prompted, seed = setting.prompted, setting.config.seed
    text, visual = prompted.initial_prompts(torch_generator(seed, "initial prompts"))
    start = {"text": text, "visual": visual}
    if setting.config.like == "FedOTP":
        start["text_local"] = prompted.initial_prompts(torch_generator(seed, "initial local text prompt"))[0]
    return setting.scorer.start(start, torch_generator(seed, "a method's own start"))


def pools_scores(config: PromptConfig) -> bool:
    """Whether the server makes the labels from all clients' scores, which clients on separate machines never send."""
    if config.labeller == "CoPL":
        return config.filter_scope == "global" or config.count_noise in ("half", "uniform", "shuffled")
    pooled = config.labeller == "CPL" and config.candidate_scope == "global"
    return config.labeller == "true" or config.label_scope == "global" or pooled


def label_kind(config: PromptConfig) -> str:
    """The letter whose entry holds a client's pseudo-labels."""
    return "select" if config.labeller == "CoPL" or pools_scores(config) else "score"


def labels_are_due(config: PromptConfig, round_index: int) -> bool:
    """Whether a label phase opens the round after so many."""
    return round_index % config.refresh_every == 0 if config.refresh_every else round_index == 0


def phase_number(config: PromptConfig, round_index: int) -> int:
    """Which label phase's labels the round after so many trains on, counted from 0."""
    return round_index // config.refresh_every if config.refresh_every else 0


def prompt_weight(config: PromptConfig, wanted: Any, selected: Any) -> Any:
    """A client's weight in the mean: the images that it was to select, or those that it selected (Eq. 4).

    >>> prompt_weight(lab.configure("smoke", weight_by="selected"), wanted=40, selected=38)
    38
    """
    return wanted if config.weight_by == "quota" else selected


def label_tensors(chosen: PseudoLabels, quota: Tensor) -> Tensors:
    """Pseudo-labels of one client and what it was to select, [C], as an entry."""
    entry = {"indices": chosen.indices, "labels": chosen.labels, "quota": quota}
    entry |= {"selected": torch.tensor(len(chosen)), "wanted": quota.sum()}
    return entry if chosen.candidates is None else entry | {"candidates": chosen.candidates}


def labels_of(entry: Mapping[str, Tensor]) -> PseudoLabels:
    """The pseudo-labels in an entry of :func:`label_tensors`."""
    return PseudoLabels(entry["indices"], entry["labels"], entry.get("candidates"))


def update_tensors(update: LocalUpdate) -> Tensors:
    """A client's update as an entry."""
    return {
        **{part: getattr(update, part) for part in PARTS if getattr(update, part) is not None},
        **named(MOMENTUM, update.momentum),
        **named(DECAY, update.decay),
        "epoch_losses": torch.tensor(update.epoch_losses, dtype=torch.float64),
        "n_samples": torch.tensor(update.n_samples),
        "n_steps": torch.tensor(update.n_steps),
    }


def update_of(entry: Mapping[str, Tensor]) -> LocalUpdate:
    """The update in an entry of :func:`update_tensors`."""
    return LocalUpdate(
        **{part: entry[part] for part in PARTS if part in entry},
        momentum=grouped(entry, MOMENTUM),
        decay=grouped(entry, DECAY),
        epoch_losses=tuple(entry["epoch_losses"].tolist()),
        n_samples=int(entry["n_samples"]),
        n_steps=int(entry["n_steps"]),
    )
