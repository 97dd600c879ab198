"""FedCoPL's half: the settings of federated prompt tuning, whichever labeller and trainer a run combines."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from fedcopl_lab.config._run_config import Rules, RunConfig

PromptMethodName = Literal[
    "zero-shot", "PromptFL", "PromptProx", "pFedPrompt", "FedOTP", "FedCoPL",
    "FedPGP", "FedTPG", "LinearHead", "ClassMeans", "FedCOF",
]  # fmt: skip
OURS = ("FedPGP", "FedTPG", "LinearHead", "ClassMeans", "FedCOF")
"""Methods that are not the paper's, with CoPL's labels beside FedCoPL."""

Labeller = Literal["none", "FPL", "CPL", "CoPL", "UPL", "true"]
CountNoise = Literal["none", "laplace", "gaussian", "half", "uniform", "shuffled"]
TestSplit = Literal["own_masks", "same_proportions", "independent"]


@dataclass(frozen=True, kw_only=True, repr=False)
class PromptConfig(RunConfig):
    """Everything that decides the numbers of one federated prompt-tuning run (FedCoPL Sec. 4.1).

    >>> config = configure("smoke", method="FedCoPL", beta=0.1, seed=1)
    >>> config.rounds, config.n_clients
    (8, 5)
    """

    method: PromptMethodName | str  # or a registered name
    seed_scope: Literal["everything", "prompts"] = "everything"  # "prompts": as the released code, row 25
    # data and federation
    clip: str
    scheme: Literal["dirichlet", "quantity", "iid"] = "dirichlet"
    beta: float | None = 0.1
    fraction: float | None = None  # share of the classes a client owns; quantity split only
    class_order: Literal["drawn", "by_number"] = "drawn"  # quantity split: in which classes go to clients
    partition_mode: Literal["paper", "authors"] = "paper"
    test_split: TestSplit | None = None  # None: the scheme's own
    test_stride: int = 1  # rounds before the last test each such image of a client's; the last tests all
    min_train: int
    min_test: int
    # optimiser
    weight_decay: float = 0.05
    lr_schedule: Literal["phase", "run", "round", "constant"] = "phase"
    warmup_epochs: int = 0  # first local epochs of the run at a learning rate of 1e-5
    momentum_state: Literal["reset", "per_client", "shared"] = "reset"
    # prompts
    n_text: int  # context vectors of the text prompt
    n_visual: int  # context vectors per prompted image layer
    visual_depth: int | None = None  # None: every image layer but the last
    modalities: Literal["text", "visual", "both"] = "both"  # which prompts are trained; the other side is plain CLIP
    aggregate: Literal["none", "text", "visual", "both"]  # which of the trained prompts the server averages
    weight_by: Literal["quota", "selected"] = "quota"
    # pseudo-labels
    labeller: Labeller
    refresh_every: int  # [Q]; 0: labels are made once
    relabel_with: Literal["aggregated", "local"] = "aggregated"
    q_conf: float | None = 0.5  # [tau_1] quantile level of the confidence filter; None: off
    q_ent: float | None = 0.5  # [tau_2] level of the entropy filter, kept below the (1-q) quantile; None: off
    filter_scope: Literal["client", "global"] = "client"
    allocation: Literal["paper", "authors", "none"] = "paper"
    unseen_class: Literal["zero", "authors_quota"] = "zero"
    candidates: Literal["argmax", "any"] = "argmax"
    shots: int | None = None  # images per class that FPL, CPL and UPL take; None: all that are predicted as it
    label_scope: Literal["client", "global"] = "client"  # shots of every client, or of all clients together
    overflow: Literal["none", "next_best"] = "none"  # FPL: where an image goes that its class has no room for
    upl_confident: float | None = None  # UPL adds every image above this confidence (0.9 in its code); None: off
    cpl_alpha: float | None = None  # CPL's quantile within an image; None: the data set's, see CPL_LEVELS
    cpl_beta: float | None = None  # CPL's quantile between images; None: the same
    cpl_gamma: float = 1.0  # CPL's quantile between images is 1 - gamma / C on a set without one of its own
    candidate_scope: Literal["client", "global"] = "global"  # CPL's quantiles: of a client's scores, or of all clients'
    count_noise: CountNoise = "none"  # what happens to the counts that CoPL's clients upload
    epsilon: float | None = None  # privacy of "laplace" and "gaussian" noise, if an image changes one count by 1
    # trainers
    prox_mu: float = 0.5  # [mu] of PromptProx
    prox_gradient: bool = True  # False: the term is in the printed loss only, as in the public code
    cache_weight: float = 1.0  # [a] of pFedPrompt: the local cache's part of the logits
    cache_votes: Literal["mean", "sum"] = "mean"  # of a class's cached images; "sum" grows with their number
    cache_sharpness: float = 5.5  # [b] of pFedPrompt: how fast a cached image loses influence with distance
    ot_mass: float = 0.8  # [gamma] of FedOTP: the share of the mass that is moved
    ot_epsilon: float = 0.1  # FedOTP: strength of the entropic regularisation
    ot_threshold: float = 1e-3  # FedOTP: iterations stop when the scaling changes by less
    ot_iterations: int = 100  # FedOTP: and at this number
    # machine
    clients_per_forward: int = 1  # clients whose batches share a forward pass: changes rounding and memory
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"  # of training; labels and tests stay fp32
    weights: Literal["pretrained", "random"] = "pretrained"  # "random": for timing only, no accuracy means anything

    _ADDED: ClassVar[Mapping[str, tuple[Any, str, str]]] = MappingProxyType(
        {
            "class_order": ("by_number", "scheme", "quantity"),
            "test_stride": (1, "", ""),
            "candidate_scope": ("client", "labeller", "CPL"),
            "cpl_gamma": (2.0, "labeller", "CPL"),
            "cache_votes": ("sum", "method", "pFedPrompt"),
        }
    )

    @property
    def label(self) -> str:
        """A short name for progress bars and lists, such as ``FedCoPL+CoPL digits β=0.1 seed=2``."""
        skew = {"dirichlet": f"β={self.beta}", "quantity": f"s={self.fraction}", "iid": "iid"}[self.scheme]
        labels = {"none": "", "true": "+TRUE LABELS"}.get(self.labeller, f"+{self.labeller}")
        sides = "" if self.modalities == "both" or not self.rounds else f" {self.modalities} only"
        budget = "" if self.epsilon is None else f" ε={self.epsilon}"
        noise = "" if self.count_noise == "none" else f" counts {self.count_noise}{budget}"
        loud = " RANDOM WEIGHTS" if self.weights == "random" else ""
        return f"{self.method}{labels} {self.dataset} {skew}{sides}{noise}{loud} seed={self.seed}"

    @property
    def trained(self) -> tuple[str, ...]:
        """The prompts that are trained, text before visual."""
        return ("text", "visual") if self.modalities == "both" else (self.modalities,)

    @property
    def shared(self) -> tuple[str, ...]:
        """The prompts that clients send and the server averages: trained ones only."""
        return tuple(part for part in self.trained if self.aggregate in (part, "both"))

    @property
    def partition_settings(self) -> dict[str, Any]:
        """How the data set is divided: the arguments of :func:`partition` beside it."""
        same = ("scheme", "n_clients", "beta", "min_train", "min_test", "test_split", "class_order")
        seed = self.seed if self.seed_scope == "everything" else 0
        own = {"fraction": self.fraction or 1.0, "seed": seed, "mode": self.partition_mode}
        return {name: getattr(self, name) for name in same} | own

    def _rules(self) -> Rules:
        yield from super()._rules()
        zero_shot, noisy = self.method == "zero-shot", self.count_noise != "none"
        yield "rounds", (self.rounds == 0) == zero_shot, "0 for zero-shot and at least 1 for a method that trains"
        labellers = "none for zero-shot, and FPL, CPL, CoPL, UPL or true for a method that trains"
        yield "labeller", (self.labeller == "none") == zero_shot, labellers
        texts = self.modalities != "visual" or self.like not in OURS
        yield "modalities", texts, f"text or both with {self.method}, whose text side is what it trains"
        means = self.modalities == "text" or self.like not in ("ClassMeans", "FedCOF")
        yield "modalities", means, f"text with {self.method}, which trains no visual prompt"
        sent = self.aggregate == "text" or self.like != "FedCOF"
        yield "aggregate", sent, "text with FedCOF, whose classifier is made of what all clients send"
        prompted = self.modalities != "visual" or self.visual_depth != 0
        yield "visual_depth", prompted, "1 or more where visual prompts alone are trained"
        alone = "1 with momentum_state='shared', where one buffer goes from client to client"
        yield "clients_per_forward", self.clients_per_forward == 1 or self.momentum_state != "shared", alone
        uploads = "none with a labeller whose clients upload no counts"
        yield "count_noise", not noisy or self.labeller in ("CoPL", "true"), uploads
        unused = "none with allocation='none', which does not use the counts"
        yield "count_noise", not noisy or self.allocation != "none", unused
