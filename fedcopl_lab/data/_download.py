"""Downloads that arrive whole or not at all: resumed, retried, from several addresses, with a checksum."""

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import urllib3
from tqdm.auto import tqdm

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data._manifests import SourceFile

_BLOCK = 1 << 18  # bytes
_NETWORK = (ConnectionError, TimeoutError, requests.RequestException)
_GONE = (400, 401, 403, 404, 405, 410, 451)  # asking again will not help


class DownloadError(FedCoPLError):
    """A file could not be fetched; what has arrived is kept."""


@dataclass(frozen=True)
class Patience:
    """How long a download waits, in seconds, and how often it tries."""

    attempts: int = 6  # tries in a row without one new byte, per address
    connect: float = 20.0  # for a connection
    read: float = 60.0  # for the next bytes
    first_pause: float = 1.0  # before the second try; doubled each time
    longest_pause: float = 60.0  # between two tries

    def pause(self, failures: int, asked: float = 0.0) -> float:
        """Seconds to wait after so many failures in a row, at least what the server asked for."""
        return min(max(self.first_pause * 2.0 ** (failures - 1), asked), self.longest_pause)


PATIENCE = Patience()


def fetch(
    file: SourceFile, folder: Path, patience: Patience = PATIENCE, progress: bool = True, replace: bool = False
) -> Path:
    """Bring one file into a folder, at once when it is there already with the right checksum; its path.

    What has arrived of an unfinished download stays in ``NAME.part`` and is completed by the next call, from
    any of the addresses. A complete download with a wrong checksum is kept as ``NAME.bad`` for inspection;
    so is, with ``replace``, a file that is there with a wrong checksum.

    Raises:
        DownloadError: no address gave the file, or it differs from its checksum; names file and remedy.
    """
    path = folder / file.name
    folder.mkdir(parents=True, exist_ok=True)
    if path.is_file():
        problem = wrong(path, file)
        if not problem:
            return path
        if not replace:
            raise DownloadError(
                f"{path} {problem}; it is kept: remove it yourself, or fetch it again with --replace "
                f"(which keeps it as {path.name}.bad)"
            )
        os.replace(path, f"{path}.bad")
    if not file.urls:
        raise DownloadError(f"{file.name} cannot be fetched by a program: {file.by_hand}; then put it into {folder}")
    _ResumingDownload(file, path, patience, progress).fetch()
    return path


def wrong(path: Path, file: SourceFile) -> str:
    """What is wrong with a file that is there: its size, or its checksum; empty when nothing is."""
    size = path.stat().st_size
    if file.size and size != file.size:
        return f"has {size} bytes, but its manifest says {file.size}"
    kind, _, expected = file.checksum.partition(":")
    found = file_digest(path, kind) if kind else expected
    return "" if found == expected else f"has {kind} {found}, but its manifest says {expected}"


def file_digest(path: Path, kind: str) -> str:
    """Checksum of a file; ``kind`` is ``"sha256"`` or ``"md5"``."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


class _ResumingDownload:
    """One file's download, which goes on where it stopped."""

    def __init__(self, file: SourceFile, path: Path, patience: Patience, progress: bool) -> None:
        self.file, self.path, self.patience, self.progress = file, path, patience, progress
        self.part = Path(f"{path}.part")

    def fetch(self) -> None:
        """Fetch from one address after the other; what arrives is compared before it gets its name."""
        problems = []
        for address in self.file.urls:
            try:
                self._complete(address)
            except _GivenUpError as given_up:
                problems.append(f"{address}: {given_up}")
                continue
            problem = wrong(self.part, self.file)
            if not problem:
                os.replace(self.part, self.path)
                return
            bad = f"{self.path}.bad"
            os.replace(self.part, bad)
            problems.append(f"{address}: what arrived {problem}; it is kept as {bad}")
        kept = f"; {self.part.stat().st_size} bytes are kept, call again to go on" if self.part.is_file() else ""
        by_hand = f", or get {self.file.name} in a browser and put it into {self.path.parent}"
        raise DownloadError(f"{self.file.name} did not arrive: {'; '.join(problems)}{kept}{by_hand}")

    def _complete(self, address: str) -> None:
        """Fill the part file from one address, with as many tries as patience allows."""
        failures = 0
        size, quiet = self.file.size or None, not self.progress
        with tqdm(
            desc=self.file.name, total=size, initial=self._have(), unit="B", unit_scale=True, disable=quiet
        ) as bar:
            while True:
                before, asked = self._have(), 0.0
                try:
                    if self._once(address, bar):
                        return
                    reason = "the connection was cut"
                except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
                    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, _NETWORK):
                        raise DownloadError(
                            f"cannot write {self.part}: {error.strerror}; free some space or choose another folder"
                        ) from error
                    reason = _reason(error)
                except _BusyError as busy:
                    reason, asked = str(busy), busy.asked
                failures = 1 if self._have() > before else failures + 1
                if failures >= self.patience.attempts:
                    raise _GivenUpError(f"{reason}, {failures} times in a row without a new byte")
                time.sleep(self.patience.pause(failures, asked))

    def _once(self, address: str, bar: Any) -> bool:
        """One request; whether the part file is complete after it."""
        have = self._have()
        if self.file.size and have == self.file.size:
            return True
        if self.file.size and have > self.file.size:
            self._start_over(bar)
            have = 0
        headers = {"Accept-Encoding": "identity", "User-Agent": "fedcopl-lab"}
        if have:
            headers["Range"] = f"bytes={have}-"  # bytes of another version fail the checksum
        times = (self.patience.connect, self.patience.read)
        with requests.get(address, headers=headers, stream=True, timeout=times) as response:
            total = self._accept(response, have, bar)
            if response.status_code == 416:  # nothing is missing
                return True
            self._check(total)
            with open(self.part, "ab") as part:
                # read1 gives the bytes as they arrive, also the last ones before a cut
                read: Callable[[int], bytes] = getattr(response.raw, "read1", response.raw.read)
                while block := read(_BLOCK):
                    part.write(block)
                    bar.update(len(block))
        expected = self.file.size or total
        return not expected or self._have() >= expected

    def _accept(self, response: requests.Response, have: int, bar: Any) -> int | None:
        """Look at the answer before its bytes: the size of the whole file, when the server says it."""
        status = response.status_code
        if status in _GONE:
            raise _GivenUpError(f"HTTP {status} {response.reason}")
        if status == 416 and have:
            if not self.file.size and response.headers.get("Content-Range") == f"bytes */{have}":
                return have
            self._start_over(bar)
            raise _BusyError("the server has no bytes beyond those that are here; starting over")
        if status not in (200, 206):
            asked = response.headers.get("Retry-After", "")
            raise _BusyError(f"HTTP {status} {response.reason}", float(asked) if asked.isdigit() else 0.0)
        length = response.headers.get("Content-Length", "")
        if status == 200:
            if have:  # the server sends everything again
                self._start_over(bar)
            return int(length) if length.isdigit() else None
        start, total = _content_range(response.headers.get("Content-Range", ""))
        if start != have:
            self._start_over(bar)
            raise _BusyError(f"the server sent bytes from {start} instead of {have}; starting over")
        return total

    def _check(self, total: int | None) -> None:
        if self.file.size and total not in (None, self.file.size):
            raise _GivenUpError(f"the server has a file of {total} bytes, the manifest says {self.file.size}")
        missing = (total or self.file.size) - self._have()
        free = shutil.disk_usage(self.path.parent).free
        if missing > free:
            raise DownloadError(
                f"{self.file.name} needs {missing / 1e6:.0f} MB more, but {self.path.parent} has {free / 1e6:.0f} MB "
                "free; free some space or choose another folder"
            )

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def _start_over(self, bar: Any) -> None:
        self.part.unlink(missing_ok=True)
        bar.reset(total=self.file.size or None)


class _GivenUpError(Exception):
    """This address will not give the file."""


class _BusyError(Exception):
    """Not now; asking again may help, after the pause that the server asked for."""

    def __init__(self, reason: str, asked: float = 0.0) -> None:
        super().__init__(reason)
        self.asked = asked


def _content_range(text: str) -> tuple[int, int | None]:
    """``"bytes 5-9/10"`` -> (5, 10)."""
    found = re.match(r"bytes (\d+)-[^/]*/?(\d*)", text, re.ASCII)
    return (int(found[1]), int(found[2]) if found[2] else None) if found else (-1, None)


def _reason(error: Exception) -> str:
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError | TimeoutError):
        return "the server stopped answering"
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]
