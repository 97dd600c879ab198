"""Whether the data and weights that runs need are on this machine, found out before the first run starts."""

from collections.abc import Sequence

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._identity import key_of
from fedcopl_lab.config import PromptConfig, RunConfig
from fedcopl_lab.store import Store


def not_stored(configs: Sequence[RunConfig], store: Store) -> list[RunConfig]:
    """The runs that are still to be computed; one whose data are not here has no key yet and is among them."""
    return [config for config in configs if not _stored(config, store)]


def _stored(config: RunConfig, store: Store) -> bool:
    try:
        return store.run(key_of(config)).complete
    except FedCoPLError:
        return False


def missing_inputs(configs: Sequence[RunConfig]) -> list[str]:
    """One line for each data set and each model's weights that is not here, with the remedy."""
    from fedcopl_lab.data import known_manifests, split_name, state_of

    lines, known = [], known_manifests("dataset")
    for name in sorted({split_name(config.dataset, known).whole for config in configs} & set(known)):
        state = state_of(name)
        if state in ("absent", "partly"):
            lines.append(f"data set {name}: {'not here' if state == 'absent' else 'only in part here'}; "
                         f"`fedcopl-lab data get {name}`")  # fmt: skip
    needed = {config.clip for config in configs if isinstance(config, PromptConfig) and config.weights == "pretrained"}
    return lines + [line for name in sorted(needed) if (line := _missing_weights(name))]


def check_inputs(configs: Sequence[RunConfig]) -> None:
    """Refuse to start a sweep that would stop in the middle.

    Raises:
        FedCoPLError: data or weights are missing; names all of them.
    """
    missing = missing_inputs(configs)
    if missing:
        raise FedCoPLError("these are needed and not on this machine:\n  " + "\n  ".join(missing))


def _missing_weights(name: str) -> str:
    from fedcopl_lab.models.openai_weights import OPENAI_MODELS, find_weights

    if name not in OPENAI_MODELS:  # these are in the package
        return ""
    try:
        find_weights(name)
    except FedCoPLError as error:
        return f"weights {name}: {error}"
    return ""
