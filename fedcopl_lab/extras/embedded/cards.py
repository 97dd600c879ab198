"""What is measured on a trained embedded model, and the model card and manifest that say it."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import matplotlib
import open_clip
import torch
from jaxtyping import Float, Int64, UInt8
from jinja2 import Environment, FunctionLoader, StrictUndefined
from torch import Tensor, nn

from fedcopl_lab.data import Dataset, load_dataset, load_manifest, resized, seen_positions, seen_sha256
from fedcopl_lab.extras.embedded import captions
from fedcopl_lab.extras.embedded.captions import DIGIT_WORDS, PHOTO_SETS, TEMPLATES, ZERO_SHOT_TEMPLATE
from fedcopl_lab.extras.embedded.glyphs import HELD_OUT_FACES, TRAIN_FACES, Distortion, draw_glyphs
from fedcopl_lab.extras.embedded.photos import TAILS, PhotoPool
from fedcopl_lab.extras.embedded.recipes import MiniRecipe, TextRecipe
from fedcopl_lab.models.checkpoint import model_config
from fedcopl_lab.models.clip import EMBEDDED_MODELS, MINI, MINI_TRAITS, PHOTO_MODELS, CLIPBundle, load_clip
from fedcopl_lab.models.resnet8 import START
from fedcopl_lab.models.towers import both_features
from fedcopl_lab.seeding import torch_generator

_HELD_OUT_GLYPHS = 2000
_HARDER = 4 / 3  # the bend, turn and slant of the harder held-out glyphs over those of training
_TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of a frozen model with one caption for each class."""

    overall: float  # share of all images that are right, 0..1
    per_class: tuple[float, ...]  # the same share for each class, in label order
    predicted: tuple[float, ...]  # share of the images that each class is predicted for

    def __repr__(self) -> str:
        low, high = min(self.per_class), max(self.per_class)
        return f"Accuracy(overall={self.overall:.3f}, per_class={low:.2f}..{high:.2f})"


def evaluate_tiny(clip: CLIPBundle, templates: tuple[str, ...] = (ZERO_SHOT_TEMPLATE,)) -> list[Accuracy]:
    """Zero-shot accuracy on all 1,797 handwritten digits of scikit-learn, for each caption with ``{}`` for the word.

    >>> evaluate_tiny(lab.load_clip("tiny"))[0].per_class[0] > 0.2
    True
    """
    digits = load_dataset("digits")
    features = image_features(clip, resized(digits.images, clip.image_size), at_once=256)
    return [_accuracy(clip, features, digits.labels, template, DIGIT_WORDS) for template in templates]


def evaluate_photos(clip: CLIPBundle, dataset: Dataset) -> Accuracy:
    """Accuracy on a data set's test images with the set's own template, before any training of prompts."""
    features = image_features(clip, dataset.images[dataset.test_indices], at_once=512)
    return _accuracy(clip, features, dataset.test_labels, dataset.template, dataset.class_names)


def _held_out_accuracy(clip: CLIPBundle, distortion: Distortion, patches: bool = False) -> float:
    """Accuracy on printed digits of the faces that are never trained on; of the image, or of its patches' mean."""
    generator = torch_generator(0, "tiny-held-out")
    glyphs = draw_glyphs(_HELD_OUT_GLYPHS, generator, faces=HELD_OUT_FACES, distortion=distortion)
    images = resized(glyphs.pixels, clip.image_size)
    features = mean_patches(clip, images) if patches else image_features(clip, images, at_once=256)
    return _accuracy(clip, features, glyphs.labels, ZERO_SHOT_TEMPLATE, DIGIT_WORDS).overall


@torch.no_grad()
def mean_patches(clip: CLIPBundle, images: UInt8[Tensor, "n 3 h w"]) -> Float[Tensor, "n width"]:
    """The means of the patches' unit features, which classify as FedOTP does where every patch counts the same."""
    return torch.cat([both_features(clip.model, clip.to_input(part))[1] for part in images.split(256)])


@torch.no_grad()
def image_features(clip: CLIPBundle, images: UInt8[Tensor, "n 3 h w"], at_once: int) -> Float[Tensor, "n width"]:
    """Unit features, so many images in a forward pass."""
    parts = images.split(at_once)
    return torch.cat([clip.model.encode_image(clip.to_input(part), normalize=True) for part in parts])


@torch.no_grad()
def _accuracy(
    clip: CLIPBundle,
    features: Float[Tensor, "n width"],
    labels: Int64[Tensor, "n"],
    template: str,
    names: Sequence[str],
) -> Accuracy:
    texts = clip.model.encode_text(clip.tokenizer([template.format(name) for name in names]), normalize=True)
    chosen = (features @ texts.T).argmax(dim=1)
    right = (chosen == labels).double()
    per_class = tuple(right[labels == label].mean().item() for label in range(len(names)))
    return Accuracy(
        right.mean().item(), per_class, tuple((chosen.bincount(minlength=len(names)) / len(chosen)).tolist())
    )


def make_card(clip: CLIPBundle, recipe: dict[str, Any], *, minutes: float | None, n_bytes: int) -> dict[str, Any]:
    """Measure a trained model of digits and put everything a reader must know about it in one table."""
    digits, bare = evaluate_tiny(clip, (ZERO_SHOT_TEMPLATE, "{}."))
    trained_on = Distortion(**recipe["distortion"])
    measured = {
        "train_faces": list(TRAIN_FACES),
        "held_out_faces": list(HELD_OUT_FACES),
        "templates": list(TEMPLATES),
        "zero_shot_template": ZERO_SHOT_TEMPLATE,
        "digits_accuracy": round(digits.overall, 4),
        "digits_accuracy_per_class": _round(digits.per_class),
        "digits_accuracy_bare_word": round(bare.overall, 4),
        "held_out_accuracy": round(_held_out_accuracy(clip, trained_on), 4),
        "held_out_harder_accuracy": round(_held_out_accuracy(clip, trained_on.stronger(_HARDER)), 4),
        "held_out_patch_accuracy": round(_held_out_accuracy(clip, trained_on, patches=True), 4),
    }
    card = _card(clip, recipe, measured, minutes, n_bytes)
    return card | {"versions": {"matplotlib": matplotlib.__version__, **card["versions"]}}


def photo_card(
    clip: CLIPBundle,
    recipe: MiniRecipe | TextRecipe,
    *,
    minutes: float,
    n_bytes: int,
    held_out: dict[str, float],
    root: str | Path | None = None,
) -> dict[str, Any]:
    """The same of `mini` or `mini-traits`, on both test sets; ``held_out``: accuracies on held-out training images."""
    found = {name: evaluate_photos(clip, load_dataset(name, root)) for name in PHOTO_SETS}
    accuracy = {"accuracy": _round({name: one.overall for name, one in found.items()})}
    if clip.name == MINI:
        measured = {
            "seen": {name: {"images": len(seen_positions(name)), "sha256": seen_sha256(name)} for name in PHOTO_SETS},
            "templates": list(captions.PHOTO_TEMPLATES),
            **accuracy,
            "accuracy_per_class": _round({name: one.per_class for name, one in found.items()}),
            "predicted_share_per_class": _round({name: one.predicted for name, one in found.items()}),
        }
    else:
        grey = {name: evaluate_photos(clip, load_dataset(f"{name}:grey", root)) for name in PHOTO_SETS}
        measured = {
            "image_tower": {"model": MINI, "sha256": load_clip(MINI).sha256},
            "forms": list(captions.PHOTO_FORMS),
            **accuracy,
            "accuracy_grey": _round({name: one.overall for name, one in grey.items()}),
            "accuracy_grey_per_class": _round({name: one.per_class for name, one in grey.items()}),
        }
    others = ", shared with other work" if clip.name == MINI else ""
    return _card(clip, asdict(recipe), measured | {"held_out_accuracy": _round(held_out)}, minutes, n_bytes, others)


def held_out_accuracy(clip: CLIPBundle, held_out: PhotoPool) -> dict[str, float]:
    """Accuracy on the held-out images of each set, with the set's own template."""
    found = {}
    for place, name in enumerate(PHOTO_SETS):
        own, manifest = held_out[held_out.sets == place], load_manifest(name)
        features = image_features(clip, own.images, at_once=512)
        found[name] = _accuracy(clip, features, own.labels, manifest.template, manifest.classes).overall
    return found


def _card(
    clip: CLIPBundle,
    recipe: dict[str, Any],
    measured: dict[str, Any],
    minutes: float | None,
    n_bytes: int,
    others: str = "",
) -> dict[str, Any]:
    told = {"logit_scale": round(float(clip.model.logit_scale.exp()), 2), "recipe": recipe, **measured}
    packages = {"open_clip": open_clip.__version__}
    return card_of(clip.name, clip.model, clip.sha256, told, minutes, n_bytes, others, packages)


def card_of(
    name: str,
    model: nn.Module,
    sha256: str,
    told: dict[str, Any],
    minutes: float | None,
    n_bytes: int,
    others: str = "",
    packages: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The card of any packaged model: its file, what is told of it, and the machine that it was trained on."""
    versions = {**(packages or {}), "python": platform.python_version(), "torch": torch.__version__.split("+")[0]}
    return {
        "name": name,
        "file": f"{name}.safetensors",
        "sha256": sha256,
        "bytes": n_bytes,
        "licence": "MIT",
        "parameters": sum(weight.numel() for weight in model.parameters()),
        **told,
        "minutes": None if minutes is None else round(minutes, 1),
        "hardware": f"CPU ({platform.machine()}), {os.cpu_count()} cores{others}",
        "versions": versions,
    }


def _round(shares: Any) -> Any:
    """Four digits of a share, of all in a sequence, or of all in a mapping."""
    if isinstance(shares, dict):
        return {name: _round(share) for name, share in shares.items()}
    return round(shares, 4) if isinstance(shares, float) else [round(share, 4) for share in shares]


def card_files(card: dict[str, Any]) -> dict[str, str]:
    """The card as data, as a page and as a manifest: file name -> text."""
    name = card["name"]
    more = {MINI: _of_photos, MINI_TRAITS: _of_traits}.get(name, _of_digits)(card) if name != START else {}
    values = card | {"titles": _TITLES, "photos": name in PHOTO_MODELS, "start": name == START} | more
    return {
        f"{name}.card.json": json.dumps(card, indent=2, ensure_ascii=False) + "\n",
        f"{name}.md": _render(f"{'tiny' if name in EMBEDDED_MODELS else name}.md.j2", values),
        f"{name}.toml": _render("manifest.toml.j2", values),
    }


def _of_digits(card: dict[str, Any]) -> dict[str, Any]:
    """What a page says that is not in the card."""
    tower, said = model_config(card["name"])["vision_cfg"], captions.TRAIT_WORDS
    return {"tower": tower, "bend": card["recipe"]["distortion"], "words": DIGIT_WORDS, "said": said}


def _of_photos(card: dict[str, Any]) -> dict[str, Any]:
    classes = {name: load_manifest(name).classes for name in PHOTO_SETS}
    pairs = zip(card["accuracy_per_class"]["cifar100"], classes["cifar100"], strict=True)
    ordered = [f"{name} {100 * share:.0f} %" for share, name in sorted(pairs, reverse=True)]
    return {"tails": TAILS, "coarse": len(captions.COARSE), "classes": classes, "ordered": ordered}


def _of_traits(card: dict[str, Any]) -> dict[str, Any]:
    seen = {name: {"images": len(seen_positions(name))} for name in PHOTO_SETS}
    words = ", ".join(" or ".join(told["words"]) for told in captions.PHOTO_TRAITS.values())
    return {"seen": seen, "words": words, "classes": load_manifest(PHOTO_SETS[0]).classes}


def _render(template: str, values: dict[str, Any]) -> str:
    loader = FunctionLoader(lambda name: resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True, loader=loader)
    formats = {"thousands": "{:,}", "short": "{:g}"}
    environment.filters |= {name: form.format for name, form in formats.items()}
    shares = {"percent": "{:.1f} %", "whole": "{:.0f} %", "number": "{:.0f}"}
    environment.filters |= {name: lambda share, form=form: form.format(100 * share) for name, form in shares.items()}
    return environment.get_template(template).render(values)
