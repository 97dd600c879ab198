"""The server of prompt tuning: allocates quotas from counts, averages the shared prompts (FedCoPL Sec. 3.3-3.4)."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.extras.federation._letters import Letter
from fedcopl_lab.extras.federation._post import Expected, Post
from fedcopl_lab.extras.federation._prompt_member import PROMPTS
from fedcopl_lab.extras.federation._shards import Terms
from fedcopl_lab.methods import PromptMethod, Setting
from fedcopl_lab.steps import allocate


@dataclass(frozen=True, repr=False)
class PromptServerState:
    """What the server knows after a number of rounds: no text prompt where clients keep it, no pseudo-label.

    Attributes:
        round: rounds that lie behind.
        server: the prompts that it averages, by part.
        wanted: images that each client was to select, [K].
        selected: images that each client says it selected, [K]; 0 for one that missed the label phase.
    """

    round: int
    server: dict[str, Tensor]
    wanted: Int[Tensor, "k"]
    selected: Int[Tensor, "k"]

    def to_tensors(self) -> dict[str, Tensor]:
        """The state as named tensors."""
        prompts = {f"{PROMPTS}{part}": value.cpu().contiguous() for part, value in self.server.items()}
        return prompts | {"round": torch.tensor(self.round), "wanted": self.wanted, "selected": self.selected}

    def __repr__(self) -> str:
        return f"PromptServerState(after round {self.round}, {int((self.selected > 0).sum())} clients with labels)"


class PromptServer:
    """One round: a label phase where one is due, then training by those who have labels, then the mean.

    Who misses a label phase has no labels until the next one. Who misses a round is left out of its mean: the
    weights are those of the clients that answered, and :func:`fedcopl_lab.aggregate` divides by their sum.

    Args:
        terms: of the federation.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        setting = terms.setting()
        assert isinstance(setting, Setting)
        self.method = PromptMethod(setting)
        self.config: PromptConfig = setting.config

    def initial_state(self) -> PromptServerState:
        """The drawn prompts; nobody has labels."""
        nobody = torch.zeros(self.config.n_clients, dtype=torch.long)
        start = self.method.initial_prompts()
        return PromptServerState(0, {part: start[part] for part in self.config.shared}, nobody, nobody)

    def restored_state(self, tensors: dict[str, Tensor]) -> PromptServerState:
        """The state that :meth:`PromptServerState.to_tensors` wrote."""
        device = self.config.device
        server = {part: tensors[f"{PROMPTS}{part}"].to(device) for part in self.config.shared}
        return PromptServerState(int(tensors["round"]), server, tensors["wanted"], tensors["selected"])

    def step(self, state: PromptServerState, post: Post) -> tuple[PromptServerState, dict[str, Any]]:
        """One communication round: the next state, and what to note of it."""
        informed: set[int] = set()
        if self.method.labels_are_due(state.round):
            state, informed = self._label(state, post)
        drawn = self.method.drawn(state.round)
        participants = [k for k in drawn if int(state.selected[k])]
        if not participants:
            raise FedCoPLError(
                f"round {state.round + 1}: clients {drawn} take part but hold 0 pseudo-labelled images; "
                "lower q_conf or q_ent, or raise participation"
            )
        prompts = self._prompts(state)
        letters = {k: Letter("train", state.round, {} if k in informed else prompts) for k in participants}
        weights = state.wanted if self.config.weight_by == "quota" else state.selected
        mean = post.mean(letters, state.server, {k: int(weights[k]) for k in participants})
        server = {part: mean.tensors[part].to(self.config.device) for part in self.config.shared}
        row = {
            "round": state.round + 1,
            "participants": participants,
            "answered": list(mean.clients),
            "weights": weights[list(mean.clients)].tolist(),
            "n_selected": state.selected.tolist(),
        }
        return replace(state, round=state.round + 1, server=server), row

    def last_words(self, state: PromptServerState, post: Post) -> dict[str, Any]:
        """Every client's accuracy on its own test images with the final prompts, as it reports it."""
        letters = {k: Letter("evaluate", state.round, self._prompts(state)) for k in range(self.config.n_clients)}
        most = self.terms.n_images
        answers = post.ask(letters, Expected(numbers={"correct": most, "n_test": most}))
        tested = [one.numbers for one in answers.values() if one.numbers.get("n_test")]
        if not tested:
            return {"accuracy": None, "accuracy_sample_mean": None}
        shares = [one["correct"] / one["n_test"] for one in tested]
        return {
            "accuracy": sum(shares) / len(shares),
            "accuracy_sample_mean": sum(one["correct"] for one in tested) / sum(one["n_test"] for one in tested),
        }

    def _label(self, state: PromptServerState, post: Post) -> tuple[PromptServerState, set[int]]:
        """A label phase: the state with its numbers of labels, and the clients that were sent the prompts."""
        everyone = range(self.config.n_clients)
        send = state.round > 0 and self.config.relabel_with == "aggregated"
        prompts = self._prompts(state) if send else {}
        n_classes = len(self.terms.class_names)
        counts = {"counts": torch.zeros(n_classes, dtype=torch.long)} if self.config.labeller == "CoPL" else {}
        most = {"selected": self.terms.n_train}
        wished = max(self.terms.n_train, self.config.shots * n_classes)  # a client may want more than it has
        asked = Expected(counts, numbers={} if counts else most | {"wanted": wished})
        scored = post.ask({k: Letter("score", state.round, prompts) for k in everyone}, asked)
        informed = set(scored) if send and self.config.shared else set()
        wanted, selected = (torch.zeros(self.config.n_clients, dtype=torch.long) for _ in range(2))
        if self.config.labeller != "CoPL":
            for k, answer in scored.items():
                wanted[k], selected[k] = answer.numbers["wanted"], answer.numbers["selected"]
            return replace(state, wanted=wanted, selected=selected), informed
        quota = allocate(
            torch.stack([one.tensors["counts"] for one in scored.values()]),
            self.config.allocation,
            n_train=self.terms.n_train,
            phase=self.method.phase_number(state.round),
            unseen=self.config.unseen_class,
        ).quota
        letters = {k: Letter("select", state.round, {"quota": row}) for k, row in zip(scored, quota, strict=True)}
        for k, answer in post.ask(letters, Expected(numbers=most)).items():
            wanted[k], selected[k] = int(letters[k].tensors["quota"].sum()), answer.numbers["selected"]
        return replace(state, wanted=wanted, selected=selected), informed

    def _prompts(self, state: PromptServerState) -> dict[str, Tensor]:
        return {f"{PROMPTS}{part}": value for part, value in state.server.items()}
