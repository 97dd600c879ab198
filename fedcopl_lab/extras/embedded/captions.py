"""The captions that the embedded CLIPs are trained on, and the few vocabulary rows they need."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from types import MappingProxyType

import torch
from jaxtyping import Int
from open_clip import SimpleTokenizer
from torch import Tensor

from fedcopl_lab.data import load_manifest
from fedcopl_lab.seeding import torch_generator

_PARTS = tomllib.loads(resources.files("fedcopl_lab.extras.embedded").joinpath("captions.toml").read_text("utf-8"))

DIGIT_WORDS = tuple(_PARTS["digit_words"])
"""Class names of the ten digits, as prompts use them."""

TEMPLATES = tuple(_PARTS["digit_templates"])
ZERO_SHOT_TEMPLATE = TEMPLATES[0]
"""The caption with which the digits are classified zero-shot."""

PHOTO_SETS = ("cifar10", "cifar100")
"""The sets that `mini` is trained and measured on."""

PHOTO_TEMPLATES = tuple(_PARTS["photo_templates"])
COARSE: Mapping[str, tuple[str, ...]] = MappingProxyType({name: tuple(own) for name, own in _PARTS["coarse"].items()})
"""CIFAR-100's twenty coarse names, as captions say them, and their classes."""

FILLER_WORDS = tuple(_PARTS["filler_words"].split())
MOST_FILLER_WORDS = 12
FILLER_TEMPLATES = 1000


@dataclass(frozen=True, repr=False)
class Captions:
    """Every caption of every name, tokenised; names are ``zero, 0, one, 1, ...`` or CIFAR-10's, CIFAR-100's, coarse."""

    tokens: Int[Tensor, "templates names context"]  # start token, words, end token, zeros
    token_ids: Int[Tensor, "used"]  # the vocabulary rows that captions use, ascending; the last is the end token
    n_written: int  # templates that are written; the others are of random words

    @cached_property
    def rows(self) -> Int[Tensor, "templates names context"]:
        """The tokens as row numbers in ``token_ids``; the end token stays the largest, where CLIP reads a caption."""
        return torch.searchsorted(self.token_ids, self.tokens) * (self.tokens > 0)

    def __repr__(self) -> str:
        return f"Captions(templates={len(self.tokens)}, token_ids={len(self.token_ids)})"


@dataclass(frozen=True, repr=False)
class PhotoCaptions(Captions):
    """Captions of CIFAR's classes."""

    spans: Mapping[str, tuple[int, int]]  # set name, or "coarse" -> its first name and the one after its last
    coarse_of: Int[Tensor, "100"]  # coarse name of each of CIFAR-100's classes


def filler_templates(count: int, generator: torch.Generator, words: Sequence[str] = FILLER_WORDS) -> list[str]:
    """Templates of 1 to 12 random words and then the name, such as ``"river just open {}."``."""
    lengths = torch.randint(1, MOST_FILLER_WORDS + 1, (count,), generator=generator).tolist()
    chosen = [torch.randint(len(words), (length,), generator=generator).tolist() for length in lengths]
    return [" ".join([*(words[i] for i in places), "{}."]) for places in chosen]


def digit_captions(context_length: int, fillers: Sequence[str] = ()) -> Captions:
    """Every digit, as a word and as a numeral, in every written template and those given.

    >>> digit_captions(32).tokens.shape
    torch.Size([15, 20, 32])
    """
    names = [spelling for digit, word in enumerate(DIGIT_WORDS) for spelling in (word, str(digit))]
    tokens, token_ids = _tokenise((*TEMPLATES, *fillers), names, context_length)
    return Captions(tokens, token_ids, len(TEMPLATES))


def photo_captions(context_length: int, seed: int, n_filled: int) -> PhotoCaptions:
    """Every class of CIFAR-10 and CIFAR-100 and every coarse name, in written templates and some of random words."""
    groups = {name: load_manifest(name).classes for name in PHOTO_SETS} | {"coarse": tuple(COARSE)}
    names = [label for labels in groups.values() for label in labels]
    taken = {word for name in names for word in name.split()}
    words = [word for word in FILLER_WORDS if word not in taken]  # no filler is in a name
    fillers = filler_templates(n_filled, torch_generator(seed, "mini-fillers"), words)
    tokens, token_ids = _tokenise((*PHOTO_TEMPLATES, *fillers), names, context_length)
    spans, start = {}, 0
    for group, labels in groups.items():
        spans[group] = (start, start + len(labels))
        start += len(labels)
    home = {label: place for place, labels in enumerate(COARSE.values()) for label in labels}
    coarse_of = torch.tensor([home[label] for label in groups["cifar100"]])
    return PhotoCaptions(tokens, token_ids, len(PHOTO_TEMPLATES), MappingProxyType(spans), coarse_of)


def _tokenise(
    templates: Sequence[str], names: Sequence[str], context_length: int
) -> tuple[Int[Tensor, "templates names context"], Int[Tensor, "used"]]:
    """Tokens by open_clip's CLIP BPE, and the vocabulary rows that they use."""
    tokenizer = SimpleTokenizer(context_length=context_length)
    tokens = torch.stack([tokenizer([template.format(name) for name in names]) for template in templates])
    return tokens, torch.unique(tokens[tokens > 0])
