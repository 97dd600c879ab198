"""Archives unpacked by the standard library's safe filters: nothing leaves the folder, bounded size, all or nothing."""

import gzip
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from functools import partial
from pathlib import Path

from tqdm.auto import tqdm

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._download import file_digest

MAX_BYTES = 60_000_000_000
MAX_FILES = 1_000_000
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, KeyError)

Listing = dict[str, tuple[int, str]]


class UnpackError(FedCoPLError):
    """An archive that is broken or not what it should be."""


def unpack(
    archive: Path, target: Path, progress: bool = True, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES
) -> Listing:
    """Unpack a tar or zip archive into a folder, which is changed only when everything is there.

    Args:
        archive: the archive, whose checksum was verified before.
        target: the folder; what the archive holds at its top level is moved into it.
        progress: show a bar.
        max_bytes, max_files: unpacked size and number of entries beyond which the archive is refused.

    Returns:
        For every file its size and sha256, by path relative to ``target``.

    Raises:
        UnpackError: a path or link that leaves the folder, a special file, too much, or a broken archive.
    """
    target.mkdir(parents=True, exist_ok=True)
    for leftover in target.glob(".unpacking-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=target))
    try:
        listing = _write_all(archive, scratch, progress, max_bytes, max_files)
        for top in sorted(scratch.iterdir()):
            _move(top, target / top.name)
        return listing
    except (*_BROKEN, EOFError, NotImplementedError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(":")
        raise UnpackError(f"{archive} is broken or not what it should be ({reason}); fetch it again") from error
    except OSError as error:
        raise UnpackError(f"cannot unpack {archive} into {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write_all(archive: Path, scratch: Path, progress: bool, max_bytes: int, max_files: int) -> Listing:
    shown, left = partial(tqdm, desc=f"unpack {archive.name}", unit="file", disable=not progress), max_bytes
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as content:
            for number, info in enumerate(shown(content.infolist()), start=1):
                left = _room(archive, left - info.file_size, max_files - number)
                content.extract(info, scratch)  # drops "..", drives and a leading "/"; a link becomes a plain file
    else:
        with tarfile.open(archive) as content:
            for number, member in enumerate(shown(content), start=1):
                left = _room(archive, left - member.size, max_files - number)
                content.extract(member, scratch, filter="data")
    files = [path for path in sorted(scratch.rglob("*")) if path.is_file()]
    if not files:
        raise UnpackError(f"{archive} holds no file; fetch it again")
    return {path.relative_to(scratch).as_posix(): (path.stat().st_size, file_digest(path, "sha256")) for path in files}


def _room(archive: Path, left: int, files_left: int) -> int:
    if left < 0 or files_left < 0:
        much = f"{-left} bytes too many" if left < 0 else "too many files"
        raise UnpackError(f"{archive} unpacks to {much}; it is not what it should be")
    return left


def _move(source: Path, target: Path) -> None:
    if not target.exists():
        os.replace(source, target)
    elif _sizes(source) != _sizes(target):  # equal: moved by an earlier call that was stopped half-way
        raise UnpackError(f"{target} is there already with other files; move it away or remove it, then call again")


def _sizes(top: Path) -> dict[str, int]:
    if top.is_file():
        return {"": top.stat().st_size}
    return {path.relative_to(top).as_posix(): path.stat().st_size for path in top.rglob("*") if path.is_file()}
