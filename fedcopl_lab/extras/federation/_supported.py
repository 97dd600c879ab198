"""Which configurations can run where clients keep their images: those that never look at two clients at once."""

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig, RunConfig

PRIVATE = ("none", "laplace", "gaussian")


def check_federable(config: RunConfig) -> None:
    """Refuse what a federation of separate machines cannot do.

    Raises:
        FedCoPLError: names the setting, and a value that can.
    """
    wanted: dict[str, tuple[object, ...]] = {"momentum_state": ("reset", "per_client")}
    if isinstance(config, PromptConfig):
        if config.method == "zero-shot":
            raise FedCoPLError("zero-shot CLIP sends nothing; run it with lab.run")
        wanted |= {
            "labeller": ("CoPL", "FPL", "UPL", "CPL"),
            "filter_scope": ("client",),
            "label_scope": ("client",),
            "count_noise": PRIVATE,
            "clients_per_forward": (1,),
        }
    else:
        wanted["momentum_state"] = ("reset",)
    for name, values in wanted.items():
        if getattr(config, name) not in values:
            raise FedCoPLError(
                f"{name}={getattr(config, name)!r} needs several clients in one place; "
                f"a federation of separate machines takes {' or '.join(map(repr, values))}"
            )
