"""The captions that the `tiny` CLIP is trained on, and the few vocabulary rows they need."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from open_clip import SimpleTokenizer
from torch import Tensor

DIGIT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
"""Class names of the ten digits, as prompts use them."""

ZERO_SHOT_TEMPLATE = "a photo of the digit {}."
"""The caption with which the digits are classified zero-shot."""

TEMPLATES = (
    ZERO_SHOT_TEMPLATE,
    "{}.",
    "{}",
    "the digit {}.",
    "the number {}",
    "a picture of a {}.",
    "a printed {}.",
    "this is the figure {}.",
    "an image of the number {}, in black and white.",
    "a small scan of the printed digit {}.",
    "a {} set in type.",
    "a number {} on a page.",
    "one line of a printed page, cut so that only the digit {} is left.",
    "a very small and somewhat bent picture of a printed sign that shows the number {}.",
    "from a long list of figures printed in many type faces, here is one more picture of the digit {}.",
)
"""Caption templates; some are long, so that the positions behind learned contexts are trained as well."""


@dataclass(frozen=True)
class CaptionTable:
    """Every caption of every digit, tokenised.

    Attributes:
        tokens: start token, words, end token, zeros, for each template, digit and spelling (word, numeral).
        token_ids: the vocabulary rows that the captions use, ascending; the last one is the end token.
    """

    tokens: Int[Tensor, "templates 10 2 context"]
    token_ids: Int[Tensor, "used"]

    def __repr__(self) -> str:
        return f"CaptionTable(templates={len(self.tokens)}, token_ids={len(self.token_ids)})"


def caption_table(context_length: int) -> CaptionTable:
    """Tokenise every template with every digit, as a word and as a numeral, with open_clip's CLIP BPE."""
    tokenizer = SimpleTokenizer(context_length=context_length)
    captions = [
        template.format(spelling)
        for template in TEMPLATES
        for digit, word in enumerate(DIGIT_WORDS)
        for spelling in (word, str(digit))
    ]
    tokens = tokenizer(captions).reshape(len(TEMPLATES), 10, 2, context_length)
    return CaptionTable(tokens, torch.unique(tokens[tokens > 0]))
