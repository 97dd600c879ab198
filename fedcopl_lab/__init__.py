"""fedcopl_lab: open up FedCoPL and SAGE step by step, and get every table and figure back.

>>> import fedcopl_lab as lab
>>> lab.configure("smoke")
PromptConfig(smoke: FedCoPL+CoPL digits β=0.1 seed=0)
"""

from typing import TYPE_CHECKING

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._lazy import lazy_names
from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig, configure

_NAMES = {
    ".steps": "Allocation CorrectedLabels Evaluation FilteredSet LocalUpdate Predictions PromptState PseudoLabels "
    "aggregate allocate correct_pseudo_labels cosine_distance drift_diversity evaluate filter_confident select_top "
    "train_round zero_shot",
    ".data": "Dataset Federation Shard dirichlet_partition iid_partition load_dataset partition quantity_partition",
    ".models": "CLIPBundle PromptedCLIP ResNet8 draw_resnet8 load_clip",
    ".engine": "round run sweep",
    ".extras.embedded": "train_embedded",
    ".extras.exercises": "exercises",
    ".extras.packs": "export_features load_features",
    ".store": "Run Store runs",
    "._tour": "tour",
}
_PACKAGES = "config data engine extras methods models paper report seeding steps store widgets"
_NAMES |= {f".{name}": " ".join([name, _NAMES.get(f".{name}", "")]) for name in _PACKAGES.split()}

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from fedcopl_lab import config, data, engine, extras, methods, models, paper, report, seeding, steps, store, widgets
    from fedcopl_lab._tour import tour
    from fedcopl_lab.data import (
        Dataset,
        Federation,
        Shard,
        dirichlet_partition,
        iid_partition,
        load_dataset,
        partition,
        quantity_partition,
    )
    from fedcopl_lab.engine import round, run, sweep
    from fedcopl_lab.extras import exercises
    from fedcopl_lab.extras.embedded.train import train_embedded
    from fedcopl_lab.extras.packs import export_features, load_features
    from fedcopl_lab.models import CLIPBundle, PromptedCLIP, ResNet8, draw_resnet8, load_clip
    from fedcopl_lab.steps import (
        Allocation,
        CorrectedLabels,
        Evaluation,
        FilteredSet,
        LocalUpdate,
        Predictions,
        PromptState,
        PseudoLabels,
        aggregate,
        allocate,
        correct_pseudo_labels,
        cosine_distance,
        drift_diversity,
        evaluate,
        filter_confident,
        select_top,
        train_round,
        zero_shot,
    )
    from fedcopl_lab.store import Run, Store, runs

__version__ = "0.1.0"
__getattr__, _dir = lazy_names(__name__, _NAMES)
__all__ = ["FedCoPLError", "PromptConfig", "RunConfig", "SageConfig", "configure", *_dir()]


def __dir__() -> list[str]:
    return sorted({*globals(), *_dir()})
