"""Ports of two newer trainers of prompts from their papers, FedPGP and FedTPG; each says what is simplified."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab.steps._scorer import ImageCache, Scorer

_TEMPERATURE = 0.5
_STD = 0.02


class LowRankScorer(Scorer):
    """FedPGP (ICML 2024): each client keeps a low-rank change of the shared text prompt.

    PORT from the paper. The client's prompt is ``text + U V``; a contrastive term of weight 1 pulls the shared
    prompt's class texts to the template's and away from the client's own. Simplified: the rank is half the number of
    context vectors; U starts at N(0, 1/rank) and V at zero, so that the product learns as fast as the prompt;
    temperature and optimiser are the same for every data set; the visual prompt, which FedPGP does not have, is
    trained and averaged as in the other rows. ``text_local`` holds Uᵀ and V side by side, [rank, n_text + width].
    """

    reads_template: ClassVar[bool] = True

    def start(self, drawn: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """See :meth:`Scorer.start`."""
        n_text, width = self.prompted.text_shape
        rank = max(n_text // 2, 1)
        left = torch.randn(rank, n_text, generator=generator) / rank**0.5
        local = torch.cat([left, torch.zeros(rank, width)], dim=1)
        return {**drawn, "text_local": local.to(drawn["text"])}

    def texts(self, prompts: Mapping[str, Tensor]) -> Tensor:
        """Unit features of the client's own and the shared prompt, [2, C, d]; with K stacked prompts [K, 2, C, d]."""
        text, local = prompts["text"], prompts["text_local"]
        change = local[..., : text.shape[-2]].mT @ local[..., text.shape[-2] :]
        both = torch.stack([text + change, text], dim=-3)
        return self.prompted.text_features(both.flatten(0, -3)).unflatten(0, both.shape[:-2])

    def logits(
        self, images: Tensor, texts: Tensor, cache: ImageCache | None = None, own: Tensor | None = None
    ) -> Float[Tensor, "b c"]:
        """See :meth:`Scorer.logits`; only the client's own prompt predicts."""
        return super().logits(images, texts[0], cache, own)

    def penalty(self, texts: Float[Tensor, "2 c d"]) -> Float[Tensor, ""]:
        """The contrastive term: -log of the share of the template among template and own text, mean over classes."""
        assert self.template is not None
        near, far = (texts[1] * self.template).sum(dim=1), (texts[1] * texts[0]).sum(dim=1)
        return F.softplus((far - near) / _TEMPERATURE).mean()


class GeneratedScorer(Scorer):
    """FedTPG (ICLR 2024): a shared network makes the text prompt from the texts of the class names.

    PORT from the paper. Learned queries attend over the template's class texts; what comes out is the prompt.
    Simplified: one attention head, one linear map behind it, and the queries are added, so that training starts
    from a small prompt as in the other rows; every client knows all class names; the visual prompt, which FedTPG does
    not have, is trained and averaged as in the other rows. The part ``text`` holds the network's rows: queries
    [n_text], key map [d], value map [d], output map [text width], all of the text's width.
    """

    reads_template: ClassVar[bool] = True

    def start(self, drawn: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """See :meth:`Scorer.start`."""
        assert self.template is not None
        d, width = self.template.shape[1], self.prompted.text_shape[1]
        maps = torch.randn(2 * d, width, generator=generator) / d**0.5
        out = torch.randn(width, width, generator=generator) * _STD
        return {**drawn, "text": torch.cat([drawn["text"], maps.to(drawn["text"]), out.to(drawn["text"])])}

    def generated(self, network: Float[Tensor, "*k rows width"]) -> Float[Tensor, "*k n_text width"]:
        """The text prompt that the network makes."""
        assert self.template is not None
        d, (n_text, width) = self.template.shape[1], self.prompted.text_shape
        queries, keys, values, out = network.split([n_text, d, d, width], dim=-2)
        attention = (queries @ (self.template @ keys).mT / width**0.5).softmax(dim=-1)
        made: Tensor = queries + attention @ (self.template @ values) @ out
        return made

    def texts(self, prompts: Mapping[str, Tensor]) -> Tensor:
        """See :meth:`Scorer.texts`."""
        return self.prompted.text_features(self.generated(prompts["text"]))
