"""One local round of the small random CLIP, for the tests of what is trained in it."""

import torch

from fedcopl_lab import PromptState, PseudoLabels, configure, train_round
from fedcopl_lab.models import PromptedCLIP

LABELS = PseudoLabels(indices=torch.tensor([7, 0, 2, 3, 8, 5, 1]), labels=torch.tensor([0, 0, 1, 1, 2, 2, 2]))


def config_of(method="PromptFL", **changes):
    return configure(
        "smoke", method=method, **{"n_text": 4, "n_visual": 3, "batch_size": 3, "local_epochs": 2} | changes
    )


def stream(seed=9):
    return torch.Generator().manual_seed(seed)


def plain_images(small):
    """The same model without visual prompts."""
    return PromptedCLIP(small.model, small.tokenizer, small.prompted.class_names, n_text=4, n_visual=0)


def start_of(small, method="PromptFL", visual=True, **changes):
    prompted = small.prompted if visual else plain_images(small)
    text, own = prompted.initial_prompts(stream(1))
    local = prompted.initial_prompts(stream(2))[0] if method == "FedOTP" else None
    return PromptState(text=text, visual=own, text_local=local, **changes)


def trained(small, config, state=None, labels=LABELS, *, images=None, generator=None, prompted=None, **options):
    """A round from the small model's start, unless told otherwise."""
    state = state or start_of(small, config.method)
    images, generator = small.images if images is None else images, generator or stream()
    prompted = prompted or small.prompted
    return train_round(prompted, images, labels, state, config=config, generator=generator, **options)
