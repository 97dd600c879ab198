"""Files that are there whole or not at all, the files of runs and of weights, and where the project keeps them."""

import glob
import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcopl_lab._errors import FedCoPLError, StoreError

if TYPE_CHECKING:
    from torch import Tensor

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

EMBEDDED_FOLDER = Path(__file__).parent / "models" / "embedded"

REMEDY = "remove its run folder to compute the run again"
"""How to get out of a damaged run, at the end of a sentence."""


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a file so that a reader, or a machine that died, sees the old content or the new, never a part."""
    data = content.encode() if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        handle, temporary = _temporary_beside(path)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.chmod(temporary, 0o644)
                if fcntl is not None:  # still open, and so still locked, when it gets its name
                    os.replace(temporary, path)
            if fcntl is None:  # Windows renames closed files only
                os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {error.strerror}; make the folder writable, free some space, "
            "or choose another folder"
        ) from error


def check_writable(folder: Path) -> None:
    """Find out before hours of work, not after, that a folder cannot be written."""
    probe = folder / ".probe"
    write_atomic(probe, "")
    probe.unlink()


def to_json(value: Any) -> str:
    """Canonical text of plain values: the same value gives the same bytes."""
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n"


def read_json(path: Path) -> Any:
    """The value of a JSON file, or an error that names the file and the way out."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}; check its permissions") from error
    except ValueError as error:
        raise StoreError(f"{path} is not valid JSON ({error}); {REMEDY}") from error


def read_table(path: Path, wanted: tuple[str, ...] = ()) -> dict[str, Any]:
    """The values by name that a JSON file of a run holds."""
    found = read_json(path)
    missing = list(wanted) if not isinstance(found, dict) else [name for name in wanted if name not in found]
    if not isinstance(found, dict) or missing:
        what = f"has no {', '.join(missing)}" if isinstance(found, dict) else f"holds a {type(found).__name__}"
        raise StoreError(f"{path} {what}; expected values by name: {REMEDY}")
    return found


def read_tensors(path: Path) -> "dict[str, Tensor]":
    """The tensors of a safetensors file, or an error that names the file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise StoreError(f"cannot read {path}: {error}; {REMEDY}") from error


def tensor_bytes(tensors: "dict[str, Tensor]") -> bytes:
    """A safetensors file as bytes."""
    from safetensors.torch import save

    return save(tensors)


def read_checked(path: Path, sha256: str, name: str) -> bytes:
    """The bytes of a weights file; FedCoPLError where it is missing or has another sha256."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FedCoPLError(
            f"weights file {path} cannot be read ({error.strerror}), expected sha256 {sha256}; {_remedy(name)}"
        ) from error
    actual = hashlib.sha256(content).hexdigest()
    if actual != sha256:
        raise FedCoPLError(
            f"weights file {path} has sha256 {actual} ({len(content)} bytes), expected {sha256}; {_remedy(name)}"
        )
    return content


def checkout_root() -> Path | None:
    """The repository's folder when the package is used from a checkout, else None."""
    root = Path(__file__).resolve().parent.parent
    return root if (root / "pyproject.toml").is_file() and (root / "notebooks").is_dir() else None


def store_root() -> Path:
    """Where runs are kept: ``$FEDCOPL_LAB_HOME``, else ``runs/`` of the checkout, else ``~/.fedcopl_lab/runs``."""
    chosen = os.environ.get("FEDCOPL_LAB_HOME")
    if chosen:
        return Path(chosen).expanduser().resolve()
    root = checkout_root()
    return root / "runs" if root else Path.home() / ".fedcopl_lab" / "runs"


def _remedy(name: str) -> str:
    return (
        f"install fedcopl-lab again, or run `fedcopl-lab train-embedded {name} --out FOLDER` and put its "
        f"{name}.safetensors in {EMBEDDED_FOLDER} and its {name}.toml in data_manifests"
    )


def _temporary_beside(path: Path) -> tuple[int, str]:
    """An open file for the new content, locked while its writer lives."""
    while True:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        if fcntl is None:
            return handle, temporary
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, temporary
        os.close(handle)  # taken for a dead writer's file before it was locked


def _remove_leftovers(path: Path) -> None:
    """Delete what writers of the same file left behind when they were killed."""
    if fcntl is None:
        return
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with suppress(OSError), open(leftover, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while the writer lives
            leftover.unlink()


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":  # Windows cannot open a folder to flush it
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
