"""From a configuration to the method that runs it, and what every method with rounds can do."""

from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig
from fedcopl_lab.data import Federation
from fedcopl_lab.methods._prompting import PromptMethod
from fedcopl_lab.methods._semi import SemiMethod
from fedcopl_lab.methods._semi_setting import SemiSetting
from fedcopl_lab.methods._setting import Setting
from fedcopl_lab.methods._zero_shot import ZeroShot


@runtime_checkable
class State(Protocol):
    """What a method knows between two rounds."""

    @property
    def round(self) -> int:
        """Rounds that lie behind."""

    def to_tensors(self) -> dict[str, Tensor]:
        """The state as named tensors, for a safetensors file."""


@runtime_checkable
class Method(Protocol):
    """A method that works in rounds; an engine needs nothing else of it."""

    @property
    def config(self) -> RunConfig:
        """The run."""

    @property
    def federation(self) -> Federation:
        """Which client holds which images."""

    def initial_state(self) -> State:
        """Before the first round."""

    def restored_state(self, tensors: dict[str, Tensor]) -> State:
        """The state that ``to_tensors`` wrote."""

    def step(self, state: Any) -> tuple[State, dict[str, Any]]:
        """One communication round: the next state, and the row that reports it."""


def open_method(config: RunConfig, split: dict[str, Any] | None = None) -> Method | ZeroShot:
    """Load what a configuration names and give the method that runs it.

    Args:
        config: from :func:`fedcopl_lab.configure`.
        split: a stored split to take instead of drawing one.
    """
    if isinstance(config, PromptConfig):
        setting = Setting.of(config, split)
        return ZeroShot(setting) if config.method == "zero-shot" else PromptMethod(setting)
    if isinstance(config, SageConfig):
        return SemiMethod(SemiSetting.of(config, split))
    raise FedCoPLError(f"no method runs a {type(config).__name__}; build it with lab.configure(...)")
