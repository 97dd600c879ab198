"""SAGE's half: the settings of federated semi-supervised learning, one dataclass for each baseline's own."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from fedcopl_lab.config._run_config import MethodSettings, Rules, RunConfig

SageMethodName = Literal[
    "FedAvg", "FedProx", "FedAvg-SL", "FixMatch-LPL", "FixMatch-GPL", "FedProx+FixMatch", "FedAvg+FlexMatch",
    "FedMatch", "FedLabel", "FedLoKe", "FedDure", "FedDB", "SAGE",
]  # fmt: skip
SAGE_METHODS: tuple[SageMethodName, ...] = get_args(SageMethodName)
"""SAGE and the methods it is compared with, in the order of its tables."""

KAPPA_STAR = math.log(2) / 0.05
"""[kappa*] the rate at which a confidence discrepancy of 0.05 halves the local label's weight."""

STEM_CHANNELS = 16
"""Channels of the first convolution at width 1."""

TOGETHER: Mapping[str, Any] = {
    "bn": "average", "pl_bn": "joint", "momentum_state": "reset", "supervised_schedule": "matched_iterations",
}  # fmt: skip
"""What several clients in one pass need: no state of their own, and batches of one size."""

LAST_ROUNDS = 5
"""Rounds at the end of a run whose mean accuracy stands beside the last one's, with each test image's result."""

_LATER = {"clients_per_forward": 1, "feddure_mean": "weights", "start": "drawn", "lr_at_end": 1.0, "test_stride": 1}


@dataclass(frozen=True)
class FedProx(MethodSettings):
    """FedProx and FedProx+FixMatch."""

    mu: float = 0.001  # (mu/2) * squared distance to the round's start


@dataclass(frozen=True)
class FlexMatch(MethodSettings):
    """FedAvg+FlexMatch."""

    mapping: Literal["convex", "linear"] = "convex"  # share of a class -> share of tau
    warm_up: bool = True  # images never selected count as a class of their own
    memory: Literal["client", "round"] = "client"  # "round": every round starts with nothing learned


@dataclass(frozen=True)
class FedMatch(MethodSettings):
    """FedMatch."""

    threshold: float = 0.75  # [tau]
    lambda_s: float = 10.0  # supervised loss; also divides the learning rate
    lambda_i: float = 1e-2  # agreement with the helpers
    lambda_a: float = 1e-2  # vote as the strong view's label
    lambda_l2: float = 10.0  # squared distance of sigma and psi
    lambda_l1: float = 1e-4  # size of psi
    helpers: int = 2  # [H]
    lookup_every: int | None = None  # rounds between look-ups of helpers; None: a 20th (10 of 200)
    psi_share: float = 0.2  # psi starts as this share of sigma
    zero: float = 5e-6  # smaller entries of psi become 0
    unsent: float = 5e-5  # smaller changes of psi are not sent


@dataclass(frozen=True)
class FedLabel(MethodSettings):
    """FedLabel."""

    burn_in: int | None = None  # rounds without pseudo-labels; None: a 6th (50 of 300)
    choice: Literal["variance", "entropy"] = "variance"  # which model's label counts
    threshold: float = 0.3  # least confidence of a label
    lambda_u: float = 1.0  # cross-entropy of pseudo-labels
    lambda_c: float = 0.05  # agreement of the two copies
    pull: float = 10.0  # mean squared distance to the round's start, by tensor


@dataclass(frozen=True)
class FedLoKe(MethodSettings):
    """FedLoKe."""

    mu: float = 0.9  # share of its own model that a client keeps at the start of a round
    entropy: float = 0.1  # [delta] most entropy of a prediction that teaches, nats
    ramp: int | None = None  # rounds until both teach fully; None: two fifths (200 of 500)


@dataclass(frozen=True)
class FedDure(MethodSettings):
    """FedDure."""

    threshold: float | None = None  # None: SageConfig.threshold; public code 0.6
    coarse: bool = True  # feedback of the coarse regulator
    feedback: Literal["rise", "fall"] = "rise"  # of the labelled loss; "rise": public code
    fine: bool = True  # trained weights of single images; public code never trains them
    mean: Literal["images", "weights"] = "weights"  # of the weighted losses: "weights" gives one accepted image all


@dataclass(frozen=True)
class FedDB(MethodSettings):
    """FedDB."""

    labels: Literal["batch", "round"] = "batch"  # the model in training labels, or the round's start
    weights: Literal["exact", "authors"] = "exact"  # solve for b, or the public code's 100 steps
    momentum: float = 0.5  # of the server's step


@dataclass(frozen=True, kw_only=True, repr=False)
class SageConfig(RunConfig):
    """Everything that decides the numbers of one federated semi-supervised run (SAGE Sec. 4-5, supplement A).

    ``batch_size`` counts the labelled images of a step. The comments name what paper and released code say where
    they differ. Baselines' own settings are nested, with the defaults of their public code where there is one;
    numbers of rounds that are None follow the run's length in the public code's proportion. A setting that the
    method does not read must keep its default (``READERS``).

    >>> config = configure("smoke", method="FedMatch", alpha=0.5, fedmatch_helpers=3)
    >>> config.n_clients, config.unlabelled_batch_size, config.fedmatch.helpers
    (10, 24, 3)
    """

    method: SageMethodName | str  # or a registered name
    fedprox: FedProx = FedProx()
    flexmatch: FlexMatch = FlexMatch()
    fedmatch: FedMatch = FedMatch()
    fedlabel: FedLabel = FedLabel()
    fedloke: FedLoKe = FedLoKe()
    feddure: FedDure = FedDure()
    feddb: FedDB = FedDB()
    weight_decay: float = 1e-4
    lr_at_end: float = 1.0  # share of lr that the last fifth of the rounds have
    test_stride: int = 1  # rounds before the last five test each such image; those test all
    # data and federation
    image_size: int | None = None  # None: the data set's own
    scheme: Literal["pairwise_balanced", "dirichlet", "iid"] = "pairwise_balanced"  # code; the paper's text: dirichlet
    partition_mode: Literal["paper", "authors"] = "paper"  # "authors" replays the released code's streams
    alpha: float | None = 0.1  # Dirichlet concentration; None with scheme="iid"
    label_fraction: float = 0.1  # labelled share of every class
    labelled_per_class: int | None = None  # labelled images of every class instead of a share
    labelled_in_pool: bool = True  # the labelled images join the unlabelled pool, without their labels
    # views of an image
    flip: bool = True  # the code flips digits too
    cutout: Literal["17_inclusive", "16"] = "17_inclusive"  # the code draws a closed rectangle, one pixel larger
    norm: Literal["matched", "authors"] = "matched"  # "authors": CIFAR-10's constants in training, others in tests
    # model
    width: float = 4.0  # of ResNet-8: 16 * width channels in the stem
    start: Literal["drawn", "resnet8-cifar100"] = "drawn"  # or trained weights of width 2; the head is always drawn
    bn: Literal["average", "local", "recalibrate"] = "average"  # running statistics; "local": p_g uses a client's own
    bn_momentum: float = 0.1  # weight of a step in the running statistics
    # local training
    unlabelled_batch_size: int  # [mu * B]
    epoch_rule: Literal["authors", "one_pass"] = "authors"  # steps: pool over the labelled, or the unlabelled batch
    supervised_schedule: Literal["matched_iterations", "labelled_epochs"] = "matched_iterations"  # methods without pool
    steps_per_epoch: int | None = None  # at most so many of a pass over the pool; None: what epoch_rule says
    momentum_state: Literal["reset", "carry"] = "reset"  # "carry": one optimiser for all clients and rounds (code)
    weight_by: Literal["images", "authors", "uniform"] = "images"  # "authors": labelled images count 2000 times
    # (FedDB solves for weights instead; FedLabel weighs its second copies by their pseudo-labels)
    # pseudo-labels
    threshold: float = 0.95  # [tau]
    kappa: float = KAPPA_STAR  # [kappa]
    fixed_weight: float | None = None  # takes the place of lambda(u)
    use_cpg: bool = True  # False: no label where only the global model is confident
    use_cdsc: bool = True  # False: the local label stands uncorrected
    target: Literal["hard", "soft"] = "hard"  # "soft": the same model's probabilities instead of its argmax
    pl_bn: Literal["joint", "eval"] = "joint"  # BN statistics behind the local pseudo-label
    kl: Literal["forward", "reverse"] = "forward"  # Alg. 1 prints "reverse"
    lambda_u: float = 1.0  # weight of the unsupervised loss
    n_probe: int = 512  # images of the test set and of each pool on which the log compares models
    log_both: bool = True  # score weak views with the global model too, where only the log needs it
    # machine
    clients_per_forward: int = 1  # clients that train in one pass: changes rounding, pays for small and narrow models
    channels_last: bool = True
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"  # of training passes and the local labels that they give;
    # scores by the global model or with running statistics, losses and tests stay fp32. Authors: tf32
    compile: bool = False  # models; on a card they become CUDA graphs, which start without the processor

    def as_dict(self) -> dict[str, Any]:
        """See :meth:`RunConfig.as_dict`; later settings are left out where they say what was done before them."""
        return {name: value for name, value in super().as_dict().items() if _LATER.get(name, ...) != value}

    @property
    def label(self) -> str:
        """A short name for progress bars and lists, such as ``SAGE digits α=0.1 10% seed=2``."""
        skew = "iid" if self.scheme == "iid" else f"α={self.alpha}"
        per_class = self.labelled_per_class
        share = f"{self.label_fraction:.0%}" if per_class is None else f"{per_class}/class"
        soft = "" if self.target == "hard" else " soft"
        return f"{self.method}{soft} {self.dataset} {skew} {share} seed={self.seed}"

    @property
    def channels(self) -> int:
        """Channels of the first convolution."""
        return int(STEM_CHANNELS * self.width)

    def lr_of(self, round_index: int) -> float:
        """The learning rate of the round after so many.

        >>> [configure("smoke", method="SAGE", lr_at_end=0.1).lr_of(completed) for completed in (39, 40)]
        [0.045, 0.0045]
        """
        return self.lr * (self.lr_at_end if 5 * round_index >= 4 * self.rounds else 1.0)

    @property
    def in_graphs(self) -> bool:
        """Whether models run as CUDA graphs, whose results the next replay overwrites."""
        return self.compile and self.device.startswith("cuda")

    @property
    def lookup_period(self) -> int:
        """Rounds between FedMatch's look-ups of helpers."""
        every = self.fedmatch.lookup_every
        return max(self.rounds // 20, 1) if every is None else every

    @property
    def burn_in_rounds(self) -> int:
        """Rounds in which FedLabel trains on labels alone."""
        return self.rounds // 6 if self.fedlabel.burn_in is None else self.fedlabel.burn_in

    @property
    def ramp_rounds(self) -> int:
        """Rounds until FedLoKe's models teach each other with full weight."""
        return max(2 * self.rounds // 5, 1) if self.fedloke.ramp is None else self.fedloke.ramp

    def _rules(self) -> Rules:
        yield from super()._rules()
        yield "rounds", self.rounds > 0, "a whole number, 1 or more"
        right = isinstance(self.width, float) and self.width > 0 and (self.width * STEM_CHANNELS).is_integer()
        yield "width", right, f"a multiple of 1/{STEM_CHANNELS} above 0, such as 4"
        for name, needed in TOGETHER.items():
            alone = self.clients_per_forward == 1 or getattr(self, name) == needed
            yield "clients_per_forward", alone, f"1 with another {name} than {needed!r}"
