"""What is measured on a trained `mini`, and the card and manifest that say it."""

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import open_clip
import torch
from torch.nn import functional as F

from fedcopl_lab.data import Dataset, load_dataset, seen_positions, seen_sha256
from fedcopl_lab.extras.embedded.card import weights_manifest
from fedcopl_lab.extras.embedded.mini_recipe import MiniRecipe
from fedcopl_lab.extras.embedded.photo_captions import COARSE, PHOTO_SETS, PHOTO_TEMPLATES
from fedcopl_lab.extras.embedded.seen_draw import TAILS
from fedcopl_lab.models.clip import MINI, CLIPBundle

_TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
_EXTREMES = 5  # best and worst classes of CIFAR-100 on the page; the card has them all


@dataclass(frozen=True)
class PhotoAccuracy:
    """Accuracy of the frozen model on a test set, prompted with the set's template, before any training of prompts.

    Attributes:
        overall: share of all test images that are right, 0..1.
        per_class: the same share for each class, in label order.
        predicted: share of the test images that each class is predicted for.
    """

    overall: float
    per_class: tuple[float, ...]
    predicted: tuple[float, ...]

    @property
    def spread(self) -> float:
        """Best class minus worst class."""
        return max(self.per_class) - min(self.per_class)

    def __repr__(self) -> str:
        low, high = min(self.per_class), max(self.per_class)
        return f"PhotoAccuracy(overall={self.overall:.3f}, per_class={low:.2f}..{high:.2f})"


def evaluate_photos(clip: CLIPBundle, dataset: Dataset) -> PhotoAccuracy:
    """Accuracy on a data set's test images with the set's own template, overall and per class.

    Args:
        clip: a frozen model for images of the set's size.
        dataset: CIFAR-10, CIFAR-100 or a part of one.

    Shown in the card of `mini`.
    """
    images, labels = dataset.images[dataset.test_indices], dataset.test_labels
    captions = clip.tokenizer([dataset.template.format(name) for name in dataset.class_names])
    with torch.no_grad():
        texts = F.normalize(clip.model.encode_text(captions), dim=-1)
        features = [clip.model.encode_image(clip.to_input(part), normalize=True) for part in images.split(512)]
    chosen = (torch.cat(features) @ texts.T).argmax(dim=1)
    right = chosen == labels
    return PhotoAccuracy(
        right.double().mean().item(),
        tuple(right[labels == label].double().mean().item() for label in range(dataset.n_classes)),
        tuple((chosen.bincount(minlength=dataset.n_classes) / len(chosen)).tolist()),
    )


def mini_card(
    clip: CLIPBundle,
    recipe: MiniRecipe,
    *,
    minutes: float,
    n_bytes: int,
    held_out: dict[str, float],
    root: str | Path | None = None,
) -> dict[str, Any]:
    """Measure a trained `mini` on both test sets and put what a reader must know about it in one table.

    Args:
        clip: the trained model.
        recipe: what it was trained by.
        minutes: wall-clock minutes of training.
        n_bytes: size of the weights file.
        held_out: last accuracies on held-out training images.
        root: folder with the data sets.
    """
    measured = {name: evaluate_photos(clip, load_dataset(name, root)) for name in PHOTO_SETS}
    return {
        "name": MINI,
        "file": f"{MINI}.safetensors",
        "sha256": clip.sha256,
        "bytes": n_bytes,
        "licence": "MIT",
        "parameters": sum(weight.numel() for weight in clip.model.parameters()),
        "logit_scale": round(float(clip.model.logit_scale.exp()), 2),
        "recipe": asdict(recipe),
        "seen": {name: {"images": len(seen_positions(name)), "sha256": seen_sha256(name)} for name in PHOTO_SETS},
        "templates": list(PHOTO_TEMPLATES),
        "accuracy": {name: round(found.overall, 4) for name, found in measured.items()},
        "accuracy_per_class": {name: [round(s, 4) for s in found.per_class] for name, found in measured.items()},
        "predicted_share_per_class": {name: [round(s, 4) for s in found.predicted] for name, found in measured.items()},
        "held_out_accuracy": {name: round(share, 4) for name, share in held_out.items()},
        "minutes": round(minutes, 1),
        "hardware": f"CPU ({platform.machine()}), {os.cpu_count()} cores, shared with other work",
        "versions": {
            "open_clip": open_clip.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__.split("+")[0],
        },
    }


def mini_files(card: dict[str, Any], class_names: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """The card as data, as a page and as a manifest: file name -> text.

    Args:
        card: from :func:`mini_card`.
        class_names: of each set, in label order.
    """
    return {
        f"{MINI}.card.json": json.dumps(card, indent=2, ensure_ascii=False) + "\n",
        f"{MINI}.md": _page(card, class_names),
        f"{MINI}.toml": _manifest(card),
    }


def _page(card: dict[str, Any], class_names: dict[str, tuple[str, ...]]) -> str:
    recipe, seen = card["recipe"], card["seen"]
    tails = {name: TAILS[name] for name in PHOTO_SETS}
    saw = "\n".join(
        f"- {_TITLES[name]}: {seen[name]['images']:,} of 50,000 training images, from {tails[name].most} of the most "
        f"frequent class to {tails[name].least} of the rarest"
        for name in PHOTO_SETS
    )
    versions = ", ".join(f"{package} {version}" for package, version in card["versions"].items())
    templates = "\n".join(f"- `{template}`" for template in card["templates"])
    accuracies = "\n".join(
        f"| {_TITLES[name]}, 10,000 test images | {100 * card['accuracy'][name]:.1f} % | "
        f"{100 * min(card['accuracy_per_class'][name]):.0f}–{100 * max(card['accuracy_per_class'][name]):.0f} % |"
        for name in PHOTO_SETS
    )
    return f"""# Model card: `{MINI}`

A small CLIP for 32×32 photographs, so that both papers can be run on real photographs on a laptop.

| | |
|---|---|
| file | `{card["file"]}`, {card["bytes"]:,} bytes, half precision |
| sha256 | `{card["sha256"]}` |
| licence | {card["licence"]}; trained on CIFAR-10 and CIFAR-100, whose authors state none; it holds no image \
of theirs |
| architecture | open_clip, configuration `{MINI}.json`: ViT image tower (patch 4, 6 layers × 128), text tower \
(3 layers × 64), joint width 128, CLIP's BPE tokenizer, 32 text positions |
| parameters | {card["parameters"]:,}; of the vocabulary's rows only those that captions use are stored, the \
others are the same small noise on every load |
| logit scale | {card["logit_scale"]} (learned) |

## What it saw
{saw}

Which images, is recorded in `fedcopl_lab/data/mini_seen.toml` with checksums; images with an exact copy anywhere in \
either set were never drawn. Captions name the class, or for CIFAR-100 also one of {len(COARSE)} coarse groups:

{templates}

and, for {100 * recipe["fillers"]:.0f} % of the captions, one of {recipe["filled"]} that put random common words \
before the name, so that the text tower finds it in any company, a learned prompt's included.

## What it never saw
Any test image of either set, and the other training images: clients hold only those (`cifar10:unseen`, \
`cifar100:unseen`). **It has seen labelled pictures of the same classes**, so its accuracy before any prompt is \
trained is called "prompted, before training" wherever it is shown, never zero-shot; the `tiny` model on handwritten \
digits is the zero-shot one.

## How it was trained
{recipe["epochs"]} epochs in batches of {recipe["batch_size"]}, random crops and mirroring, \
{100 * recipe["left_out"]:.0f} % of the patches left out until the learning rate falls, every image compared with \
one caption of each class of its set (and, for CIFAR-100, of each coarse group, weight {recipe["coarse"]:g}); \
{100 * recipe["prior"]:.0f} % of the long tail's log shares taken out of the logits; {recipe["optimiser"]} for the \
layers' matrices and AdamW for the rest, peak learning rate {recipe["lr"]:g}, falling over the last \
{100 * recipe["cooldown"]:.0f} % of the steps, seed {recipe["seed"]}, {recipe["threads"]} thread(s), \
{recipe["precision"]}: {card["minutes"]} minutes on {card["hardware"]}, with {versions}. \
`fedcopl-lab train-embedded {MINI} --out FOLDER` repeats it. Settings were chosen on \
{100 * recipe["held_out"]:.0f} % of the seen images that were held out; the test sets were read once, for this card.

## Accuracy, prompted, before training
| images | accuracy | worst and best class |
|---|---|---|
{accuracies}

{_class_table(card, class_names)}

## Use and limits
For learning how prompts, pseudo-labels and federated rounds behave on photographs. Its classes are unequal on \
purpose: the long tail of its training images stands for the bias of a CLIP trained on the web. Its numbers say \
nothing about CLIP's at full size.
"""


def _class_table(card: dict[str, Any], class_names: dict[str, tuple[str, ...]]) -> str:
    rows = [
        f"| {name} | {100 * share:.1f} % |"
        for name, share in zip(class_names["cifar10"], card["accuracy_per_class"]["cifar10"], strict=True)
    ]
    pairs = zip(card["accuracy_per_class"]["cifar100"], class_names["cifar100"], strict=True)
    ordered = [f"{name} {100 * share:.0f} %" for share, name in sorted(pairs, reverse=True)]
    best, worst = ", ".join(ordered[:_EXTREMES]), ", ".join(ordered[-_EXTREMES:])
    return (
        "| CIFAR-10 class | accuracy |\n|---|---|\n"
        + "\n".join(rows)
        + f"\n\nCIFAR-100's best classes: {best}; its worst: {worst}."
    )


def _manifest(card: dict[str, Any]) -> str:
    seen = ", ".join(f"{entry['images']} of {_TITLES[name]}'s" for name, entry in card["seen"].items())
    return weights_manifest(
        card, MINI,
        about="The small CLIP for photographs in the package",
        title="A small CLIP for 32x32 photographs, trained on a recorded long-tailed part of CIFAR-10 and CIFAR-100",
        saw=f"{seen} training images, labelled, with captions",
        never_saw="any test image of either set, and the training images that clients hold",
    )  # fmt: skip
