"""Scorers beside the paper's: FedPGP and FedTPG, and classifiers on frozen features, the cheap rivals of prompts.

FedPGP and FedTPG are ports from their papers; each says what is simplified.
"""

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
        return self.prompted.text_features(self.generated(prompts["text"]))


class HeadScorer(Scorer):
    """A linear head on frozen image features, started at the template's texts (as in arXiv 2404.11046).

    The part ``text`` holds its weights, [C, d]: the logit scale times the template's features at the start, so that
    an untrained head is zero-shot CLIP. What arXiv 2404.11046 adds, features drawn around the texts, is left out: its
    labels come from CoPL here.
    """

    reads_template: ClassVar[bool] = True

    def start(self, drawn: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        assert self.template is not None
        scale = self.prompted.model.logit_scale.detach().exp()
        return {**drawn, "text": (scale * self.template).to(drawn["text"])}

    def texts(self, prompts: Mapping[str, Tensor]) -> Tensor:
        """The head's weights, [C, d]; with K stacked heads [K, C, d]."""
        return prompts["text"]

    def logits(
        self, images: Tensor, texts: Tensor, cache: ImageCache | None = None, own: Tensor | None = None
    ) -> Float[Tensor, "b c"]:
        """See :meth:`Scorer.logits`; the weights hold the scale."""
        return images @ texts.T


class MeansScorer(Scorer):
    """Class means of frozen features as the texts: what no client has a label for keeps the template's text.

    The part ``text`` holds them, [C, d], of any length; a row of zeros is a class without an image.
    """

    reads_template: ClassVar[bool] = True

    def start(self, drawn: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        assert self.template is not None
        return {**drawn, "text": self.template.to(drawn["text"])}

    def texts(self, prompts: Mapping[str, Tensor]) -> Tensor:
        """Unit class means, [C, d]; with K stacked means [K, C, d]."""
        assert self.template is not None
        rows = prompts["text"][..., : self.template.shape[1]]
        return torch.where(rows.norm(dim=-1, keepdim=True) > 0, F.normalize(rows, dim=-1), self.template)


class CovarianceScorer(MeansScorer):
    """FedCOF (arXiv 2412.14326): as :class:`MeansScorer`, with one more column for a client's counts, [C, d + 1]."""

    def start(self, drawn: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        text = super().start(drawn, generator)["text"]
        return {**drawn, "text": F.pad(text, (0, 1))}


def covariance_classifier(
    means: Float[Tensor, "k c d"], counts: Float[Tensor, "k c"], shrinkage: float | None = None
) -> Float[Tensor, "c d"]:
    """FedCOF's classifier, from the class means of every client alone (arXiv 2412.14326).

    How far clients' means of one class lie apart estimates that class's covariance; the classifier is ridge
    regression with these covariances in place of the features' own.

    Args:
        means: of each client's features by class, zeros where it has none, [K, C, d].
        counts: images behind each mean, [K, C].
        shrinkage: multiple of the identity that is added to each covariance; None takes the estimates' mean
            variance, which follows the features' scale, and 1 where no two clients share a class.

    Returns:
        One row of weights for each class, zeros for a class without images, [C, d].

    >>> covariance_classifier(torch.eye(2).expand(3, 2, 2), torch.ones(3, 2)).argmax(dim=1)
    tensor([0, 1])

    Shown in notebook ``fedcopl_ours_rivals``.
    """
    n, means64 = counts.double(), means.double()
    of_class = n.sum(dim=0)
    class_means = (n[..., None] * means64).sum(dim=0) / torch.where(of_class > 0, of_class, 1)[:, None]
    apart = (means64 - class_means) * n.sqrt()[..., None]
    clients = (n > 0).sum(dim=0)
    covariances = torch.einsum("kci,kcj->cij", apart, apart) / (clients - 1).clamp(min=1)[:, None, None]
    degrees = (of_class - 1).clamp(min=0)
    d = means.shape[-1]
    total = torch.einsum("c,cij->ij", degrees, covariances)
    if shrinkage is None:
        shrinkage = float(total.trace() / (d * degrees.sum().clamp(min=1))) or 1.0
    total = total + shrinkage * degrees.sum() * torch.eye(d, dtype=total.dtype, device=total.device)
    centre = (of_class[:, None] * class_means).sum(dim=0) / of_class.sum().clamp(min=1)
    total = total + of_class.sum() * torch.outer(centre, centre)
    rows: Tensor = torch.linalg.lstsq(total, (of_class[:, None] * class_means).T).solution.T
    return rows.to(means.dtype)
