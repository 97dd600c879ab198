"""What a stored semi-supervised run says of new images."""

from typing import Any

from jaxtyping import Int, UInt8
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import SageConfig
from fedcopl_lab.methods._local_task import own_statistics
from fedcopl_lab.methods._semi import exact_convolutions
from fedcopl_lab.methods._semi_setting import SemiSetting
from fedcopl_lab.methods._semi_state import SemiState, Tensors
from fedcopl_lab.steps import model_scores


def predict_with_model(
    config: SageConfig,
    tensors: Tensors,
    images: UInt8[Tensor, "n 3 h w"],
    client: int,
    split: dict[str, Any] | None = None,
) -> Int[Tensor, "n"]:
    """Classes that the server's model gives to new images; ``Run.predict`` is the way in.

    Args:
        config: the run's configuration.
        tensors: its stored state.
        images: uint8 pixels at the size of the run's data, [n, 3, H, W]; normalised here as test images are.
        client: whose model; only with ``bn="local"`` a client has running statistics of its own, once it took part.
        split: its stored split; None draws it again.

    Raises:
        FedCoPLError: images of another size.
    """
    setting = SemiSetting.of(config, split)
    expected, given = tuple(setting.images.shape[1:]), tuple(images.shape[1:])
    if given != expected:
        raise FedCoPLError(
            f"images are {'x'.join(map(str, given))}; {config.label} was trained on {'x'.join(map(str, expected))}: "
            "resize them"
        )
    state = SemiState.from_tensors(tensors, config.device)
    model = setting.placed_model(state.model | own_statistics(state.memories.get(client, {})))
    with exact_convolutions(config.precision):
        return model_scores(model, images.to(config.device), setting.testing).argmax(dim=1).cpu()
