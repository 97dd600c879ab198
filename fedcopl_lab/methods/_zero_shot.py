"""The row of every table that trains nothing: CLIP with the data set's template."""

from typing import Any

from jaxtyping import Int
from torch import Tensor

from fedcopl_lab.data import Federation
from fedcopl_lab.methods._reporting import evaluation_report
from fedcopl_lab.methods._setting import Setting
from fedcopl_lab.steps import evaluate


class ZeroShot:
    """Zero-shot CLIP (Sec. 3.1): one model for everybody, no rounds.

    Args:
        setting: data, federation and model of the run.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @property
    def federation(self) -> Federation:
        """Which client holds which images."""
        return self.setting.federation

    def report(self) -> dict[str, Any]:
        """The one row of the run: round 0."""
        shards, labels = self.setting.federation.shards, self.setting.dataset.labels
        return {"round": 0} | evaluation_report(evaluate(self.predict, shards, labels))

    def predict(self, client: int, indices: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
        """The template's classes for images of the data set, the same for every client, [n]."""
        return self.setting.zero_shot_logits[indices].argmax(dim=1)
