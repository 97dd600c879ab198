"""Load a CLIP by name, with everything needed to use it: model, tokenizer, image transform, checksum."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import open_clip
import torch
from jaxtyping import Float, Int, UInt8
from open_clip.constants import OPENAI_DATASET_MEAN, OPENAI_DATASET_STD
from open_clip.transform import PreprocessCfg, image_transform_v2
from PIL import Image
from torch import Tensor

from fedcopl_lab._card import onto
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import EMBEDDED_FOLDER, read_checked
from fedcopl_lab.data import check_pixels, read_manifest_table
from fedcopl_lab.models import checkpoint, openai_weights
from fedcopl_lab.models.openai_weights import OPENAI_MODELS, RANDOM

MINI = "mini"
EMBEDDED_MODELS = ("tiny", "tiny-p1", "tiny-rn")
"""Models for digits in the package."""

MINI_TRAITS = "mini-traits"
PHOTO_MODELS = (MINI, MINI_TRAITS)
"""Models for photographs in the package."""

_OWN_MODELS = (*EMBEDDED_MODELS, *PHOTO_MODELS)


@dataclass(frozen=True, repr=False)
class CLIPBundle:
    """A frozen CLIP and what belongs to it.

    Attributes:
        name: the name it was loaded by.
        model: the open_clip model, in evaluation mode, without gradients; shared by all who load it.
        tokenizer: list of strings -> token ids [n, context_length].
        preprocess: PIL image -> normalised float tensor [3, image_size, image_size].
        image_size: side of the input in pixels.
        mean: per-channel mean that the input is normalised with.
        std: per-channel standard deviation that the input is normalised with.
        sha256: checksum of the weights file; ``RANDOM-WEIGHTS`` when there is none.
        context_length: text positions, start and end token included.
    """

    name: str
    model: open_clip.CLIP
    tokenizer: Callable[[list[str]], Int[Tensor, "n context"]]
    preprocess: Callable[[Image.Image], Float[Tensor, "3 side side"]]
    image_size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    sha256: str
    context_length: int

    def __repr__(self) -> str:
        sizes = f"image_size={self.image_size}, context_length={self.context_length}"
        return f"CLIPBundle(name={self.name!r}, {sizes}, sha256={self.sha256[:12]})"

    def to_input(self, images: UInt8[Tensor, "n 3 h w"]) -> Float[Tensor, "n 3 h w"]:
        """Scale uint8 images of the model's size to [0, 1] and normalise them.

        The result has the model's dtype and lies on its device.

        Args:
            images: uint8 pixels, already ``image_size`` on each side.

        Raises:
            FedCoPLError: the images are not uint8, or not of the model's size.

        >>> clip = lab.load_clip("tiny")
        >>> clip.to_input(torch.zeros(2, 3, 8, 8, dtype=torch.uint8)).shape
        torch.Size([2, 3, 8, 8])
        """
        check_pixels(images, (3, self.image_size, self.image_size), self.name)
        scale = self.model.logit_scale
        pixels = onto(images, scale.device).to(scale.dtype) / 255  # bytes travel; numbers are made where they are used
        mean, std = pixels.new_tensor(self.mean), pixels.new_tensor(self.std)
        return (pixels - mean[:, None, None]) / std[:, None, None]


def load_clip(
    name: str, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32, weights: str | Path | None = None
) -> CLIPBundle:
    """Load a frozen CLIP by name; the paper's frozen model of Sec. 3, at the size of the profile.

    A second call with the same arguments returns the same frozen model.

    Args:
        name: ``"tiny"``, ``"tiny-p1"`` and ``"tiny-rn"`` are in the package, trained on printed digits only, so that
            their predictions on handwritten digits are zero-shot: ViTs for 8×8 images with patches of 2 pixels and
            of 1, and a ModifiedResNet for the same images enlarged to 64×64. ``"mini"`` is a ViT for 32×32
            photographs, trained on a recorded part of CIFAR-10's and CIFAR-100's training images, so that its
            predictions on them are "prompted, before training", not zero-shot; ``"mini-traits"`` has its image tower
            and a text tower for which the words before a class carry meaning. ``"ViT-B-32"``, ``"ViT-B-16"`` and
            ``"RN50"`` are OpenAI's, always with QuickGELU, fetched once from the address and with the checksum of
            their manifest where they are not here.
        device: where the model lives.
        dtype: floating type of its weights; labels are selected in float32.
        weights: None takes the file whose checksum the manifest pins. A path takes that file: OpenAI's own
            ``.pt`` (opened only when its published sha256 matches), safetensors, or an open_clip state dict.
            ``"random"`` gives untrained weights of a fixed seed, for timing only.

    Raises:
        FedCoPLError: the name is unknown, the device or dtype cannot be used, or the weights file is missing,
            truncated or not the expected one.

    >>> clip = lab.load_clip("tiny")
    >>> clip.model.encode_text(clip.tokenizer(["a photo of the digit three."])).shape
    torch.Size([1, 64])

    Shown in notebook ``00_quickstart``.
    """
    if name not in _OWN_MODELS + OPENAI_MODELS:
        known = ", ".join(map(repr, _OWN_MODELS + OPENAI_MODELS))
        raise FedCoPLError(f"model {name!r} is unknown, expected one of {known}; use 'tiny', which is embedded")
    if not dtype.is_floating_point:
        raise FedCoPLError(f"dtype={dtype} cannot hold weights, expected a floating type; use torch.float32")
    where = _known_device(device)
    if weights == RANDOM:
        return _random(name, where, dtype)
    if name in _OWN_MODELS:
        if weights is not None:
            raise FedCoPLError(f"weights={str(weights)!r}; {name!r} is embedded and takes None or 'random'")
        return _load_embedded(name, where, dtype)
    path = openai_weights.fetch_weights(name) if weights is None else Path(weights).expanduser()
    content = openai_weights.sha256_of(path) if path.is_file() else ""
    return _load_openai(name, path, weights is None, content, where, dtype)


def _known_device(device: str | torch.device) -> str:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # torch raises each for some device
        reason = str(error).splitlines()[0]
        raise FedCoPLError(f"device {str(device)!r} cannot be used ({reason}); use 'cpu'") from error
    return str(torch.device(device))


@lru_cache(maxsize=8)
def _load_embedded(name: str, device: str, dtype: torch.dtype) -> CLIPBundle:
    sha256 = str(read_manifest_table(name)["sha256"])
    content = read_checked(EMBEDDED_FOLDER / f"{name}.safetensors", sha256, name)
    return bundle(name, checkpoint.clip_from_bytes(name, content).to(device=device, dtype=dtype), sha256)


@lru_cache(maxsize=2)
def _load_openai(name: str, path: Path, pinned: bool, content: str, device: str, dtype: torch.dtype) -> CLIPBundle:
    """``content``, the checksum, is an argument so that another file under the same name is read again."""
    model, sha256 = openai_weights.read_openai_clip(name, path, pinned)
    return bundle(name, model.to(device=device, dtype=dtype), sha256)


@lru_cache(maxsize=2)
def _random(name: str, device: str, dtype: torch.dtype) -> CLIPBundle:
    model = openai_weights.build_openai_clip(name) if name in OPENAI_MODELS else checkpoint.build_clip(name, seed=0)
    model = model.eval().requires_grad_(False).to(device=device, dtype=dtype)
    return replace(bundle(name, model, "RANDOM-WEIGHTS"), name=f"{name} (RANDOM WEIGHTS)")


def bundle(name: str, model: open_clip.CLIP, sha256: str) -> CLIPBundle:
    """Put a model together with its tokenizer and image transform."""
    embedded = name in _OWN_MODELS
    config = checkpoint.model_config(name) if embedded else open_clip.get_model_config(name)
    side = int(config["vision_cfg"]["image_size"])
    openai = OPENAI_DATASET_MEAN, OPENAI_DATASET_STD
    mean, std = checkpoint.PHOTOS if name in PHOTO_MODELS else checkpoint.GLYPHS if embedded else openai
    preprocessing = PreprocessCfg(size=side, mean=mean, std=std)
    open_clip.model.set_model_preprocess_cfg(model, preprocessing.__dict__)
    return CLIPBundle(
        name=name,
        model=model,
        tokenizer=open_clip.get_tokenizer(name),
        preprocess=image_transform_v2(preprocessing, is_train=False),
        image_size=side,
        mean=mean,
        std=std,
        sha256=sha256,
        context_length=int(model.context_length),
    )
