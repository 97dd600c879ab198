"""Where downloaded data are kept."""

import os
from pathlib import Path

import platformdirs

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._manifests import Manifest


def data_root(root: str | Path | None = None) -> Path:
    """The folder of all data: the argument, else ``$FEDCOPL_LAB_DATA``, else the user's cache folder.

    >>> data_root("~/sets").name
    'sets'

    Shown in notebook ``data_check``.
    """
    chosen = root or os.environ.get("FEDCOPL_LAB_DATA")
    return Path(chosen).expanduser().resolve() if chosen else platformdirs.user_cache_path("fedcopl_lab") / "data"


def set_folder(name: str, root: str | Path | None = None) -> Path:
    """The folder of one set below the root; it need not exist.

    >>> set_folder("dtd", "~/sets").name
    'dtd'
    """
    return data_root(root) / name


def weights_folders(name: str, root: str | Path | None = None) -> list[Path]:
    """Where a model's weights are looked for, in turn; the last is where OpenAI's package keeps them.

    >>> weights_folders("RN50", "~/sets")[-2].name
    'RN50'
    """
    chosen = os.environ.get("FEDCOPL_LAB_WEIGHTS")
    folders = [Path(chosen).expanduser()] if chosen else []
    return [*folders, set_folder(name, root), Path.home() / ".cache" / "clip"]


def find_set(manifest: Manifest, root: str | Path | None = None) -> Path:
    """The folder that holds a set's files: its own below the root, or the root itself.

    Raises:
        FedCoPLError: when the set is in neither; the message says how to get it.
    """
    base = data_root(root)
    for folder in (base / manifest.name, base):
        if (folder / manifest.marker).exists():
            return folder
    raise FedCoPLError(
        f"{manifest.name} is not in {base}; fetch it with `fedcopl-lab data get {manifest.name}`, or say where it "
        "is: FEDCOPL_LAB_DATA, or root= of load_dataset"
    )
