"""The captions that the `mini` CLIP is trained on: fine and coarse names of CIFAR's classes in many templates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from jaxtyping import Int
from open_clip import SimpleTokenizer
from torch import Tensor

from fedcopl_lab.data import load_manifest
from fedcopl_lab.extras.embedded.captions import FILLER_WORDS, MOST_FILLER_WORDS
from fedcopl_lab.seeding import torch_generator

PHOTO_SETS = ("cifar10", "cifar100")
"""The sets that `mini` is trained and measured on."""

PHOTO_TEMPLATES = (
    "a photo of a {}.",
    "a photo of a {}",
    "{}.",
    "{}",
    "a blurry photo of a {}.",
    "a photo of the {}.",
    "a small picture of a {}.",
    "a low resolution picture of one {}.",
    "an image of a {}, cut out and made small.",
    "this is a {}.",
    "a bad photo of some {}.",
    "a good photo of the small {}.",
    "from a long list of small colour pictures that were found by their names, here is one of a {}.",
)
"""Caption templates; some are long, so that the positions behind learned contexts are trained as well."""

COARSE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "aquatic mammal": ("beaver", "dolphin", "otter", "seal", "whale"),
        "fish": ("aquarium fish", "flatfish", "ray", "shark", "trout"),
        "flower": ("orchid", "poppy", "rose", "sunflower", "tulip"),
        "food container": ("bottle", "bowl", "can", "cup", "plate"),
        "fruit or vegetable": ("apple", "mushroom", "orange", "pear", "sweet pepper"),
        "household electrical device": ("clock", "keyboard", "lamp", "telephone", "television"),
        "household furniture": ("bed", "chair", "couch", "table", "wardrobe"),
        "insect": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
        "large carnivore": ("bear", "leopard", "lion", "tiger", "wolf"),
        "large man-made outdoor thing": ("bridge", "castle", "house", "road", "skyscraper"),
        "large natural outdoor scene": ("cloud", "forest", "mountain", "plain", "sea"),
        "large omnivore or herbivore": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
        "medium-sized mammal": ("fox", "porcupine", "possum", "raccoon", "skunk"),
        "invertebrate": ("crab", "lobster", "snail", "spider", "worm"),
        "person": ("baby", "boy", "girl", "man", "woman"),
        "reptile": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
        "small mammal": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
        "tree": ("maple tree", "oak tree", "palm tree", "pine tree", "willow tree"),
        "road or rail vehicle": ("bicycle", "bus", "motorcycle", "pickup truck", "train"),
        "other vehicle": ("lawn mower", "rocket", "streetcar", "tank", "tractor"),
    }
)
"""CIFAR-100's twenty coarse names, as captions say them, and their classes."""


@dataclass(frozen=True)
class PhotoCaptions:
    """Every caption that training draws from, tokenised with the vocabulary rows it needs.

    Attributes:
        tokens: row numbers in ``token_ids``, templates × names × positions; names are those of CIFAR-10, of
            CIFAR-100 and the coarse ones, in this order.
        token_ids: the vocabulary rows that captions use, ascending; the last one is the end token.
        spans: set name, or ``"coarse"``, -> its first name and the one behind its last.
        coarse_of: coarse name of each of CIFAR-100's classes.
        n_written: templates that are written; the others are of random words.
    """

    tokens: Int[Tensor, "templates names context"]
    token_ids: Int[Tensor, "used"]
    spans: Mapping[str, tuple[int, int]]
    coarse_of: Int[Tensor, "100"]
    n_written: int

    def __repr__(self) -> str:
        return f"PhotoCaptions(templates={len(self.tokens)}, names={self.tokens.shape[1]})"


def photo_captions(context_length: int, seed: int, n_filled: int) -> PhotoCaptions:
    """Tokenise every template with every name, with open_clip's CLIP BPE.

    Args:
        context_length: text positions of the model.
        seed: of the templates of random words.
        n_filled: how many of these, so that the text tower finds the name in any company.
    """
    groups = {name: load_manifest(name).classes for name in PHOTO_SETS} | {"coarse": tuple(COARSE)}
    names = [label for labels in groups.values() for label in labels]
    templates = [*PHOTO_TEMPLATES, *_filled_templates(n_filled, names, seed)]
    tokenizer = SimpleTokenizer(context_length=context_length)
    tokens = torch.stack([tokenizer([template.format(name) for name in names]) for template in templates])
    token_ids = torch.unique(tokens[tokens > 0])
    spans, start = {}, 0
    for group, labels in groups.items():
        spans[group] = (start, start + len(labels))
        start += len(labels)
    home = {label: place for place, labels in enumerate(COARSE.values()) for label in labels}
    return PhotoCaptions(
        # Ranks keep the order of ids, so the end token stays the largest one, where CLIP reads the caption.
        torch.searchsorted(token_ids, tokens) * (tokens > 0),
        token_ids,
        MappingProxyType(spans),
        torch.tensor([home[label] for label in groups["cifar100"]]),
        len(PHOTO_TEMPLATES),
    )


def _filled_templates(count: int, names: Sequence[str], seed: int) -> list[str]:
    """Templates of 1 to 12 random common words, none of them in a name, and then the name."""
    taken = {word for name in names for word in name.split()}
    words = [word for word in FILLER_WORDS if word not in taken]
    generator = torch_generator(seed, "mini-fillers")
    lengths = torch.randint(1, MOST_FILLER_WORDS + 1, (count,), generator=generator).tolist()
    chosen = [torch.randint(len(words), (length,), generator=generator).tolist() for length in lengths]
    return [" ".join([*(words[i] for i in places), "{}."]) for places in chosen]
