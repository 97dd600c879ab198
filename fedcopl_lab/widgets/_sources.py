"""What the explorers look at: scores of clients' images, two models' scores of weak views, the rows of a run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig, SageConfig, check_registered, configure
from fedcopl_lab.methods import RECIPES, LocalTask, PromptSetting, SemiSetting, SemiState
from fedcopl_lab.store import Run

DATASETS = ("digits", "digits:600")
"""What the explorers of FedCoPL's labels offer by themselves: sets that need no download."""


def prompt_config(dataset: str = "digits") -> PromptConfig:
    config = configure("smoke", dataset=dataset)
    assert isinstance(config, PromptConfig)
    return config


@dataclass(frozen=True, repr=False)
class Scores:
    """Scores of every client's training images, beside the true classes, which are read for reporting only.

    Attributes:
        name: what to call it.
        logits: scores of each client's images, K of [n_k, C].
        true: their true classes, K of [n_k].
        class_names: names of all classes, C.
        config: settings of the label phase other than the ones that the explorer moves.
    """

    name: str
    logits: tuple[Float[Tensor, "_ c"], ...]
    true: tuple[Int[Tensor, "_"], ...]
    class_names: tuple[str, ...]
    config: PromptConfig = field(default_factory=prompt_config)

    @classmethod
    def of(cls, config: PromptConfig) -> "Scores":
        """The plain CLIP's scores of a run's training images, with which its first label phase begins.

        Args:
            config: a configuration of a prompt-tuning method, such as ``lab.configure("smoke")``.

        Raises:
            FedCoPLError: missing data or weights.
        """
        setting = PromptSetting.of(config)
        indices = [setting.train_indices(client) for client in range(config.n_clients)]
        return cls(
            name=config.dataset,
            logits=tuple(setting.zero_shot_logits[own] for own in indices),
            true=tuple(setting.dataset.labels[own] for own in indices),
            class_names=tuple(setting.dataset.class_names),
            config=config,
        )

    @property
    def n_train(self) -> int:
        """Training images of all clients."""
        return sum(map(len, self.logits))

    def client(self, number: int) -> int:
        """The number, if there is such a client."""
        if not 0 <= number < len(self.logits):
            raise FedCoPLError(f"client={number} does not exist in {self.name}; its clients are 0 to "
                               f"{len(self.logits) - 1}: move the client slider back")  # fmt: skip
        return number

    def __repr__(self) -> str:
        clients, classes = len(self.logits), len(self.class_names)
        return f"Scores({self.name}: {clients} clients, {self.n_train} images, {classes} classes)"


class Catalogue(dict[str, Scores]):
    """Scores by name; a data set that is named only is loaded at first use.

    Args:
        sources: names of data sets, or ready :class:`Scores`.
    """

    def __init__(self, sources: Iterable[str | Scores] = DATASETS) -> None:
        given = list(sources)
        super().__init__({one.name: one for one in given if isinstance(one, Scores)})
        self.names = [one.name if isinstance(one, Scores) else one for one in given]
        if twice := {name for name in self.names if self.names.count(name) > 1}:
            raise FedCoPLError(f"several data sets are named {', '.join(sorted(twice))}; give one another name, as in "
                               "dataclasses.replace(scores, name='digits, IID')")  # fmt: skip
        if not given:
            raise FedCoPLError("there is no data set to look at; name at least one, such as 'digits'")

    def __missing__(self, name: str) -> Scores:
        if name not in self.names:
            raise FedCoPLError(f"dataset={name!r} is not in this explorer; choose one of {', '.join(self.names)}")
        self[name] = Scores.of(prompt_config(name))
        return self[name]


Sources = Iterable[str | Scores] | Catalogue


def catalogue_of(sources: Sources) -> Catalogue:
    """The catalogue itself, or a new one of these sources."""
    return sources if isinstance(sources, Catalogue) else Catalogue(sources)


@dataclass(frozen=True, repr=False)
class WeakViewScores:
    """Scores of one client's weak views by its own model in training and by the round's global model.

    Attributes:
        local: scores by the local model, [n, C].
        global_: scores of the same views by the global model, [n, C].
        true: true classes, for reporting only, [n].
        images: the images before augmentation, [n, 3, h, w].
        class_names: names of all classes, C.
        batch: views of one local step; the rows are in the order of the steps.
    """

    local: Float[Tensor, "n c"]
    global_: Float[Tensor, "n c"]
    true: Int[Tensor, "n"]
    images: UInt8[Tensor, "n 3 h w"]
    class_names: tuple[str, ...]
    batch: int = 16

    @classmethod
    def of(cls, run: Run, client: int = 3) -> "WeakViewScores":
        """Both models' scores while a client trains one more round from where a stored run ended.

        Args:
            run: a complete run of SAGE.
            client: which client trains.

        Raises:
            FedCoPLError: a run of another kind or not complete, or no such client.
        """
        config = run.config
        check_registered(config.method)
        if not isinstance(config, SageConfig) or not RECIPES[config.method].uses_global:
            raise FedCoPLError(f"{config.label} has no global model beside the local one; pass a run of SAGE")
        if not run.complete or not 0 <= client < config.n_clients:
            told = "is" if run.complete else "is not"
            raise FedCoPLError(f"run {run.key} has clients 0 to {config.n_clients - 1} and must be complete; "
                               f"client={client} of a run that {told} complete was asked for")  # fmt: skip
        setting = SemiSetting.of(config, run.split)
        state = SemiState.from_tensors(run.load_state(), config.device)
        memory = state.memories.get(client)
        noted = LocalTask(setting, RECIPES[config.method], client, state.round, state.model, memory=memory).run().noted
        assert noted is not None
        assert noted.global_ is not None
        places = setting.pool(client)[noted.places]
        return cls(noted.local.cpu(), noted.global_.cpu(), setting.labels[places].cpu(), setting.images[places].cpu(),
                   tuple(setting.dataset.class_names), config.unlabelled_batch_size)  # fmt: skip

    @property
    def steps(self) -> int:
        """Local steps."""
        return -(-len(self.true) // self.batch)

    def step(self, number: int) -> slice:
        """Which rows are the views of a local step.

        Raises:
            FedCoPLError: no such step.
        """
        if not 0 <= number < self.steps:
            raise FedCoPLError(f"step={number} does not exist; the local steps are 0 to {self.steps - 1}")
        return slice(number * self.batch, min((number + 1) * self.batch, len(self.true)))

    def __repr__(self) -> str:
        return f"WeakViewScores({len(self.true)} weak views, {self.steps} local steps)"


@dataclass(frozen=True, repr=False)
class RunHistory:
    """The rows of a stored run, as the round player steps through them.

    Attributes:
        name: what to call it.
        rows: one per round, as :meth:`Run.records` gives them.
    """

    name: str
    rows: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, run: Run, name: str | None = None) -> "RunHistory":
        """Read a stored run.

        Raises:
            FedCoPLError: a run without a round.
        """
        rows = tuple(run.records())
        if not rows:
            raise FedCoPLError(f"run {run.key} has no stored round; run it first")
        return cls(name or run.config.label, rows)

    def per_client(self) -> list[list[float | None]]:
        """Accuracy of every round and client: on its own test images, or (SAGE) of its trained model on its pool."""
        key = "accuracy" if "accuracy" in self.rows[0].get("clients", {}) else "end_accuracy"
        return [list(row.get("clients", {}).get(key, [])) for row in self.rows]

    def series(self, *path: str) -> list[float | None]:
        """One number of every round; nested keys one after the other."""
        found: list[Any] = list(self.rows)
        for key in path:
            found = [value.get(key) if isinstance(value, Mapping) else None for value in found]
        return [None if value is None else float(value) for value in found]

    def has(self, *path: str) -> bool:
        """Whether any round has that number."""
        return any(value is not None for value in self.series(*path))

    @property
    def label_rounds(self) -> list[int]:
        """Indices of the rounds that made new pseudo-labels."""
        return [place for place, row in enumerate(self.rows) if "labels" in row]

    def selected(self, place: int) -> tuple[int, Int[Tensor, "k c"], Int[Tensor, "k c"]]:
        """Pseudo-labels in use in a round: index of the round that made them, they, and those before them, [K, C].

        Before the first label phase no client has any.
        """
        made = [at for at in self.label_rounds if at <= place]
        now = torch.tensor(self.rows[made[-1]]["labels"]["selected"])
        before = torch.tensor(self.rows[made[-2]]["labels"]["selected"]) if len(made) > 1 else torch.zeros_like(now)
        return made[-1], now, before

    def __repr__(self) -> str:
        return f"RunHistory({self.name}, {len(self.rows)} rounds)"
