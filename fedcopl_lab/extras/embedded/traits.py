"""Training of `mini-traits`: beside `mini`'s frozen image tower, a text tower learns to say how photographs look."""

import time
from pathlib import Path

import open_clip
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torchvision.transforms.v2 import functional as change
from tqdm.auto import tqdm

from fedcopl_lab._files import check_writable
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.data import draw_weak, weak_view
from fedcopl_lab.extras.embedded.captions import (
    PHOTO_FORMS,
    PHOTO_SETS,
    PHOTO_TRAITS,
    PhotoCaptions,
    photo_names,
    trait_captions,
    true_of,
)
from fedcopl_lab.extras.embedded.cards import held_out_accuracy, photo_card
from fedcopl_lab.extras.embedded.photos import PhotoPool, held_out_mask, log_shares, photo_pool, whole_batches
from fedcopl_lab.extras.embedded.recipes import TextRecipe
from fedcopl_lab.extras.embedded.training import OneCycle, TrainedModel, finished, write_model
from fedcopl_lab.models.checkpoint import build_clip, model_config
from fedcopl_lab.models.clip import MINI, MINI_TRAITS, CLIPBundle, load_clip
from fedcopl_lab.seeding import derived_seed, torch_generator

_BLUR = [5, 5]  # pixels of the kernel
_SMALLEST = 8  # pixels of a close photograph's part that is left

Values = dict[str, float]


def train_traits(
    recipe: TextRecipe, out_dir: Path | str, progress: bool = True, *, root: str | Path | None = None
) -> TrainedModel:
    """Train `mini-traits` from `mini` in the package and write weights, card and manifest to a folder.

    ``root`` is the folder with the data sets, as ``load_dataset`` takes it.

    Raises:
        FedCoPLError: a set is not there, it has fewer images than a batch, or the folder cannot be written.
    """
    folder, start = Path(out_dir), time.perf_counter()
    check_writable(folder)
    first, pool = load_clip(MINI), photo_pool(root)
    held = held_out_mask(pool, recipe.held_out, recipe.seed)
    trained, content = finished(*learn_texts(first, pool[~held], recipe, progress), MINI_TRAITS)
    minutes, right = (time.perf_counter() - start) / 60, held_out_accuracy(trained, pool[held])
    card = photo_card(trained, recipe, minutes=minutes, n_bytes=len(content), held_out=right, root=root)
    return write_model(folder, trained, content, card)


def learn_texts(
    first: CLIPBundle, train: PhotoPool, recipe: TextRecipe, progress: bool = True
) -> tuple[open_clip.CLIP, PhotoCaptions]:
    """A model with the image tower of another and a new text tower, which learns from captions that name traits.

    In each step every group of photographs is changed alike, and one caption for each class says some of its clear
    traits. An image is compared with the captions of all groups and all classes of its set; those of its class
    fit whose traits it has. So words before the class carry meaning, as in CLIP, and a learned prompt can say how
    photographs look.

    ``first`` gives the image tower and is not changed. Returns the model, with only the vocabulary rows that captions
    use, and these captions. Fewer images than a batch are an error.
    """
    per_epoch = whole_batches(len(train), recipe.batch_size)
    captions = trait_captions(int(model_config(MINI_TRAITS)["text_cfg"]["context_length"]))
    model = build_clip(MINI_TRAITS, derived_seed(recipe.seed, "mini-texts"), vocab_size=len(captions.token_ids)).train()
    model.visual.load_state_dict(first.model.visual.state_dict())
    model.visual.eval().requires_grad_(False)
    shift = recipe.prior * log_shares(train, captions)
    generator, steps = torch_generator(recipe.seed, "mini-texts"), recipe.epochs * per_epoch
    cycle = OneCycle(model, recipe.lr, recipe.weight_decay, steps, warmup=0.1)
    order = torch.empty(0)
    with torch_threads(recipe.threads):
        for step in tqdm(range(steps), desc="texts of mini-traits", disable=not progress):
            if step % per_epoch == 0:
                order = torch.randperm(len(train), generator=generator)
            start = step % per_epoch * recipe.batch_size
            batch = train[order[start : start + recipe.batch_size]]
            cycle.descend(_loss(model, first, batch, captions, shift, recipe, generator))
    return model, captions


@sdpa_kernel(SDPBackend.MATH)  # with so few tokens the fused kernel takes several times as long
def _loss(
    model: open_clip.CLIP,
    clip: CLIPBundle,
    batch: PhotoPool,
    captions: PhotoCaptions,
    shift: Float[Tensor, "names"],
    recipe: TextRecipe,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    views = weak_view(batch.images, draw_weak(len(batch), batch.images.shape[-1], generator))
    traits = [draw_traits(recipe.changed, generator) for _ in range(recipe.groups)]
    groups = zip(views.chunk(recipe.groups), traits, strict=True)
    photos = torch.cat([changed_photos(images, values, generator) for images, values in groups])
    clear = torch.stack([clear_photo_traits(values) for values in traits])
    rows, said = write_photo_captions(clear, captions, recipe, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=recipe.precision == "bf16"):
        with torch.no_grad():
            images = model.encode_image(clip.to_input(photos))
        texts = model.encode_text(rows.flatten(0, 1))
    cosines = F.normalize(images.float(), dim=-1) @ F.normalize(texts.float(), dim=-1).T
    logits = (model.logit_scale.exp() * cosines).unflatten(1, rows.shape[:2]) + shift
    return trait_loss(logits, batch, true_of(said, clear).repeat_interleave(len(batch) // recipe.groups, 0), captions)


def write_photo_captions(
    clear: Int[Tensor, "groups 5"], captions: PhotoCaptions, recipe: TextRecipe, generator: torch.Generator
) -> tuple[Int[Tensor, "groups names context"], Int[Tensor, "groups 5"]]:
    """For each group a caption of every name, which says some of the group's clear traits, and the traits said."""
    n, n_traits = clear.shape
    speaks = torch.rand(n, 1, generator=generator) >= recipe.plain
    said = clear * (torch.rand(n, n_traits, generator=generator) < recipe.named) * speaks
    order = torch.rand(n, n_traits, generator=generator).argsort(dim=1).tolist()
    forms = torch.randint(len(PHOTO_FORMS), (n,), generator=generator).tolist()
    periods = torch.randint(2, (n,), generator=generator).tolist()
    words = [told["words"] for told in PHOTO_TRAITS.values()]
    groups = []
    for group in range(n):
        signs = said[group].tolist()
        traits = " ".join(words[trait][signs[trait] > 0] for trait in order[group] if signs[trait])
        form = PHOTO_FORMS[forms[group]].format(traits)
        groups.append(torch.stack([captions.row_of([form, name + "." * periods[group]]) for name in photo_names()]))
    return torch.stack(groups), said


def trait_loss(
    logits: Float[Tensor, "images groups names"],
    batch: PhotoPool,
    fits: Bool[Tensor, "images groups"],
    captions: PhotoCaptions,
) -> Float[Tensor, ""]:
    """CLIP's loss from image to caption over the captions of an image's own set, the target spread over those that fit.

    ``fits`` says which group's captions say only what is true of an image. Returns the mean over the images.
    """
    total = logits.new_zeros(())
    for place, name in enumerate(PHOTO_SETS):
        rows = batch.sets == place
        first, end = captions.spans[name]
        own = logits[rows][:, :, first:end]
        likely = own.flatten(1).log_softmax(dim=1).view_as(own)
        right = likely.gather(2, batch.labels[rows][:, None, None].expand(-1, own.shape[1], 1))[:, :, 0]
        true = fits[rows].to(right.dtype)
        total = total - (right * true / true.sum(dim=1, keepdim=True)).sum()
    return total / len(batch)


def draw_traits(chance: float, generator: torch.Generator) -> Values:
    """One value for each trait, drawn from its range with that chance, otherwise its usual one."""
    found = {}
    for trait, told in PHOTO_TRAITS.items():
        where, coin = torch.rand(2, generator=generator).tolist()
        low, high = told["range"]
        found[trait] = low + (high - low) * where if coin < chance else told["usual"]
    return found


def clear_photo_traits(values: Values) -> Int[Tensor, "5"]:
    """Which traits are plain to see: -1 for little, 1 for much, 0 for neither.

    >>> clear_photo_traits({"zoom": 0.0, "blur": 1.0, "contrast": 0.0, "light": -1.0, "grain": 8.0}).tolist()
    [0, 1, 0, -1, 0]
    """
    bounds = {trait: told["clear"] for trait, told in PHOTO_TRAITS.items()}
    return torch.tensor([(values[trait] > high) - (values[trait] < low) for trait, (low, high) in bounds.items()])


def changed_photos(
    images: UInt8[Tensor, "n 3 h w"], values: Values, generator: torch.Generator
) -> UInt8[Tensor, "n 3 h w"]:
    """The photographs with these traits; light, contrast and zoom are powers of two, blur and grain deviations."""
    side = images.shape[-1]
    part = max(_SMALLEST, round(side / 2 ** values["zoom"]))
    if part > side:
        before = (part - side) // 2
        after = part - side - before
        images = change.pad(images, [before, before, after, after], padding_mode="reflect")
    elif part < side:
        images = change.center_crop(images, [part, part])
    if part != side:
        images = change.resize(images, [side, side], antialias=True)
    if values["blur"] > 0.05:
        images = change.gaussian_blur(images, _BLUR, [values["blur"]] * 2)
    images = change.adjust_contrast(images, 2 ** values["contrast"])
    images = change.adjust_brightness(images, 2 ** values["light"])
    grain = values["grain"] * torch.randn(images.shape, generator=generator)
    return (images.float() + grain).clamp(0, 255).round().to(torch.uint8)
