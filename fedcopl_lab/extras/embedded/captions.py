"""The captions that the embedded CLIPs are trained on, and the few vocabulary rows they need."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
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

OPENINGS, NOUNS = tuple(_PARTS["digit_openings"]), tuple(_PARTS["digit_nouns"])
TRAIT_WORDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {trait: tuple(told["words"]) for trait, told in _PARTS["digit_traits"].items()}
)
"""Trait of a glyph -> the words for little and for much of it."""
_CLEAR = torch.tensor([told["clear"] for told in _PARTS["digit_traits"].values()])

PHOTO_FORMS = tuple(_PARTS["photo_forms"])
PHOTO_TRAITS: Mapping[str, Mapping[str, Any]] = MappingProxyType(_PARTS["photo_traits"])
"""How a photograph may have been changed: words for little and for much, range, usual value, clear below and above."""


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

    def row_of(self, parts: Iterable[str]) -> Int[Tensor, "context"]:
        """One caption of words in this order, as row numbers in ``token_ids``."""
        ids = torch.tensor(
            [self.tokens[0, 0, 0], *(one for part in parts for one in _word_ids(part)), self.token_ids[-1]]
        )
        rows = torch.zeros(self.tokens.shape[-1], dtype=torch.long)
        rows[: len(ids)] = torch.searchsorted(self.token_ids, ids)
        return rows

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


def digit_captions(context_length: int) -> Captions:
    """Every digit, as a word and as a numeral, in every written template.

    ``token_ids`` holds the words for traits as well.

    >>> digit_captions(32).tokens.shape
    torch.Size([15, 20, 32])
    """
    names = [spelling for digit, word in enumerate(DIGIT_WORDS) for spelling in (word, str(digit))]
    words = [word for pair in TRAIT_WORDS.values() for word in pair]
    tokens, token_ids = _tokenise(TEMPLATES, names, context_length, (*OPENINGS, *NOUNS, *words))
    return Captions(tokens, token_ids, len(TEMPLATES))


def clear_traits(traits: Float[Tensor, "n 6"]) -> Int[Tensor, "n 6"]:
    """Which traits of glyphs are plain to see: -1 for little, 1 for much, 0 for neither.

    >>> clear_traits(torch.tensor([[0.03, 0.0, -9.0, 0.0, 0.0, 0.0]])).tolist()
    [[1, 0, -1, 0, -1, 0]]
    """
    return (traits > _CLEAR[:, 1]).long() - (traits < _CLEAR[:, 0]).long()


def true_of(
    said: Int[Tensor, "captions traits"], clear: Int[Tensor, "images traits"]
) -> Bool[Tensor, "images captions"]:
    """Whether every trait that a caption names is an image's."""
    return ((said[None] == 0) | (said[None] == clear[:, None])).all(dim=2)


@dataclass(frozen=True)
class GlyphCaptions:
    """One caption for each of some glyphs."""

    rows: Int[Tensor, "n context"]  # row numbers in Captions.token_ids
    said: Int[Tensor, "n 6"]  # the traits that a caption names, as clear_traits has them; 0 for one left out

    def fits(self, digits: Int[Tensor, "n"], clear: Int[Tensor, "n 6"]) -> Bool[Tensor, "images captions"]:
        """Whether a caption is true of a glyph: the same digit, and every trait that it names."""
        return (digits[:, None] == digits[None]) & true_of(self.said, clear)


def write_captions(
    digits: Int[Tensor, "n"],
    clear: Int[Tensor, "n 6"],
    captions: Captions,
    generator: torch.Generator,
    *,
    numerals: float,
    templates: float,
    named: float,
) -> GlyphCaptions:
    """A true caption for each glyph: a written template, or its clear traits in any order and number.

    ``clear`` as :func:`clear_traits` has it, ``captions`` from :func:`digit_captions`, the three shares as in
    ``TinyRecipe``.
    """
    n, n_traits = clear.shape
    spelled = torch.rand(n, generator=generator) < numerals
    written = torch.rand(n, generator=generator) < templates
    said = clear * (torch.rand(n, n_traits, generator=generator) < named) * ~written[:, None]
    order = torch.rand(n, n_traits, generator=generator).argsort(dim=1).tolist()
    draws = [
        torch.randint(count, (n,), generator=generator) for count in (len(TEMPLATES), len(OPENINGS), len(NOUNS), 2)
    ]
    rows = captions.rows[draws[0], 2 * digits + spelled]
    opening, noun, period = (draw.tolist() for draw in draws[1:])
    words = list(TRAIT_WORDS.values())
    for i in (~written).nonzero().flatten().tolist():
        signs = said[i].tolist()
        traits = [words[j][signs[j] > 0] for j in order[i] if signs[j]]
        digit = str(int(digits[i])) if spelled[i] else DIGIT_WORDS[int(digits[i])]
        rows[i] = captions.row_of([OPENINGS[opening[i]], *traits, NOUNS[noun[i]], digit + "." * period[i]])
    return GlyphCaptions(rows, said)


def photo_captions(context_length: int, seed: int, n_filled: int) -> PhotoCaptions:
    """Every class of CIFAR-10 and CIFAR-100 and every coarse name, in written templates and some of random words."""
    groups = {name: load_manifest(name).classes for name in PHOTO_SETS} | {"coarse": tuple(COARSE)}
    names = [label for labels in groups.values() for label in labels]
    taken = {word for name in names for word in name.split()}
    words = [word for word in FILLER_WORDS if word not in taken]  # no filler is in a name
    fillers = filler_templates(n_filled, torch_generator(seed, "mini-fillers"), words)
    tokens, token_ids = _tokenise((*PHOTO_TEMPLATES, *fillers), names, context_length)
    return PhotoCaptions(tokens, token_ids, len(PHOTO_TEMPLATES), _spans(groups), _coarse_of(groups["cifar100"]))


def _spans(groups: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[int, int]]:
    ends = accumulate(map(len, groups.values()))
    return MappingProxyType({name: (end - len(groups[name]), end) for name, end in zip(groups, ends, strict=True)})


def _coarse_of(labels: Sequence[str]) -> Int[Tensor, "100"]:
    home = {label: place for place, own in enumerate(COARSE.values()) for label in own}
    return torch.tensor([home[label] for label in labels])


@cache
def photo_names() -> tuple[str, ...]:
    """The classes of CIFAR-10 and then of CIFAR-100."""
    return tuple(label for name in PHOTO_SETS for label in load_manifest(name).classes)


def trait_captions(context_length: int) -> PhotoCaptions:
    """Every class of CIFAR-10 and CIFAR-100 in the plain caption; ``token_ids`` holds the words for traits as well."""
    groups = {name: load_manifest(name).classes for name in PHOTO_SETS}
    words = [word for told in PHOTO_TRAITS.values() for word in told["words"]]
    forms = [form.format("") for form in PHOTO_FORMS]
    tokens, token_ids = _tokenise(PHOTO_TEMPLATES[:1], photo_names(), context_length, (*words, *forms))
    return PhotoCaptions(tokens, token_ids, 1, _spans(groups), _coarse_of(groups["cifar100"]))


def _tokenise(
    templates: Sequence[str], names: Sequence[str], context_length: int, more: Sequence[str] = ()
) -> tuple[Int[Tensor, "templates names context"], Int[Tensor, "used"]]:
    """Tokens by open_clip's CLIP BPE, and the vocabulary rows that they and ``more`` words use."""
    tokenizer = SimpleTokenizer(context_length=context_length)
    tokens = torch.stack([tokenizer([template.format(name) for name in names]) for template in templates])
    used = torch.cat(
        [tokens[tokens > 0], torch.tensor([one for word in more for one in _word_ids(word)], dtype=torch.long)]
    )
    return tokens, torch.unique(used)


@cache
def _bpe() -> SimpleTokenizer:
    return SimpleTokenizer()


@cache
def _word_ids(words: str) -> tuple[int, ...]:
    """The vocabulary rows of some words, without start and end."""
    return tuple(_bpe().encode(words))
