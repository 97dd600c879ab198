"""The captions that the `tiny` CLIP is trained on, and the few vocabulary rows they need."""

from collections.abc import Sequence
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

_COMMON_WORDS = (
    "about above after again air all always among and animal another around ask away back bad bag ball be because "
    "bed before begin below best better big bird black blue boat body book both box boy bread bring brown build but "
    "by call can car carry change child city clean clear close cloud cold come corner country cut dark day deep dog "
    "door down draw dream dry each early earth east easy eat end enough even ever every face fall far farm fast "
    "father feel few field find fire first fish floor flower fly follow food foot forest form friend from front full "
    "game garden girl give glass go gold good grass great green grow hair half hand happy hard head hear heart heavy "
    "help here high hill hold home horse hot hour house how ice idea if in island join just keep kind king know lake "
    "land large last late laugh lead learn leave left letter light like line listen little live long look love low "
    "make many map mark may mean men metal middle milk moon more morning most mother mountain mouth move much music "
    "must name near neck never new next night north nose note now of off often old on only open or other our out over "
    "paint paper part pass path pay people place plain plant play point pull push put quick quiet rain read ready red "
    "rest rich ride right river road rock room rose round run sand say school sea see seed send set ship short show "
    "side sign silver sing sister sit sky sleep slow small snow so soft some song soon sound south speak spring stand "
    "star start stay step still stone stop story street strong such summer sun sure swim table take talk tall tell "
    "that then thick thin thing think time to together too top town travel tree true turn under until up us very "
    "voice wait walk wall warm wash watch water way wear week well west wet what wheel when where while white who why "
    "wide wild will wind window winter wish with wood word work world write yard year yellow yes young"
)
FILLER_WORDS = tuple(_COMMON_WORDS.split())
"""Common words that stand before a digit in half of the captions, so that the text tower finds it in any company."""

MOST_FILLER_WORDS = 12
FILLER_TEMPLATES = 1000


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


def filler_templates(count: int, generator: torch.Generator) -> list[str]:
    """Templates of 1 to 12 random common words and then the digit, such as ``"river just open {}."``."""
    lengths = torch.randint(1, MOST_FILLER_WORDS + 1, (count,), generator=generator).tolist()
    words = [torch.randint(len(FILLER_WORDS), (length,), generator=generator).tolist() for length in lengths]
    return [" ".join([*(FILLER_WORDS[i] for i in chosen), "{}."]) for chosen in words]


def caption_table(context_length: int, templates: Sequence[str] = TEMPLATES) -> CaptionTable:
    """Tokenise every template with every digit, as a word and as a numeral, with open_clip's CLIP BPE."""
    tokenizer = SimpleTokenizer(context_length=context_length)
    captions = [
        template.format(spelling)
        for template in templates
        for digit, word in enumerate(DIGIT_WORDS)
        for spelling in (word, str(digit))
    ]
    tokens = tokenizer(captions).reshape(len(templates), 10, 2, context_length)
    return CaptionTable(tokens, torch.unique(tokens[tokens > 0]))
