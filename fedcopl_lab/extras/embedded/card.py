"""What is measured on a trained embedded model, and the card and manifest that say it."""

import json
import os
import platform
from dataclasses import dataclass
from typing import Any

import matplotlib
import open_clip
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from fedcopl_lab.data import load_dataset, resized
from fedcopl_lab.extras.embedded.captions import (
    DIGIT_WORDS,
    FILLER_TEMPLATES,
    FILLER_WORDS,
    MOST_FILLER_WORDS,
    TEMPLATES,
    ZERO_SHOT_TEMPLATE,
)
from fedcopl_lab.extras.embedded.glyphs import HELD_OUT_FACES, TRAIN_FACES, Distortion, draw_glyphs
from fedcopl_lab.models.checkpoint import model_config
from fedcopl_lab.models.clip import CLIPBundle
from fedcopl_lab.seeding import torch_generator

_HELD_OUT_GLYPHS = 2000
_HARDER = 4 / 3  # the bend, turn and slant of the harder held-out glyphs over those of training


@dataclass(frozen=True)
class DigitAccuracy:
    """Zero-shot accuracy per class.

    Attributes:
        overall: share of all images that are right, 0..1.
        per_class: the same share for each digit 0..9.
    """

    overall: float
    per_class: tuple[float, ...]

    def __repr__(self) -> str:
        low, high = min(self.per_class), max(self.per_class)
        return f"DigitAccuracy(overall={self.overall:.3f}, per_class={low:.2f}..{high:.2f})"


def _image_features(clip: CLIPBundle, images: UInt8[Tensor, "n 3 h w"]) -> Float[Tensor, "n width"]:
    pixels = clip.to_input(resized(images, clip.image_size))
    return torch.cat([clip.model.encode_image(part, normalize=True) for part in pixels.split(256)])


def _accuracy(
    clip: CLIPBundle, features: Float[Tensor, "n width"], labels: Int64[Tensor, "n"], template: str
) -> DigitAccuracy:
    captions = clip.tokenizer([template.format(word) for word in DIGIT_WORDS])
    right = (features @ clip.model.encode_text(captions, normalize=True).T).argmax(dim=1) == labels
    per_class = tuple(right[labels == digit].double().mean().item() for digit in range(10))
    return DigitAccuracy(right.double().mean().item(), per_class)


def evaluate_tiny(clip: CLIPBundle, templates: tuple[str, ...] = (ZERO_SHOT_TEMPLATE,)) -> list[DigitAccuracy]:
    """Zero-shot accuracy on all 1,797 handwritten digits of scikit-learn, for each caption template.

    Args:
        clip: a frozen model, on the CPU; the digits are enlarged to its size.
        templates: captions with one ``{}`` for the digit's word.

    >>> evaluate_tiny(lab.load_clip("tiny"))[0].per_class[0] > 0.2
    True
    """
    digits = load_dataset("digits")
    features = _image_features(clip, digits.images)
    labels = digits.labels
    return [_accuracy(clip, features, labels, template) for template in templates]


def evaluate_held_out(clip: CLIPBundle, distortion: Distortion) -> DigitAccuracy:
    """Accuracy on printed digits of the faces that are never trained on."""
    generator = torch_generator(0, "tiny-held-out")
    glyphs = draw_glyphs(_HELD_OUT_GLYPHS, generator, faces=HELD_OUT_FACES, distortion=distortion)
    return _accuracy(clip, _image_features(clip, glyphs.pixels), glyphs.labels, ZERO_SHOT_TEMPLATE)


def make_card(clip: CLIPBundle, recipe: dict[str, Any], *, minutes: float, n_bytes: int) -> dict[str, Any]:
    """Measure a trained embedded model and put everything a reader must know about it in one table.

    Args:
        clip: the trained model.
        recipe: the fields of the recipe.
        minutes: wall-clock minutes of drawing and training.
        n_bytes: size of the weights file.
    """
    digits, bare = evaluate_tiny(clip, (ZERO_SHOT_TEMPLATE, "{}."))
    trained_on = Distortion(**recipe["distortion"])
    return {
        "name": clip.name,
        "file": f"{clip.name}.safetensors",
        "sha256": clip.sha256,
        "bytes": n_bytes,
        "licence": "MIT",
        "parameters": sum(weight.numel() for weight in clip.model.parameters()),
        "logit_scale": round(float(clip.model.logit_scale.exp()), 2),
        "recipe": recipe,
        "train_faces": list(TRAIN_FACES),
        "held_out_faces": list(HELD_OUT_FACES),
        "templates": list(TEMPLATES),
        "zero_shot_template": ZERO_SHOT_TEMPLATE,
        "digits_accuracy": round(digits.overall, 4),
        "digits_accuracy_per_class": [round(share, 4) for share in digits.per_class],
        "digits_accuracy_bare_word": round(bare.overall, 4),
        "held_out_accuracy": round(evaluate_held_out(clip, trained_on).overall, 4),
        "held_out_harder_accuracy": round(evaluate_held_out(clip, trained_on.stronger(_HARDER)).overall, 4),
        "minutes": round(minutes, 1),
        "hardware": f"CPU ({platform.machine()}), {os.cpu_count()} cores",
        "versions": {
            "matplotlib": matplotlib.__version__,
            "open_clip": open_clip.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__.split("+")[0],
        },
    }


def card_files(card: dict[str, Any]) -> dict[str, str]:
    """The card as data, as a page and as a manifest: file name -> text."""
    name = card["name"]
    return {
        f"{name}.card.json": json.dumps(card, indent=2, ensure_ascii=False) + "\n",
        f"{name}.md": _page(card),
        f"{name}.toml": _manifest(card),
    }


_PURPOSE = {
    "tiny": "A small CLIP for 8×8 images of digits",
    "tiny-p1": "A small CLIP for 8×8 images of digits with four times the patches of `tiny`, in the place of ViT-B/16",
    "tiny-rn": "A small CLIP with a ModifiedResNet for 8×8 images of digits enlarged to 64×64, in the place of RN50",
}


_HISTORY = """\
Distortion and learning rate were chosen on the held-out faces. The captions of random words came after a first \
version, on which learned text prompts were unstable: with some seeds FedCoPL's training loss on pseudo-labels stayed \
high. Two variants were compared by that loss on seeds 10 to 15, and this one was kept; with it the paper's learning \
rate of 0.1 trains. The accuracy on the handwritten digits was seen for each version on the way, six in all; no \
setting was chosen by it."""
_SAME_RECIPE = """\
The recipe is that of `tiny`, unchanged; nothing was chosen for this architecture, and it was trained once."""


def _image_tower(name: str) -> str:
    tower = model_config(name)["vision_cfg"]
    if isinstance(tower["layers"], list):
        blocks = "-".join(map(str, tower["layers"]))
        return (
            f"ModifiedResNet image tower (blocks {blocks}, {tower['width']} channels first, {tower['image_size']} px)"
        )
    return f"ViT image tower (patch {tower['patch_size']}, {tower['layers']} layers × {tower['width']})"


def _page(card: dict[str, Any]) -> str:
    recipe, bend = card["recipe"], card["recipe"]["distortion"]
    per_class = "\n".join(
        f"| {word} | {100 * share:.1f} % |"
        for word, share in zip(DIGIT_WORDS, card["digits_accuracy_per_class"], strict=True)
    )
    versions = ", ".join(f"{package} {version}" for package, version in card["versions"].items())
    templates = "\n".join(f"- `{template}`" for template in card["templates"])
    return f"""# Model card: `{card["name"]}`

{_PURPOSE[card["name"]]}, so that every step can be run on real images with no download.

| | |
|---|---|
| file | `{card["file"]}`, {card["bytes"]:,} bytes |
| sha256 | `{card["sha256"]}` |
| licence | {card["licence"]} |
| architecture | open_clip, configuration `{card["name"]}.json`: {_image_tower(card["name"])}, \
text tower (3 layers × 64), joint width 64, CLIP's BPE tokenizer, 32 text positions |
| parameters | {card["parameters"]:,}; of the vocabulary's rows only those that captions use are stored, the \
others are the same small noise on every load |
| logit scale | {card["logit_scale"]} (learned) |

## What it saw
Printed digits 0–9 of {len(card["train_faces"])} font faces that matplotlib ships \
({", ".join(card["train_faces"])}): {recipe["pool"]:,} renderings with the half stroke width changed by \
{bend["stroke"][0]} to {bend["stroke"][1]} of the glyph height, slant up to {bend["slant"]}, rotation up to \
{bend["turn"]:g}°, width stretched {bend["stretch"][0]}–{bend["stretch"][1]} times and elastic bending up to \
{bend["bend"]} of the glyph height; cropped to the ink, 32 pixels on the longer side, black or white, ink \
counted in 4×4 blocks. Captions, with the digit as a word or as a numeral:

{templates}

and, for {100 * recipe["fillers"]:.0f} % of the captions, one of {FILLER_TEMPLATES:,} that put 1 to \
{MOST_FILLER_WORDS} random words of {len(FILLER_WORDS)} common English ones before the digit, so that the text tower \
finds the class name in any company, a learned prompt's included.

## What it never saw
Any handwritten digit, and the faces {", ".join(card["held_out_faces"])}. Its predictions on handwritten digits \
are zero-shot, with a real domain gap and a real class bias.

## How it was trained
{recipe["steps"]:,} steps of {recipe["batch_size"]} images and {recipe["captions"]} captions, CLIP's symmetric \
contrastive loss with the target of a row spread over all entries of its digit, AdamW, peak learning rate \
{recipe["lr"]:g}, seed {recipe["seed"]}, {recipe["threads"]} thread(s): {card["minutes"]} minutes on \
{card["hardware"]}, with {versions}. The same recipe on the same machine gives the same bytes; another \
processor or another version of matplotlib may not. `fedcopl-lab train-embedded {card["name"]} --out FOLDER` \
repeats it.

{_HISTORY if card["name"] == "tiny" else _SAME_RECIPE}

## Accuracy
| images | accuracy |
|---|---|
| handwritten digits, all 1,797, zero-shot with "{card["zero_shot_template"]}" | \
{100 * card["digits_accuracy"]:.1f} % |
| the same with "{{}}." | {100 * card["digits_accuracy_bare_word"]:.1f} % |
| held-out faces, bent as in training | {100 * card["held_out_accuracy"]:.1f} % |
| held-out faces, bent by a third more | {100 * card["held_out_harder_accuracy"]:.1f} % |

| handwritten digit | accuracy |
|---|---|
{per_class}

## Use and limits
For learning how prompts, pseudo-labels and federated rounds behave, and for tests. It knows ten words and
8×8 grey images; it is no digit reader to rely on, and its numbers say nothing about CLIP's at full size.
"""


def _manifest(card: dict[str, Any]) -> str:
    return weights_manifest(
        card, card["name"],
        about="The small CLIP in the package, trained on printed digits only",
        title="A small CLIP for 8x8 digits, trained on rendered glyphs of matplotlib's fonts",
        saw=f"digits 0-9 of {len(card['train_faces'])} font faces that matplotlib ships, distorted, with captions",
        never_saw="any handwritten digit",
    )  # fmt: skip


def weights_manifest(card: dict[str, Any], name: str, *, about: str, title: str, saw: str, never_saw: str) -> str:
    """The manifest of a model's weights, from its card."""
    return f'''# {about}; see its model card, {name}.md.
name = "{name}"
title = "{title}"
kind = "weights"
file = "{card["file"]}"
sha256 = "{card["sha256"]}"
bytes = {card["bytes"]}
licence = "{card["licence"]}"
architecture = "open_clip"
recipe = "fedcopl-lab train-embedded {name}"
saw = "{saw}"
never_saw = "{never_saw}"
'''
