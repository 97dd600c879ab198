"""Sets and weights on this machine: fetched and unpacked, checked file by file, found."""

import dataclasses
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import check_writable, to_json, write_atomic
from fedcopl_lab.data._download import fetch, file_digest, wrong
from fedcopl_lab.data._folders import data_root, find_set, set_folder, weights_folders
from fedcopl_lab.data._manifests import Member, SourceFile, downloads_of, load_manifest
from fedcopl_lab.data._readers import read_source
from fedcopl_lab.data._unpack import unpack

State = Literal["here", "partly", "absent", "packaged"]


@dataclass(frozen=True)
class Download:
    """A set or weights as its manifest describes it."""

    name: str  # the manifest's name
    kind: str  # "dataset" or "weights"
    files: tuple[SourceFile, ...]  # what is downloaded
    members: tuple[Member, ...]  # files inside the archives with published checksums
    folder: Path  # where it belongs

    @property
    def size(self) -> int:
        """Bytes to download, as far as they are known."""
        return sum(file.size for file in self.files)

    def __repr__(self) -> str:
        return f"Download({self.name}: {len(self.files)} file(s), {self.size / 1e6:.0f} MB or more, into {self.folder})"


@dataclass(frozen=True)
class Verification:
    """What a check of all files found."""

    name: str  # the set
    checked: int  # number of files that were read and compared
    problems: tuple[str, ...]  # one line per file that is missing or differs; empty when all is right
    remarks: tuple[str, ...]  # what could not be compared, and why

    def __repr__(self) -> str:
        return f"Verification({self.name}: {self.checked} files, {len(self.problems)} problem(s))"


def download_of(name: str, root: str | Path | None = None) -> Download:
    """What is to be downloaded for a set or for weights, and where it belongs.

    >>> download_of("svhn", "/sets")
    Download(svhn: 2 file(s), 246 MB or more, into /sets/svhn)
    """
    return Download(name, *downloads_of(name), set_folder(name, root))


def get(name: str, root: str | Path | None = None, replace: bool = False, progress: bool = True) -> Path:
    """Fetch and unpack a set or weights, at once when everything is there; the set's folder.

    Args:
        name: a manifest's name, such as ``"cifar10"``.
        root: folder of all data; None takes ``$FEDCOPL_LAB_DATA``, else the user's cache folder.
        replace: fetch again what differs from its checksum; the old files are kept as ``NAME.bad``.
        progress: show bars.

    Raises:
        FedCoPLError: nothing to download, files that do not arrive, a checksum that differs.

    Shown in notebook ``data_check``.
    """
    download = download_of(name, root)
    if not download.files:
        raise FedCoPLError(f"{name} is part of the package; there is nothing to download")
    with suppress(FedCoPLError):  # placed by hand elsewhere
        download = _placed(download, root)
    if download.kind == "dataset" or replace or state_of(name, root) != "here":  # shared weights may be read-only
        check_writable(download.folder)
    with FileLock(data_root(root) / f"{name}.lock"):
        if replace:
            _put_bad_aside(download)
        problems = []
        for file in download.files:
            try:
                _get_file(download, file, replace, progress)
            except FedCoPLError as problem:  # the others are fetched all the same
                problems.append(str(problem))
        if problems:
            raise FedCoPLError("; ".join(problems))
    return download.folder


def verify(name: str, root: str | Path | None = None) -> Verification:
    """Read every file of a set and compare it with its manifest; nothing is changed.

    Raises:
        FedCoPLError: when the set is not there at all, or part of the package.

    Shown in notebook ``data_check``.
    """
    download = _placed(download_of(name, root), root)
    checked, problems, remarks = 0, [], []
    for file in download.files:
        path = download.folder / file.name
        if path.is_file():
            checked += bool(file.checksum)
            problem = wrong(path, file)
            if problem:
                problems.append(f"{path} {problem}")
            if not file.checksum:
                remarks.append(f"{path}: no checksum is published")
        elif not file.unpack:
            problems.append(f"{path} is missing")
    expected = _expected(download)
    differing = ((path, _differs(path, *known)) for path, known in expected)
    problems += [f"{path} {problem}" for path, problem in differing if problem]
    if download.kind == "dataset" and not download.members and not problems:
        listed, problems = _listed_files(name, root)
        if not any(_record(download, file) for file in download.files if file.unpack) and listed:
            remarks.append(f"{listed} images are there; their bytes were not compared: they were not unpacked by `get`")
    return Verification(name, checked + len(expected), tuple(problems), tuple(remarks))


def state_of(name: str, root: str | Path | None = None) -> State:
    """Whether a set is there, by its names only.

    >>> state_of("digits"), state_of("cub", "/nowhere")
    ('packaged', 'absent')
    """
    download = download_of(name, root)
    if not download.files:
        return "packaged"
    try:
        download = _placed(download, root)
    except FedCoPLError:
        return "partly" if download.folder.is_dir() and any(download.folder.iterdir()) else "absent"
    loose = all((download.folder / file.name).is_file() for file in download.files if not file.unpack)
    return "here" if loose and _has_members(download) else "partly"


def _has_members(download: Download) -> bool:
    return all((download.folder / member.path).is_file() for member in download.members)


def _get_file(download: Download, file: SourceFile, replace: bool, progress: bool) -> None:
    # whether members that lie in place are right is for `verify` to say
    members_there = download.members and _has_members(download)
    if file.unpack and (_record(download, file) is not None or members_there):
        return
    path = fetch(file, download.folder, progress=progress, replace=replace)
    if file.unpack:
        listing = unpack(path, download.folder / file.unpack, progress)
        # written last: its presence says that everything was moved into place
        write_atomic(_record_path(download, file), to_json({k: list(v) for k, v in listing.items()}))


def _expected(download: Download) -> list[tuple[Path, tuple[str, str, int]]]:
    """Every unpacked file with (kind of checksum, checksum, size or 0)."""
    known = {download.folder / member.path: ("md5", member.md5, 0) for member in download.members}
    for file in download.files:
        for name, (size, sha256) in (_record(download, file) or {}).items():
            known.setdefault(download.folder / file.unpack / name, ("sha256", sha256, size))
    return sorted(known.items())


def _differs(path: Path, kind: str, expected: str, size: int) -> str:
    try:
        if size and path.stat().st_size != size:
            return f"has {path.stat().st_size} bytes instead of {size}"
        found = file_digest(path, kind)
    except OSError as error:
        return f"cannot be read ({error.strerror})" if path.exists() else "is missing"
    return "" if found == expected else f"has {kind} {found} instead of {expected}"


def _listed_files(name: str, root: str | Path | None) -> tuple[int, list[str]]:
    """Number of images that the official lists name, and those of them that are missing."""
    try:
        source = read_source(load_manifest(name), root)
    except FedCoPLError as problem:
        return 0, [str(problem)]
    paths = [source.root / image for image in source.names]
    with ThreadPoolExecutor() as pool:
        there = pool.map(Path.is_file, paths)
        missing = [f"{path} is missing" for path, is_there in zip(paths, there, strict=True) if not is_there]
    return len(paths), missing


def _put_bad_aside(download: Download) -> None:
    """Rename unpacked files that differ, together with their top folder, so that they are unpacked again."""
    bad = [path for path, expected in _expected(download) if _differs(path, *expected)]
    for top in sorted({download.folder / path.relative_to(download.folder).parts[0] for path in bad}):
        if top.exists():
            names = (top.with_name(f"{top.name}.bad{number or ''}") for number in range(1000))
            os.replace(top, next(name for name in names if not name.exists()))
    if bad:
        for file in download.files:
            _record_path(download, file).unlink(missing_ok=True)


def _placed(download: Download, root: str | Path | None) -> Download:
    """The download with the folder its files really lie in."""
    if not download.files:
        raise FedCoPLError(f"{download.name} is part of the package and checked when it is loaded; nothing to verify")
    if download.kind == "dataset":
        return dataclasses.replace(download, folder=find_set(load_manifest(download.name), root))
    for folder in weights_folders(download.name, root):
        if all((folder / file.name).is_file() for file in download.files):
            return dataclasses.replace(download, folder=folder)
    raise FedCoPLError(
        f"{download.name} is not in {download.folder}; fetch it with `fedcopl-lab data get {download.name}`"
    )


def _record_path(download: Download, file: SourceFile) -> Path:
    return download.folder / f"{file.name}.files.json"


def _record(download: Download, file: SourceFile) -> dict[str, Any] | None:
    """What was unpacked from an archive: size and sha256 of every file."""
    path = _record_path(download, file)
    try:
        table: dict[str, Any] | None = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    except ValueError as error:
        raise FedCoPLError(f"{path} is not valid JSON ({error}); remove it and call `data get` again") from error
    return table
