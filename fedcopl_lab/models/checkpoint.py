"""The files of an embedded CLIP: safetensors with the used vocabulary rows, checked when they are read."""

from functools import lru_cache
from typing import Any

import open_clip
import torch
from jaxtyping import Float, Int
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from fedcopl_lab._files import EMBEDDED_FOLDER
from fedcopl_lab.seeding import torch_generator

GLYPHS = (0.29, 0.29, 0.29), (0.36, 0.36, 0.36)
"""Per-channel mean and deviation of the inputs of the models for digits, from the glyphs they are trained on."""

PHOTOS = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)
"""The same for the models for photographs: CIFAR-10's."""

_EMBEDDING = "token_embedding.weight"
_TOKEN_IDS = "token_ids"
_FILL_STD = 0.02  # open_clip's own initial spread of token embeddings


@lru_cache
def model_config(name: str) -> dict[str, Any]:
    """The open_clip configuration of an embedded model; registers it with open_clip on first use."""
    open_clip.add_model_config(EMBEDDED_FOLDER / f"{name}.json")
    config: dict[str, Any] = open_clip.get_model_config(name)
    return config


def build_clip(name: str, seed: int, vocab_size: int | None = None) -> open_clip.CLIP:
    """An untrained open_clip model of a registered configuration, initialised by open_clip from ``seed``.

    ``vocab_size`` are rows of the token embedding; None: the whole vocabulary.
    """
    config = model_config(name)
    text = {**config["text_cfg"], "vocab_size": vocab_size or config["text_cfg"]["vocab_size"]}
    # open_clip initialises from torch's global stream, so that stream is seeded, then put back.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed cards too
        return open_clip.CLIP(**{**config, "text_cfg": text})


def fill_token_embedding(
    rows: Float[Tensor, "used width"], token_ids: Int[Tensor, "used"], vocab_size: int
) -> Float[Tensor, "vocab width"]:
    """Put the trained rows in a whole vocabulary whose other rows are the same small noise on every load."""
    generator = torch_generator(0, "token-embedding-fill")
    table = torch.randn(vocab_size, rows.shape[1], generator=generator) * _FILL_STD
    table[token_ids] = rows.float()
    return table


def checkpoint_bytes(
    model: open_clip.CLIP, token_ids: Int[Tensor, "used"], dtype: torch.dtype = torch.float32
) -> bytes:
    """The checkpoint of a model whose token embedding holds the rows ``token_ids`` of the vocabulary, in order."""
    state = {name: value.detach().to(dtype).contiguous() for name, value in model.state_dict().items()}
    content: bytes = save_safetensors({**state, _TOKEN_IDS: token_ids}, metadata={"format": "pt"})
    return content


def clip_from_bytes(name: str, content: bytes) -> open_clip.CLIP:
    """The frozen model of a checkpoint, in evaluation mode, with the whole vocabulary."""
    state = load_safetensors(content)
    model = build_clip(name, seed=0)
    token_ids = state.pop(_TOKEN_IDS)
    state[_EMBEDDING] = fill_token_embedding(state[_EMBEDDING], token_ids, model.vocab_size)
    model.load_state_dict(state)
    return model.eval().requires_grad_(False)
