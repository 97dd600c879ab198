"""The settings that ``configure`` takes, by flat name: what editors complete and type checkers know.

They repeat the fields of the configurations, where each is explained; a test holds both equal.
"""

from typing import Literal, TypedDict

from fedcopl_lab.config._prompt_config import CountNoise, Labeller, TestSplit

Mode = Literal["paper", "authors", "native"]
Unread = Literal["refuse", "drop"]


class RunSettings(TypedDict, total=False):
    """Settings of every run; ``mode`` and ``unread`` say how ``configure`` fills them."""

    mode: Mode
    unread: Unread
    seed: int
    dataset: str
    n_clients: int
    participation: float
    rounds: int
    local_epochs: int
    batch_size: int
    lr: float
    momentum: float
    weight_decay: float
    device: str
    threads: int


class PromptSettings(RunSettings, total=False):
    """Settings of :class:`PromptConfig`."""

    seed_scope: Literal["everything", "prompts"]
    clip: str
    scheme: Literal["dirichlet", "quantity", "iid"]
    beta: float | None
    fraction: float | None
    class_order: Literal["drawn", "by_number"]
    partition_mode: Literal["paper", "authors"]
    test_split: TestSplit | None
    test_stride: int
    min_train: int
    min_test: int
    lr_schedule: Literal["phase", "run", "round", "constant"]
    warmup_epochs: int
    momentum_state: Literal["reset", "per_client", "shared"]
    n_text: int
    n_visual: int
    visual_depth: int | None
    modalities: Literal["text", "visual", "both"]
    aggregate: Literal["none", "text", "visual", "both"]
    weight_by: Literal["quota", "selected"]
    labeller: Labeller
    refresh_every: int
    relabel_with: Literal["aggregated", "local"]
    q_conf: float | None
    q_ent: float | None
    filter_scope: Literal["client", "global"]
    allocation: Literal["paper", "authors", "none"]
    unseen_class: Literal["zero", "authors_quota"]
    candidates: Literal["argmax", "any"]
    shots: int | None
    label_scope: Literal["client", "global"]
    overflow: Literal["none", "next_best"]
    upl_confident: float | None
    cpl_alpha: float | None
    cpl_beta: float | None
    cpl_gamma: float
    candidate_scope: Literal["client", "global"]
    count_noise: CountNoise
    epsilon: float | None
    prox_mu: float
    prox_gradient: bool
    cache_weight: float
    cache_votes: Literal["mean", "sum"]
    cache_sharpness: float
    ot_mass: float
    ot_epsilon: float
    ot_threshold: float
    ot_iterations: int
    clients_per_forward: int
    precision: Literal["fp32", "tf32", "bf16"]
    weights: Literal["pretrained", "random"]


class SageSettings(RunSettings, total=False):
    """Settings of :class:`SageConfig`; a baseline's own by flat name."""

    lr_at_end: float
    test_stride: int
    fedprox_mu: float
    flexmatch_mapping: Literal["convex", "linear"]
    flexmatch_warm_up: bool
    flexmatch_memory: Literal["client", "round"]
    fedmatch_threshold: float
    fedmatch_lambda_s: float
    fedmatch_lambda_i: float
    fedmatch_lambda_a: float
    fedmatch_lambda_l2: float
    fedmatch_lambda_l1: float
    fedmatch_helpers: int
    fedmatch_lookup_every: int | None
    fedmatch_psi_share: float
    fedmatch_zero: float
    fedmatch_unsent: float
    fedlabel_burn_in: int | None
    fedlabel_choice: Literal["variance", "entropy"]
    fedlabel_threshold: float
    fedlabel_lambda_u: float
    fedlabel_lambda_c: float
    fedlabel_pull: float
    fedloke_mu: float
    fedloke_entropy: float
    fedloke_ramp: int | None
    feddure_threshold: float | None
    feddure_coarse: bool
    feddure_feedback: Literal["rise", "fall"]
    feddure_fine: bool
    feddure_mean: Literal["images", "weights"]
    feddb_labels: Literal["batch", "round"]
    feddb_weights: Literal["exact", "authors"]
    feddb_momentum: float
    image_size: int | None
    scheme: Literal["pairwise_balanced", "dirichlet", "iid"]
    partition_mode: Literal["paper", "authors"]
    alpha: float | None
    label_fraction: float
    labelled_per_class: int | None
    labelled_in_pool: bool
    flip: bool
    cutout: Literal["17_inclusive", "16"]
    norm: Literal["matched", "authors"]
    width: float
    start: Literal["drawn", "resnet8-cifar100"]
    bn: Literal["average", "local", "recalibrate"]
    bn_momentum: float
    unlabelled_batch_size: int
    epoch_rule: Literal["authors", "one_pass"]
    supervised_schedule: Literal["matched_iterations", "labelled_epochs"]
    steps_per_epoch: int | None
    momentum_state: Literal["reset", "carry"]
    weight_by: Literal["images", "authors", "uniform"]
    threshold: float
    kappa: float
    fixed_weight: float | None
    use_cpg: bool
    use_cdsc: bool
    target: Literal["hard", "soft"]
    pl_bn: Literal["joint", "eval"]
    kl: Literal["forward", "reverse"]
    lambda_u: float
    n_probe: int
    log_both: bool
    clients_per_forward: int
    channels_last: bool
    precision: Literal["fp32", "tf32", "bf16"]
    compile: bool
