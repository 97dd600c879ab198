"""The run store: one folder per run key, written a round at a time, resumable, shared by locks."""

import hashlib
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from filelock import FileLock, Timeout

from fedcopl_lab._errors import FedCoPLError, StoreError
from fedcopl_lab._files import REMEDY, read_table, read_tensors, store_root, tensor_bytes, to_json, write_atomic
from fedcopl_lab._html import folded, table
from fedcopl_lab.config import STORED_NAMES, PromptConfig, RunConfig, config_from, setting_names

if TYPE_CHECKING:
    from torch import Tensor


class Run:
    """One stored run, complete or under way; ``lab.run`` computes one, ``lab.runs`` lists all.

    Its folder holds ``config.json``, ``split.json`` (which client has which images), ``rounds/NNNN.json``
    (one row per round), ``state-NNNN.safetensors`` (prompts and pseudo-labels after the last round) with its
    checksum and, once complete, ``result.json``. The same run key gives the same bytes of these; ``environment.json``
    and ``seconds.json`` say where and how fast, and differ.

    >>> run = lab.run(lab.configure("smoke", method="zero-shot"), progress=False)
    >>> run.complete, run.rows["round"].tolist()
    (True, [0])

    Shown in notebook ``00_quickstart``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def key(self) -> str:
        """The run key: the folder's name."""
        return self.path.name

    @property
    def complete(self) -> bool:
        """Whether all rounds are stored."""
        return (self.path / "result.json").is_file()

    @cached_property
    def config(self) -> RunConfig:
        """The configuration that was run."""
        path = self.path / "config.json"
        try:
            return config_from(read_table(path))
        except StoreError:
            raise
        except (TypeError, FedCoPLError) as error:
            way_out = "read it with the version that wrote it, or remove its run folder"
            raise StoreError(f"{path} does not fit this version ({error}); {way_out}") from error

    @property
    def result(self) -> dict[str, Any]:
        """The last round's numbers."""
        return single_numbers(read_table(self.path / "result.json"))

    @property
    def environment(self) -> dict[str, Any]:
        """Machine, packages and time of the computation."""
        return read_table(self.path / "environment.json")

    @property
    def split(self) -> dict[str, Any]:
        """Training and test image indices of each client, with their sha256."""
        return read_table(self.path / "split.json")

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of all rounds."""
        path = self.path / "seconds.json"
        if not path.is_file():
            return 0.0
        try:
            return float(sum(read_table(path).values()))
        except TypeError as error:
            raise StoreError(f"{path} holds something else than seconds; {REMEDY}") from error

    def records(self, last: int = 0) -> list[dict[str, Any]]:
        """The rounds' rows as stored, with lists per client and, where labels were made, their counts.

        Args:
            last: only so many from the end; 0: all.

        Raises:
            StoreError: a row is missing or cannot be read.
        """
        end = read_table(self.path / "result.json", ("round",))["round"] if self.complete else None  # before the rows
        files = self._row_files()
        self._check_gaps([int(path.stem) for path in files], end)
        found = [(path, read_table(path, ("round",))) for path in files[-last:]]
        for path, row in found:
            if row["round"] != int(path.stem):
                raise StoreError(f"{path} is the row of round {row['round']!r}; {REMEDY}")
        return [row for _, row in found]

    @property
    def rows(self) -> pd.DataFrame:
        """One row per round: accuracies, losses, drift, pseudo-label accuracy, bytes."""
        return pd.DataFrame([single_numbers(row) for row in self.records()])

    @property
    def clients(self) -> pd.DataFrame:
        """One row per round and client: accuracy, test images, selected images, pseudo-label accuracy."""
        frames = []
        try:
            for row in self.records():
                frame = pd.DataFrame(row["clients"]).rename_axis("client").reset_index()
                frames.append(frame.assign(round=row["round"]))
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"a row of {self.path} holds no clients as they are stored ({error}); {REMEDY}") from error
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    @property
    def label_phases(self) -> dict[int, dict[str, Any]]:
        """Round -> counts [K][C] of its label phase: true, filtered, quota, selected and how many are right."""
        return {row["round"]: row["labels"] for row in self.records() if "labels" in row}

    def load_prompts(self) -> "dict[str, Tensor]":
        """The stored prompts: ``text`` and ``visual`` per client, [K, …], and the server's where it has them.

        Raises:
            FedCoPLError: a run that trains a whole model instead of prompts.
        """
        if not isinstance(self.config, PromptConfig):
            raise FedCoPLError(f"{self.config.label} trains a model, not prompts; load_state() has it as model/...")
        tensors = self.load_state()
        prompts = {name: value for name, value in tensors.items() if name.startswith(("clients.", "server."))}
        return {name.removeprefix("clients.").replace("server.", "server_"): value for name, value in prompts.items()}

    def load_state(self) -> "dict[str, Tensor]":
        """All tensors after the last stored round; empty before the first.

        Raises:
            StoreError: the file cannot be read, or its content is not the one whose checksum was stored with it.
        """
        done = self.rounds_done()
        if not done:
            return {}
        path, written = self._state_file(done), self._state_file(done).with_suffix(".sha256")
        promised = written.read_bytes().strip() if path.is_file() and written.is_file() else b""  # older stores: none
        if promised and hashlib.sha256(path.read_bytes()).hexdigest().encode() != promised:
            raise StoreError(f"{path} was damaged after it was written: its checksum differs; {REMEDY}")
        return read_tensors(path)

    def step_back(self) -> bool:
        """Drop the last round where the state before it is there, so that a damaged state costs one round alone."""
        last = self.rounds_done()
        if last > 1 and not self._state_file(last - 1).is_file():
            return False
        (self.path / "rounds" / f"{last:04d}.json").unlink()
        return True

    def predict(self, images: "Tensor", client: int = 0) -> "Tensor":
        """Classes that a client's final model gives to new uint8 images, [n, 3, H, W] -> [n].

        Raises:
            FedCoPLError: the run is not complete, or has no such client; images are no uint8 tensor of its size.
        """
        from torch import Tensor  # the rest of the store does not need it

        from fedcopl_lab.methods import predict_images

        if not isinstance(images, Tensor):
            raise FedCoPLError(f"images are a {type(images).__name__}; give a tensor, such as torch.from_numpy(images)")
        if not self.complete:
            raise FedCoPLError(f"run {self.key} is not complete; run it again to finish it")
        return predict_images(self.config, self.load_state(), images, client, self.split)

    def rounds_done(self) -> int:
        """Rounds that are stored; a row is written only after its state."""
        return max((int(path.stem) for path in self._row_files()), default=0)

    def __repr__(self) -> str:
        return f"Run({self.key}: {self.config.label}, {self._progress()})"

    def _repr_html_(self) -> str:
        last = {"state": self._progress(), "seconds": self.seconds} | (self.result if self.complete else {})
        shown, rows = self.rows.iloc[:, :6], list(last.items())[:6]
        rounds = folded(f"{len(shown)} rounds", table(shown.to_numpy().tolist(), list(map(str, shown))))
        return table(rows, caption=f"{self.config.label} ({self.key})") + rounds + self.config._repr_html_()

    def _progress(self) -> str:
        return "complete" if self.complete else f"{self.rounds_done()} of {self.config.rounds} rounds stored"

    def _row_files(self) -> list[Path]:
        files = (path for path in (self.path / "rounds").glob("[0-9]*.json") if path.stem.isdecimal())
        return sorted(files, key=lambda path: int(path.stem))

    def _check_gaps(self, numbers: list[int], end: int | None) -> None:
        """Rows count from round 1, and a run without training has one of round 0; ``end`` is a complete run's last."""
        wanted = [0] if end == 0 else range(1, 1 + (end or max(numbers, default=0)))
        if missing := set(wanted).difference(numbers):
            raise StoreError(f"{self.path} lacks the row of round {min(missing)}; {REMEDY}")

    def _state_file(self, round_index: int) -> Path:
        return self.path / f"state-{round_index:04d}.safetensors"

    def commit(self, row: dict[str, Any], tensors: "dict[str, Tensor]", seconds: float) -> None:
        """Store a round: first the state, then the row that makes it count, then the state before the last one goes."""
        number = row["round"]
        if tensors:
            content = tensor_bytes(tensors)
            write_atomic(self._state_file(number), content)
            write_atomic(self._state_file(number).with_suffix(".sha256"), hashlib.sha256(content).hexdigest() + "\n")
        timing = self.path / "seconds.json"
        so_far = read_table(timing) if timing.is_file() else {}
        write_atomic(timing, to_json({**so_far, f"{number:04d}": round(seconds, 3)}))
        write_atomic(self.path / "rounds" / f"{number:04d}.json", to_json(row))
        self._drop_older_states(number - 1)

    def _drop_older_states(self, number: int) -> None:
        for path in self.path.glob("state-*.s*"):
            stem = path.stem.removeprefix("state-")
            if stem.isdecimal() and int(stem) < number:  # never a newer one: another worker may have taken the run over
                path.unlink()

    def finish(self) -> None:
        """Mark the run complete with its last row, strings included: its bytes are those of every version."""
        last = self.records()[-1]
        self._drop_older_states(last["round"])  # a kill may have left one behind the last row
        kept = {name: value for name, value in last.items() if not isinstance(value, dict | list)}
        write_atomic(self.path / "result.json", to_json(kept))


def single_numbers(row: dict[str, Any]) -> dict[str, Any]:
    """The part of a stored row that is a line of ``Run.rows``: no lists, no tables and no strings of digits."""
    return {name: value for name, value in row.items() if not isinstance(value, dict | list | str)}


class Store:
    """All runs under one folder.

    Args:
        root: the folder; None takes ``$FEDCOPL_LAB_HOME``, else ``runs/`` of the checkout.
    """

    def __init__(self, root: Path | str | None = None) -> None:
        self.root = Path(root).resolve() if root else store_root()

    def run(self, key: str) -> Run:
        """The run of that key, whether or not it exists yet; refuses a key that is no name of a folder."""
        if not re.fullmatch(r"\w[\w.-]{0,99}", key):
            raise FedCoPLError(f"{key[:100]!r} is no run key; expected one as of `fedcopl-lab runs list`")
        return Run(self.root / key)

    def find(self, prefix: str) -> Run:
        """The one stored run whose key starts with ``prefix``."""
        found = [run for run in self.runs() if run.key.startswith(prefix)]
        if len(found) != 1:
            several = f"{len(found)} stored runs start with {prefix!r}"
            raise FedCoPLError(f"{several}; expected one: see `fedcopl-lab runs list`")
        return found[0]

    def runs(self) -> list[Run]:
        """Every run of the store, complete or not."""
        return [Run(path.parent) for path in sorted(self.root.glob("*/config.json"))]

    @contextmanager
    def locked(self, key: str) -> Iterator[Run]:
        """Hold a run for writing; a second process waits, and the kernel frees a dead holder's lock."""
        run = self.run(key)
        lock = FileLock(self.root / ".locks" / f"{key}.lock")
        try:
            Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except OSError as error:
            way_out = "make it writable or set FEDCOPL_LAB_HOME"
            raise StoreError(f"cannot write to the run store {self.root}: {error.strerror}; {way_out}") from error
        try:
            yield run
        finally:
            lock.release()

    def remove_incomplete(self) -> list[str]:
        """Delete runs that are not complete and that no process computes now; returns their keys."""
        gone = []
        for run in self.runs():
            with suppress(Timeout), FileLock(self.root / ".locks" / f"{run.key}.lock", timeout=0):
                if not run.complete:  # read under the lock: its holder may just have finished it
                    shutil.rmtree(run.path)
                    gone.append(run.key)
        return gone


def runs(store: Store | None = None, /, **filters: Any) -> pd.DataFrame:
    """All stored runs as a table; ``lab.run`` computes a single one, which is a ``Run``.

    Args:
        store: where to look; None takes the default store.
        filters: settings of a run and the value they must have.

    Returns:
        One row per run: key, complete, settings, the last round's numbers, seconds.

    Raises:
        FedCoPLError: a filter that is no setting.

    >>> run = lab.run(lab.configure("smoke", method="zero-shot"), progress=False)
    >>> len(lab.runs(method="zero-shot", beta=0.1)), lab.runs(method="FedCoPL").empty
    (1, True)

    Shown in notebook ``00_quickstart``.
    """
    wanted = {STORED_NAMES.get(name, name): value for name, value in filters.items()}
    unknown = set(wanted) - {STORED_NAMES.get(name, name) for name in setting_names()}
    if unknown:
        raise FedCoPLError(f"unknown settings {sorted(unknown)}; expected settings such as method or beta")
    rows = []
    for run in (store or Store()).runs():
        settings = RunConfig.as_dict(run.config)  # whole: SageConfig's leaves out later settings
        if all(settings.get(name, ...) == value for name, value in wanted.items()):
            last = run.result if run.complete else {}
            rows.append({"key": run.key, "complete": run.complete, **settings, **last, "seconds": run.seconds})
    return pd.DataFrame(rows)
