"""Feature packs: CLIP's features of a data set in two checked files, so that the label phase can be replayed anywhere.

One who has the weights writes a pack once (``fedcopl-lab features export``); everybody else replays FPL, CPL and CoPL
at the model's true confidences, under any label skew, on a CPU. Nothing is trained from a pack.
"""

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedcopl_lab._card import tf32_in
from fedcopl_lab._errors import FedCoPLError, StoreError
from fedcopl_lab._files import read_json, read_tensors, tensor_bytes, to_json, write_atomic
from fedcopl_lab.config import PromptConfig, configure
from fedcopl_lab.data import fedcopl_shards, load_dataset, read_manifest_table
from fedcopl_lab.engine import check_device, environment
from fedcopl_lab.methods import LabelPhase, StoredFeatures, count_right, make_labels, stream_seed
from fedcopl_lab.models import load_clip
from fedcopl_lab.steps import template_features

if TYPE_CHECKING:
    from fedcopl_lab.widgets import Scores

FORMAT = 1
TENSORS, ABOUT = "features.safetensors", "pack.json"
_IMAGES_PER_FORWARD = 256
_WRITTEN = {
    "format": int, "dataset": str, "classes": list, "template": str, "clip": str, "weights_sha256": str,
    "data_sha256": str, "logit_scale": float | int, "features_sha256": str, "environment": dict,
}  # fmt: skip
_REMEDY = "copy the pack again, or write it with `fedcopl-lab features export`"


@dataclass(frozen=True, repr=False)
class FeaturePack(StoredFeatures):
    """Unit features of a whole data set by one frozen CLIP, with its scores, split and origin.

    Attributes:
        scores: the exporting machine's zero-shot logits, [n, C].
        train: positions of the training images.
        test: positions of the test images.
        about: what ``pack.json`` says: data set, classes, template, model, checksums, machine and packages.
    """

    scores: Float[Tensor, "n c"]
    train: Int[Tensor, "n_train"]
    test: Int[Tensor, "n_test"]
    about: Mapping[str, Any]

    @property
    def logits(self) -> Float[Tensor, "n c"]:
        """The zero-shot scores as they were exported, [n, C]."""
        return self.scores

    @property
    def accuracy(self) -> float:
        """Zero-shot accuracy on the test images."""
        return float((self.scores[self.test].argmax(dim=1) == self.labels[self.test]).double().mean())

    def configure(self, **settings: Any) -> PromptConfig:
        """The paper's configuration on this pack's data set and model, with your settings; see ``lab.configure``."""
        own = {"dataset": self.about["dataset"], "clip": self.about["clip"]}
        config: PromptConfig = configure("paper", method="FedCoPL", **own | settings)
        return config

    def clients(self, config: PromptConfig) -> list[Int[Tensor, "_"]]:
        """Positions of each client's training images, drawn as a run with this configuration draws them."""
        own = {name: self.about[name] for name in ("dataset", "clip")}
        other = {name: getattr(config, name, None) for name in own}
        if other != own:
            raise FedCoPLError(f"this pack has {own}, the configuration {other}; use configure() of the pack")
        shards, _ = fedcopl_shards((self.labels[self.train], self.labels[self.test]), **config.partition_settings)
        return [self.train[torch.tensor(shard.train)] for shard in shards]

    def _of_clients(self, config: PromptConfig) -> tuple[list[Tensor], list[Tensor]]:
        """Scores and true classes of each client's training images."""
        clients = self.clients(config)
        return [self.scores[own] for own in clients], [self.labels[own] for own in clients]

    def label_phase(self, config: PromptConfig | None = None) -> LabelPhase:
        """The first label phase of a run with this configuration: filters, counts, quotas, pseudo-labels (Sec. 3.3).

        >>> pack = lab.load_features(lab.export_features("digits", "tiny", "pack"))
        >>> phase = pack.label_phase(pack.configure(n_clients=5, beta=0.1))
        >>> tuple(phase.quota.shape)
        (5, 10)
        """
        config = config or self.configure()
        scores, true = self._of_clients(config)
        return make_labels(scores, config, n_train=len(self.train), phase=0, seed=stream_seed(config), true_labels=true)

    def table(
        self, labellers: Sequence[str] = ("FPL", "CPL", "CoPL"), seeds: Sequence[int] = (0, 1, 2), **settings: Any
    ) -> pd.DataFrame:
        """How many first labels are right, one line per labeller and seed; ``"argmax"`` is every image's best class.

        Args:
            labellers: names of labellers.
            seeds: of the partitions.
            settings: of :meth:`configure`, such as ``scheme="quantity"``, ``beta=0.05`` or ``q_conf=0.7``.
        """
        lines = []
        for seed in seeds:
            config = self.configure(seed=seed, **settings)
            lines += [{"seed": seed, **line} for line in count_right(*self._of_clients(config), config, labellers)]
        return pd.DataFrame(lines)

    def to_explore(self, config: PromptConfig | None = None) -> "Scores":
        """The clients' scores for an explorer: ``lab.widgets.explore_thresholds([pack.to_explore()])``."""
        from fedcopl_lab.widgets import Scores

        config = config or self.configure()
        scores, true = self._of_clients(config)
        name = f"{self.about['dataset']} ({self.about['clip']})"
        return Scores(name, tuple(scores), tuple(true), tuple(self.about["classes"]), config=config)

    def __repr__(self) -> str:
        of = f"{self.about['dataset']} by {self.about['clip']}"
        return f"FeaturePack({of}: {len(self.train)} train + {len(self.test)} test images, {len(self.texts)} classes)"


@torch.no_grad()
@tf32_in()
def export_features(dataset: str, clip: str, folder: Path | str, device: str = "cpu") -> Path:
    """Write a pack of a data set's features: ``features.safetensors`` and ``pack.json`` with its checksum.

    Args:
        dataset: a name that ``lab.load_dataset`` knows.
        clip: a name that ``lab.load_clip`` knows.
        folder: where to write; made if it is missing.
        device: where the images are encoded.

    Returns:
        The folder.

    Raises:
        FedCoPLError: data, weights or device that are not there, a folder that cannot be written.

    >>> lab.export_features("digits", "tiny", "pack").name
    'pack'

    Shown in notebook ``feature_packs``.
    """
    check_device(device)
    model = load_clip(clip, device=device)
    data = load_dataset(dataset, image_size=model.image_size)
    images = torch.cat([
        model.model.encode_image(model.to_input(part), normalize=True).float().cpu()
        for part in data.images.split(_IMAGES_PER_FORWARD)
    ])  # fmt: skip
    texts = template_features(model, data.class_names, data.template).float().cpu()
    scale = float(model.model.logit_scale.exp())
    content = tensor_bytes({
        "image_features": images,
        "text_features": texts,
        "logits": scale * images @ texts.T,
        "labels": data.labels.long(),
        "train": data.train_indices,
        "test": data.test_indices,
    })  # fmt: skip
    about = {
        "format": FORMAT,
        "dataset": dataset,
        "classes": list(data.class_names),
        "template": data.template,
        "clip": clip,
        "weights_sha256": str(read_manifest_table(clip)["sha256"]),
        "data_sha256": data.sha256,
        "logit_scale": scale,
        "features_sha256": hashlib.sha256(content).hexdigest(),
        "environment": environment(device, torch.get_num_threads()),
    }
    write_atomic(Path(folder) / TENSORS, content)
    write_atomic(Path(folder) / ABOUT, to_json(about))
    return Path(folder)


def load_features(folder: Path | str) -> FeaturePack:
    """Read a feature pack and check it: its checksum, its shapes, and that scores and features agree.

    Args:
        folder: what :func:`export_features` or ``fedcopl-lab features export`` wrote.

    Raises:
        FedCoPLError: a pack that is missing, damaged or does not fit together, with what is wrong.

    >>> lab.load_features(lab.export_features("digits", "tiny", "pack"))
    FeaturePack(digits by tiny: 1197 train + 600 test images, 10 classes)

    Shown in notebook ``feature_packs``.
    """
    folder = Path(folder)
    missing = [name for name in (TENSORS, ABOUT) if not (folder / name).is_file()]
    if missing:
        raise FedCoPLError(f"{folder} is no feature pack: {' and '.join(missing)} not found; {_REMEDY}")
    try:
        about, parts = read_json(folder / ABOUT), read_tensors(folder / TENSORS)
    except StoreError as error:
        raise FedCoPLError(f"{folder} is no feature pack: {str(error).split(';')[0]}; {_REMEDY}") from error
    _check_about(folder, about)
    found = hashlib.sha256((folder / TENSORS).read_bytes()).hexdigest()
    if found != about["features_sha256"]:
        raise FedCoPLError(
            f"{folder / TENSORS} has the sha256 {found[:12]}…, {ABOUT} says {about['features_sha256'][:12]}…; {_REMEDY}"
        )
    fault = _fault(parts, about)
    if fault:
        raise FedCoPLError(f"{folder / TENSORS}: {fault}; {_REMEDY}")
    features = parts["image_features"], parts["text_features"], parts["labels"]
    return FeaturePack(*features, parts["logits"], parts["train"], parts["test"], about)


def _check_about(folder: Path, about: Any) -> None:
    known = about if isinstance(about, dict) else {}
    unfit = [name for name, kind in _WRITTEN.items() if not isinstance(known.get(name), kind)]
    if unfit:
        raise FedCoPLError(f"{folder / ABOUT} has no valid {', '.join(unfit)}; {_REMEDY}")
    if known["format"] != FORMAT:
        raise FedCoPLError(f"{folder / ABOUT} has format {known['format']!r}; this version reads {FORMAT}; {_REMEDY}")


def _fault(parts: Mapping[str, Tensor], about: Mapping[str, Any]) -> str:
    """What is wrong with the tensors, in one sentence; empty when they fit together."""
    floats, whole = ("image_features", "text_features", "logits"), ("labels", "train", "test")
    for name in (*floats, *whole):
        wanted = (2, torch.float32) if name in floats else (1, torch.int64)
        if name not in parts:
            return f"it has no {name}"
        if (parts[name].ndim, parts[name].dtype) != wanted:
            return f"{name} has {parts[name].ndim} axes of {parts[name].dtype}, expected {wanted[0]} of {wanted[1]}"
    images, texts, logits = (parts[name] for name in floats)
    n, n_classes = len(images), len(about["classes"])
    shapes = {"text_features": (n_classes, images.shape[1]), "logits": (n, n_classes), "labels": (n,)}
    for name, shape in shapes.items():
        if tuple(parts[name].shape) != shape:
            return f"{name} is {tuple(parts[name].shape)}, expected {shape}"
    endless = [name for name in floats if not parts[name].isfinite().all()]
    if endless:
        return f"{endless[0]} holds numbers that are not finite"
    return _fault_of_split(parts, n_classes) or _fault_of_scores(images, texts, logits, about["logit_scale"])


def _fault_of_split(parts: Mapping[str, Tensor], n_classes: int) -> str:
    labels, n = parts["labels"], len(parts["labels"])
    for name, values, most in (("labels", labels, n_classes), *((name, parts[name], n) for name in ("train", "test"))):
        if not len(values) or int(values.min()) < 0 or int(values.max()) >= most:
            return f"{name} holds something else than 0 to {most - 1}"
    both = torch.cat([parts["train"], parts["test"]])
    if len(both.unique()) != len(both):
        return "an image is in the split twice"
    return ""


def _fault_of_scores(images: Tensor, texts: Tensor, logits: Tensor, scale: float) -> str:
    apart = float((scale * images @ texts.T - logits).abs().max())
    if apart <= 1e-3 * max(float(logits.abs().max()), 1.0):
        return ""
    return f"logits differ by {apart:.3g} from logit_scale times the cosines of its features"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The verbs of ``features`` and their options."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    export = verbs.add_parser("export", help="write a pack of a data set's CLIP features")
    export.add_argument("--dataset", default="digits")
    export.add_argument("--clip", default="tiny")
    export.add_argument("--device", default="cpu")
    export.add_argument("--out", required=True, metavar="FOLDER", help="where to write")
    export.set_defaults(command=lambda o: _show(export_features(o.dataset, o.clip, o.out, o.device)))
    show = verbs.add_parser("show", help="check a pack and say what it holds")
    show.add_argument("folder", metavar="FOLDER")
    show.set_defaults(command=lambda o: _show(o.folder))


def _show(folder: Path | str) -> int:
    pack = load_features(folder)
    print(pack)
    for name in ("template", "weights_sha256", "data_sha256", "features_sha256"):
        print(f"{name:>16}  {pack.about[name]}")
    print(f"{'written on':>16}  {pack.about['environment'].get('hardware', 'not said')}")
    print(f"{'zero-shot':>16}  {pack.accuracy:.1%} of the test images")
    return 0
