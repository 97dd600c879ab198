"""Settings of the methods that SAGE is compared with, and their ranges."""

import math
from dataclasses import dataclass
from typing import Literal

from fedcopl_lab.config._checks import check, check_counts
from fedcopl_lab.config._run import RunConfig

_FEDMATCH_WEIGHTS = ("fedmatch_lambda_i", "fedmatch_lambda_a", "fedmatch_lambda_l2", "fedmatch_lambda_l1")
_CUTOFFS = ("fedmatch_zero", "fedmatch_unsent")
_FEDLABEL_WEIGHTS = ("fedlabel_lambda_u", "fedlabel_lambda_c", "fedlabel_pull")
_SHARES = ("fedmatch_threshold", "fedlabel_threshold")


@dataclass(frozen=True, kw_only=True)
class BaselineConfig(RunConfig):
    """Settings of single baselines, by the method's name; defaults are their public code's where it has one.

    Numbers of rounds that are None follow the run's length, in the proportion of the public code.

    >>> configure("smoke", method="FedLabel").burn_in_rounds
    2
    """

    # FedProx
    mu_prox: float = 0.001  # (mu/2) * squared distance to the round's start
    # FedAvg+FlexMatch
    flexmatch_mapping: Literal["convex", "linear"] = "convex"  # share of a class -> share of tau
    flexmatch_warm_up: bool = True  # images never selected count as a class of their own
    flexmatch_memory: Literal["client", "round"] = "client"  # "round": every round starts with nothing learned
    # FedMatch
    fedmatch_threshold: float = 0.75  # [tau]
    fedmatch_lambda_s: float = 10.0  # supervised loss; also divides the learning rate
    fedmatch_lambda_i: float = 1e-2  # agreement with the helpers
    fedmatch_lambda_a: float = 1e-2  # vote as the strong view's label
    fedmatch_lambda_l2: float = 10.0  # squared distance of sigma and psi
    fedmatch_lambda_l1: float = 1e-4  # size of psi
    fedmatch_helpers: int = 2  # [H]
    fedmatch_lookup_every: int | None = None  # rounds between look-ups of helpers; None: a 20th (10 of 200)
    fedmatch_psi_share: float = 0.2  # psi starts as this share of sigma
    fedmatch_zero: float = 5e-6  # smaller entries of psi become 0
    fedmatch_unsent: float = 5e-5  # smaller changes of psi are not sent
    # FedLabel
    fedlabel_burn_in: int | None = None  # rounds without pseudo-labels; None: a 6th (50 of 300)
    fedlabel_choice: Literal["variance", "entropy"] = "variance"  # which model's label counts
    fedlabel_threshold: float = 0.3  # least confidence of a label
    fedlabel_lambda_u: float = 1.0  # cross-entropy of pseudo-labels
    fedlabel_lambda_c: float = 0.05  # agreement of the two copies
    fedlabel_pull: float = 10.0  # mean squared distance to the round's start, by tensor
    # FedLoKe
    fedloke_mu: float = 0.9  # share of its own model that a client keeps at the start of a round
    fedloke_entropy: float = 0.1  # [delta] most entropy of a prediction that teaches, nats
    fedloke_ramp: int | None = None  # rounds until both teach fully; None: two fifths (200 of 500)
    # FedDure
    feddure_threshold: float | None = None  # None: threshold; public code 0.6
    feddure_coarse: bool = True  # feedback of the coarse regulator
    feddure_feedback: Literal["rise", "fall"] = "rise"  # of the labelled loss; "rise": public code
    feddure_fine: bool = True  # trained weights of single images; public code never trains them
    # FedDB
    feddb_labels: Literal["batch", "round"] = "batch"  # the model in training labels, or the round's start
    feddb_weights: Literal["exact", "authors"] = "exact"  # solve for b, or the public code's 100 steps
    feddb_momentum: float = 0.5  # of the server's step

    @property
    def lookup_period(self) -> int:
        """Rounds between FedMatch's look-ups of helpers."""
        every = self.fedmatch_lookup_every
        return max(self.rounds // 20, 1) if every is None else every

    @property
    def burn_in_rounds(self) -> int:
        """Rounds in which FedLabel trains on labels alone."""
        return self.rounds // 6 if self.fedlabel_burn_in is None else self.fedlabel_burn_in

    @property
    def ramp_rounds(self) -> int:
        """Rounds until FedLoKe's models teach each other with full weight."""
        return max(2 * self.rounds // 5, 1) if self.fedloke_ramp is None else self.fedloke_ramp

    def _check_ranges(self) -> None:
        super()._check_ranges()
        for name in ("mu_prox", *_FEDMATCH_WEIGHTS, *_CUTOFFS, *_FEDLABEL_WEIGHTS, "fedloke_entropy"):
            check(name, getattr(self, name), lambda v: 0 <= v < math.inf, "0 or more")
        check("fedmatch_lambda_s", self.fedmatch_lambda_s, lambda v: 0 < v < math.inf, "above 0")
        for name in (*_SHARES, "fedloke_mu"):
            check(name, getattr(self, name), lambda v: 0 <= v <= 1, "in [0, 1]")
        check("feddure_threshold", self.feddure_threshold, lambda v: v is None or 0 <= v <= 1, "in [0, 1]")
        for name in ("fedmatch_psi_share", "feddb_momentum"):
            check(name, getattr(self, name), lambda v: 0 <= v < 1, "in [0, 1)")
        check_counts(self, ("fedmatch_helpers",), least=0)
        for name, least in (("fedmatch_lookup_every", 1), ("fedlabel_burn_in", 0), ("fedloke_ramp", 1)):
            if getattr(self, name) is not None:
                check_counts(self, (name,), least=least)
