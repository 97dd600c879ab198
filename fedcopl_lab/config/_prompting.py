"""FedCoPL's half: the settings of federated prompt tuning, whichever labeller and trainer a run combines."""

import math
from dataclasses import dataclass
from typing import Literal

from fedcopl_lab.config._checks import check, check_counts
from fedcopl_lab.config._run import RunConfig

PromptMethodName = Literal["zero-shot", "PromptFL", "PromptProx", "pFedPrompt", "FedOTP", "FedCoPL"]
Labeller = Literal["none", "FPL", "CPL", "CoPL", "UPL", "true"]
Scheme = Literal["dirichlet", "quantity", "iid"]
Rules = Literal["paper", "authors"]
CountNoise = Literal["none", "laplace", "gaussian", "half", "uniform", "shuffled"]


@dataclass(frozen=True, kw_only=True)
class PromptConfig(RunConfig):
    """Everything that decides the numbers of one federated prompt-tuning run (FedCoPL Sec. 4.1).

    >>> config = configure("smoke", method="FedCoPL", beta=0.1, seed=1)
    >>> config.rounds, config.n_clients
    (4, 5)
    """

    method: PromptMethodName
    seed_scope: Literal["everything", "prompts"] = "everything"  # "prompts": as the released code, row 25
    # data and federation
    clip: str
    scheme: Scheme = "dirichlet"
    beta: float | None = 0.1
    fraction: float | None = None  # share of the classes a client owns; quantity split only
    partition_mode: Rules = "paper"
    test_split: Literal["own_masks", "same_proportions", "independent"] | None = None  # None: the scheme's own
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
    shots: int  # images per class that FPL, CPL and UPL take
    label_scope: Literal["client", "global"] = "client"  # shots of every client, or of all clients together
    overflow: Literal["none", "next_best"] = "none"  # FPL: where an image goes that its class has no room for
    upl_confident: float | None = None  # UPL adds every image above this confidence (0.9 in its code); None: off
    cpl_alpha: float | None = None  # CPL's quantile within an image; None: the data set's, see CPL_LEVELS
    cpl_beta: float | None = None  # CPL's quantile between images; None: the same
    count_noise: CountNoise = "none"  # what happens to the counts that CoPL's clients upload
    epsilon: float | None = None  # privacy of "laplace" and "gaussian" noise; an image changes one count by 1
    # trainers
    prox_mu: float = 0.5  # [mu] of PromptProx
    prox_gradient: bool = True  # False: the term is in the printed loss only, as in the public code
    cache_weight: float = 1.0  # [a] of pFedPrompt: the local cache's part of the logits
    cache_sharpness: float = 5.5  # [b] of pFedPrompt: how fast a cached image loses influence with distance
    ot_mass: float = 0.8  # [gamma] of FedOTP: the share of the mass that is moved
    ot_epsilon: float = 0.1  # FedOTP: strength of the entropic regularisation
    ot_threshold: float = 1e-3  # FedOTP: iterations stop when the scaling changes by less
    ot_iterations: int = 100  # FedOTP: and at this number
    # machine
    clients_per_forward: int = 1  # clients whose batches share a forward pass: changes rounding and memory
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"  # of training; labels and tests stay fp32
    weights: Literal["pretrained", "random"] = "pretrained"  # "random": for timing only, no accuracy means anything

    @property
    def label(self) -> str:
        """A short name for progress bars and lists, such as ``FedCoPL+CoPL digits β=0.1 seed=2``."""
        skew = {"dirichlet": f"β={self.beta}", "quantity": f"s={self.fraction}", "iid": "iid"}[self.scheme]
        labels = {"none": "", "true": "+TRUE LABELS"}.get(self.labeller, f"+{self.labeller}")
        sides = "" if self.modalities == "both" or not self.rounds else f" {self.modalities} only"
        budget = f" ε={self.epsilon}" if self.count_noise in PRIVATE_NOISE else ""
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

    def _check_ranges(self) -> None:
        super()._check_ranges()
        check_counts(self, ("n_text", "n_visual", "shots", "clients_per_forward", "ot_iterations"), least=1)
        check_counts(self, ("refresh_every", "min_train", "min_test", "warmup_epochs"), least=0)
        for name in ("q_conf", "q_ent"):
            level = getattr(self, name)
            check(name, level, lambda v: v is None or 0 <= v <= 1, "a quantile level in [0, 1], or None for off")
        check("rounds", self.rounds, lambda v: (v == 0) == (self.method == "zero-shot"),
              "0 for zero-shot and at least 1 for a method that trains")  # fmt: skip
        check("labeller", self.labeller, lambda v: (v == "none") == (self.method == "zero-shot"),
              "none for zero-shot, and FPL, CPL, CoPL, UPL or true for a method that trains")  # fmt: skip
        self._check_labels()
        self._check_trainers()
        if self.momentum_state == "shared":
            check("clients_per_forward", self.clients_per_forward, lambda v: v == 1,
                  "1 with momentum_state='shared', where one buffer goes from client to client")  # fmt: skip
        if self.scheme == "dirichlet":
            check("beta", self.beta, lambda v: v is not None and 0 < v < math.inf, "a positive Dirichlet concentration")
        if self.scheme == "quantity":
            check("fraction", self.fraction, lambda v: v is not None and 0 < v <= 1, "a share of the classes in (0, 1]")

    def _check_labels(self) -> None:
        for name in ("cpl_alpha", "cpl_beta", "upl_confident"):
            check(name, getattr(self, name), lambda v: v is None or 0 <= v <= 1, "a number in [0, 1], or None")
        check("epsilon", self.epsilon, lambda v: v is None or 0 < v < math.inf, "a positive privacy budget, or None")
        if self.count_noise in PRIVATE_NOISE:
            check("epsilon", self.epsilon, lambda v: v is not None, f"a number with count_noise={self.count_noise!r}")
        if self.count_noise != "none":
            check("count_noise", self.count_noise, lambda v: self.labeller in ("CoPL", "true"),
                  "none with a labeller whose clients upload no counts")  # fmt: skip
            check("count_noise", self.count_noise, lambda v: self.allocation != "none",
                  "none with allocation='none', which does not use the counts")  # fmt: skip

    def _check_trainers(self) -> None:
        for name in ("prox_mu", "cache_weight", "cache_sharpness", "ot_threshold"):
            check(name, getattr(self, name), lambda v: 0 <= v < math.inf, "a number, 0 or more")
        check("ot_epsilon", self.ot_epsilon, lambda v: 0.006 <= v < math.inf, "a regularisation of 0.006 or more")
        check("ot_mass", self.ot_mass, lambda v: 0 < v <= 1, "a share of the mass in (0, 1]")


PRIVATE_NOISE = ("laplace", "gaussian")
"""Kinds of count noise that have a privacy budget ε."""
