"""Archives unpacked without trust: nothing leaves the folder, no links out, bounded size, all or nothing."""

import gzip
import hashlib
import lzma
import os
import posixpath
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tqdm.auto import tqdm

from fedcopl_lab._errors import FedCoPLError

MAX_BYTES = 60_000_000_000
MAX_FILES = 1_000_000
_BLOCK = 1 << 20
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError)

Entry = tuple[str, int, IO[bytes] | None]
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
        max_bytes, max_files: unpacked size and number of files beyond which the archive is refused.

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
        raise UnpackError(f"{archive} is broken or of an unknown kind ({reason}); fetch it again") from error
    except OSError as error:
        raise UnpackError(f"cannot unpack {archive} into {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write_all(archive: Path, scratch: Path, progress: bool, max_bytes: int, max_files: int) -> Listing:
    listing: Listing = {}
    written = 0
    entries = _zip_entries(archive) if zipfile.is_zipfile(archive) else _tar_entries(archive)
    with tqdm(desc=f"unpack {archive.name}", unit="file", disable=not progress) as bar:
        for name, mode, stream in entries:
            path = scratch / safe_path(archive, name)
            if stream is None:
                path.mkdir(parents=True, exist_ok=True)
                continue
            if len(listing) >= max_files:
                raise UnpackError(f"{archive} holds more than {max_files} files; it is not what it should be")
            path.parent.mkdir(parents=True, exist_ok=True)
            digest, size = hashlib.sha256(), 0
            with open(path, "wb") as file:
                while block := stream.read(_BLOCK):
                    size += len(block)
                    # counted as it is written: the size that an archive states may be a lie
                    if written + size > max_bytes:
                        raise UnpackError(
                            f"{archive} unpacks to more than {max_bytes} bytes; it is not what it should be"
                        )
                    file.write(block)
                    digest.update(block)
            os.chmod(path, 0o755 if mode & 0o100 else 0o644)
            written += size
            listing[path.relative_to(scratch).as_posix()] = (size, digest.hexdigest())
            bar.update()
    if not listing:
        raise UnpackError(f"{archive} holds no file; fetch it again")
    return listing


def safe_path(archive: Path, name: str) -> str:
    """A member's path, or an error when it would leave the folder."""
    plain = name.replace("\\", "/")
    parts = plain.split("/")
    if plain.startswith("/") or ".." in parts or ":" in parts[0] or "\0" in plain:
        raise UnpackError(f"{archive} holds {name!r}, which leaves the folder; it is not what it should be")
    return posixpath.normpath(plain)


def _zip_entries(archive: Path) -> Iterator[Entry]:
    with zipfile.ZipFile(archive) as content:
        for info in content.infolist():
            mode = info.external_attr >> 16
            kind = mode & 0o170000
            if kind not in (0, 0o100000, 0o040000):
                raise UnpackError(f"{archive} holds {info.filename!r}, which is a link or a special file")
            if info.is_dir():
                yield info.filename, mode, None
            else:
                with content.open(info) as stream:
                    yield info.filename, mode, stream


def _tar_entries(archive: Path) -> Iterator[Entry]:
    with tarfile.open(archive) as content:
        for member in content:
            if member.isdir():
                yield member.name, member.mode, None
                continue
            if member.issym() or member.islnk():
                base = posixpath.dirname(member.name) if member.issym() else ""
                # A link is unpacked as a copy of what it points to, inside the archive and nowhere else.
                safe_path(archive, posixpath.normpath(posixpath.join(base, member.linkname)))
            elif not member.isfile():
                raise UnpackError(f"{archive} holds {member.name!r}, which is a special file")
            try:
                stream = content.extractfile(member)
            except KeyError:
                stream = None
            if stream is None:
                raise UnpackError(f"{archive} holds {member.name!r}, a link to {member.linkname!r}, which is not in it")
            yield member.name, member.mode, stream


def _move(source: Path, target: Path) -> None:
    if not target.exists():
        os.replace(source, target)
    elif _sizes(source) != _sizes(target):  # equal: moved by an earlier call that was stopped half-way
        raise UnpackError(f"{target} is there already with other files; move it away or remove it, then call again")


def _sizes(top: Path) -> dict[str, int]:
    if top.is_file():
        return {"": top.stat().st_size}
    return {path.relative_to(top).as_posix(): path.stat().st_size for path in top.rglob("*") if path.is_file()}
