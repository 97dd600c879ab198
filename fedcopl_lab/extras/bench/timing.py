"""What ``bench step`` says of one cell: both forms' times, memory, agreement, and where our time goes."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class StepTiming:
    """One training step of both forms.

    Attributes:
        backbone: model, with random weights of a fixed seed.
        classes: number of classes C.
        dtype: of our form's matrix products; the plain form is always fp32.
        batch: images in the step.
        seconds_plain: median of the plain form.
        seconds: median of ours.
        speed_up: the first over the second.
        memory_plain: largest tensor bytes alive during the plain step.
        memory: the same of ours.
        memory_ratio: ours over plain.
        logit_difference: largest difference between the logits of both.
        gradient_difference: largest difference of a prompt's gradient, relative to its largest entry.
        minimal_gflop: what no exact form can avoid.
        gflop_per_second: that over our seconds.
        ceiling: the machine's own rate for matrix products of that type, GFLOP/s.
        share_of_ceiling: the one over the other.
        matmul: share of our time in matrix products.
        attention: in attention.
        norms: in normalisation and activation.
        copies: in copies and casts.
        other: in all else, such as sums and Python.
        device: hardware class.
        threads: CPU threads.
        repeats: timed steps of each form.
        clock: ``"cpu"``: seconds of this process, which other processes do not lengthen much; ``"wall"`` where
            several threads or a GPU work.
        load: the machine's load average when the cell began, 1 for one busy core.
    """

    backbone: str
    classes: int
    dtype: str
    batch: int
    seconds_plain: float
    seconds: float
    speed_up: float
    memory_plain: int
    memory: int
    memory_ratio: float
    logit_difference: float
    gradient_difference: float
    minimal_gflop: float
    gflop_per_second: float
    ceiling: float
    share_of_ceiling: float
    matmul: float
    attention: float
    norms: float
    copies: float
    other: float
    device: str
    threads: int
    repeats: int
    clock: str
    load: float

    def __repr__(self) -> str:
        return (
            f"StepTiming({self.backbone} {self.classes} classes {self.dtype}: {self.speed_up:.2f}x, "
            f"{self.share_of_ceiling:.0%} of the ceiling)"
        )

    @property
    def reason(self) -> str:
        """Where the rest of the ceiling goes, in one sentence."""
        shares = {
            "attention over few tokens": self.attention,
            "norms and activations": self.norms,
            "copies and casts": self.copies,
            "sums and starting operations": self.other,
        }
        lost = ", ".join(f"{share:.0%} {name}" for name, share in sorted(shares.items(), key=lambda part: -part[1]))
        products = self.matmul_rate / self.ceiling
        return (
            f"{self.matmul:.0%} of the time are the layers' matrix products; what must be computed runs at "
            f"{products:.0%} of the ceiling in them, and the rest moves more memory than it computes: {lost}"
        )

    @property
    def matmul_rate(self) -> float:
        """Unavoidable GFLOP over the seconds in matrix products and attention."""
        return self.gflop_per_second / (self.matmul + self.attention)

    def row(self) -> dict[str, Any]:
        """The fields by name, for a table."""
        return asdict(self)
