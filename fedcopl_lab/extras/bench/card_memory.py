"""What a run of the papers' sizes takes of a card's memory, computed from its shapes; nothing is measured."""

from dataclasses import dataclass, replace
from itertools import product

from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig, configure
from fedcopl_lab.extras.bench.flops import PoolShape, Shape
from fedcopl_lab.extras.bench.plan import Sizes, data_sizes, shape_of
from fedcopl_lab.methods import IMAGES_PER_FORWARD, VIEWS_AT_ONCE
from fedcopl_lab.paper import PAPER_SETS

USABLE = 0.9
"""Share of a card that a run may take: the rest is for the driver and for gaps between tensors."""

_FLOAT = 4  # bytes
_EMBED = 512  # width of the space that images and texts share; 1024 for RN50 alone
_CONTEXT = 0.7e9  # CUDA itself and its libraries
_WEIGHTS = {"ViT-B-32": 0.9e9, "ViT-B-16": 0.9e9, "RN50": 0.6e9}  # with the copies that the fast form keeps
_KEPT_PER_TOKEN = 13  # widths that a frozen layer keeps for its backward pass: sums, Q, K, V, mixed, and an MLP of four
_RESNET8_IMAGE = 2.75e6  # bytes that a training step of SAGE keeps per image of 32 x 32 at width 4


@dataclass(frozen=True)
class CardPlan:
    """What one run takes of a card."""

    gigabytes: float  # at most, on the card
    clients_per_forward: int  # the most clients that share a forward pass there
    in_memory: float  # gigabytes of image tokens that wait in the machine's pinned memory instead
    fits: bool

    def __repr__(self) -> str:
        return f"CardPlan({self.gigabytes:.1f} GB, {self.says})"

    @property
    def says(self) -> str:
        """What to do, in words.

        >>> CardPlan(10.0, 5, 0.0, True).says
        'fits, clients_per_forward=5'
        """
        if not self.fits:
            return "too large: choose a smaller batch_size"
        where = f", {self.in_memory:.0f} GB of tokens in pinned memory" if self.in_memory else ""
        together = f", clients_per_forward={self.clients_per_forward}" if self.clients_per_forward > 1 else ""
        return f"fits{together}{where}"


def plan_card(config: RunConfig, gigabytes: int | float, sizes: Sizes | None = None) -> CardPlan:
    """What a run takes of a card of so many gigabytes, with as many clients in a forward pass as fit.

    Tokens of more than half the card wait in pinned memory, as :class:`PromptSetting` keeps them.

    Args:
        config: the run.
        gigabytes: memory of the card.
        sizes: training images, test images, classes and side of an image; None takes those of the data set.

    Raises:
        FedCoPLError: a data set or a model whose sizes are not known here.

    >>> plan_card(lab.configure("paper", dataset="dtd"), 24).fits
    True
    """
    if isinstance(config, SageConfig):
        return _plan_sage(config, gigabytes, sizes or data_sizes(config.dataset, config.image_size))
    assert isinstance(config, PromptConfig)
    sizes, shape = sizes or data_sizes(config.dataset), shape_of(config)
    tokens = (sizes[0] + sizes[1]) * shape.image_tokens * shape.image_width * _FLOAT
    in_memory = tokens > gigabytes * 1e9 / 2
    fixed = _CONTEXT + _WEIGHTS.get(config.clip, 0.0) + (0 if in_memory else tokens) + _features(config, shape, sizes)
    fixed += IMAGES_PER_FORWARD * _forward(shape)
    client = config.batch_size * _kept(shape) + _texts(config, shape, sizes[2])
    most = 1 if config.momentum_state == "shared" else config.n_clients
    counts = [n for n in range(1, most + 1) if most % n == 0]  # equal groups
    fitting = [n for n in counts if fixed + n * client <= USABLE * gigabytes * 1e9]
    together = max(fitting, default=1)
    return CardPlan((fixed + together * client) / 1e9, together, tokens / 1e9 if in_memory else 0.0, bool(fitting))


def on_card(config: RunConfig, gigabytes: int | float) -> RunConfig:
    """The run with as many clients in a forward pass as a card of so many gigabytes holds; SAGE's stay as they are.

    >>> on_card(lab.configure("paper", dataset="dtd"), 80).clients_per_forward
    10
    """
    if not isinstance(config, PromptConfig):
        return config
    return replace(config, clients_per_forward=plan_card(config, gigabytes).clients_per_forward)


def cards_markdown() -> str:
    """FedCoPL's runs of the papers' sizes on cards of 24 and 80 GB, and a run of SAGE.

    >>> cards_markdown().splitlines()[2]
    '| ViT-B-32 | dtd | 20.8 GB, 10 clients together | 20.8 GB, 10 clients together |'
    """
    lines = ["| model | data set | card of 24 GB | card of 80 GB |", "|---|---|---|---|"]
    for model, name in [*product(_WEIGHTS, (*PAPER_SETS.values(),)), ("ResNet-8", "SAGE")]:
        if name == "SAGE":
            config: RunConfig = configure("paper", method="SAGE")
        else:
            config = configure("paper", clip=model, dataset=name)
        cells = [_said(plan_card(config, gigabytes)) for gigabytes in (24, 80)]
        lines.append(f"| {model} | {config.dataset} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _said(plan: CardPlan) -> str:
    together = f", {plan.clients_per_forward} clients together" if plan.clients_per_forward > 1 else ""
    where = f", {plan.in_memory:.0f} GB of tokens in the machine's memory" if plan.in_memory else ""
    return f"{plan.gigabytes:.1f} GB{together}{where}"


def _kept(shape: Shape) -> int | float:
    """Bytes per image that a training step keeps, and one layer at work."""
    widths = 8 if isinstance(shape, PoolShape) else _KEPT_PER_TOKEN * shape.image_layers + 10
    return widths * shape.image_tokens * shape.image_width * _FLOAT


def _forward(shape: Shape) -> int | float:
    """Bytes per image of a forward pass without gradients; a ResNet's first maps are the largest."""
    largest = 6 * 64 * 112 * 112 if isinstance(shape, PoolShape) else 12 * shape.image_tokens * shape.image_width
    return largest * _FLOAT


def _texts(config: PromptConfig, shape: Shape, n_classes: int) -> int | float:
    own = n_classes * (6 + shape.n_visual)  # name, period, end token; the context's keys count beside them
    contexts = 2 if config.method == "FedOTP" else 1
    return contexts * (_KEPT_PER_TOKEN * shape.text_layers + 10) * own * shape.text_width * _FLOAT


def _features(config: PromptConfig, shape: Shape, sizes: Sizes) -> int | float:
    """Features of the test images, which all clients share; FedOTP's are of patches, each compared with all texts."""
    if config.method != "FedOTP":
        return sizes[1] * _EMBED * _FLOAT
    patches = shape.image_tokens - 1
    plans = 8 * IMAGES_PER_FORWARD * sizes[2] * patches * 2
    return (sizes[1] * patches * _EMBED + plans) * _FLOAT


def _plan_sage(config: SageConfig, gigabytes: int | float, sizes: Sizes) -> CardPlan:
    side = sizes[3]
    images = config.batch_size + 2 * config.unlabelled_batch_size
    kept = _RESNET8_IMAGE * (config.width / 4) * (side / 32) ** 2 * (0.5 if config.precision == "bf16" else 1.0)
    models = 3 if config.method in ("FedMatch", "FedDure", "FedLabel", "FedLoKe") else 1
    views = 3 * VIEWS_AT_ONCE * 3 * side * side * _FLOAT * 3
    total = _CONTEXT + (sizes[0] + sizes[1]) * 3 * side * side + models * images * kept + views
    return CardPlan(total / 1e9, 1, 0.0, total <= USABLE * gigabytes * 1e9)
