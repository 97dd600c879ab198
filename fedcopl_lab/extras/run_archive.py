"""Runs in one file: settings, split, rounds and times without prompts or models, to be judged on another machine."""

import io
import lzma
import re
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fedcopl_lab._errors import FedCoPLError, StoreError
from fedcopl_lab._files import write_atomic
from fedcopl_lab.store import Run, Store

_NAME = re.compile(r"(\w[\w.-]{0,99})/((config|environment|seconds|split|result)\.json|rounds/\d{4,}\.json)")


def write_archive(path: Path | str, runs: Sequence[Run]) -> list[str]:
    """Write complete runs to a ``.tar.xz``; the same runs give the same bytes. Returns their keys.

    Raises:
        FedCoPLError: none of the runs is complete.

    >>> run = lab.run(lab.configure("smoke", method="zero-shot"), progress=False)
    >>> write_archive("runs.tar.xz", [run]) == [run.key]
    True
    """
    complete = sorted((run for run in runs if run.complete), key=lambda run: run.key)
    if not complete:
        raise FedCoPLError(f"none of {len(runs)} runs is complete; see `fedcopl-lab runs list`")
    files = {f"{run.key}/{file.relative_to(run.path).as_posix()}": file
             for run in complete for file in run.path.rglob("*.json")}  # fmt: skip
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files, key=lambda name: (files[name].name, name)):  # alike beside alike: they compress
            info, file = tarfile.TarInfo(name), files[name]
            if _NAME.fullmatch(name):
                info.size = file.stat().st_size
                archive.addfile(info, io.BytesIO(file.read_bytes()))
    write_atomic(Path(path), lzma.compress(content.getvalue(), preset=9))
    return [run.key for run in complete]


def read_archive(path: Path | str, store: Store) -> list[str]:
    """Add the runs of an archive that a store lacks; returns their keys.

    Such a run is complete: claims, tables and figures read it. It has no prompts or models to load; remove its folder
    and run it again for those.

    Raises:
        StoreError: the file cannot be read, or holds something else than runs.
    """
    added: list[str] = []
    try:
        with tarfile.open(path, "r:xz") as archive, tempfile.TemporaryDirectory() as scratch:
            names = [member.name for member in archive]
            strange = [name for name in names if not _NAME.fullmatch(name)]
            if strange or not all(member.isfile() for member in archive):
                raise StoreError(f"{path} holds {strange or 'links'}, which is no file of a run; nothing was taken")
            archive.extractall(scratch, filter="data")
            for folder in sorted(Path(scratch).iterdir()):
                with store.locked(folder.name) as run:
                    if run.complete or not all((folder / f"{name}.json").is_file() for name in ("config", "result")):
                        continue
                    Run(folder).records()  # readable, or an error that names the file
                    if run.path.exists():  # under way here; its rounds are the same
                        shutil.rmtree(run.path)
                    shutil.copytree(folder, run.path, ignore=shutil.ignore_patterns("result.json"))
                    # last: a run with it counts as complete
                    write_atomic(run.path / "result.json", (folder / "result.json").read_bytes())
                    added.append(run.key)
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError) as error:
        raise StoreError(f"cannot read {path}: {error}; expected what `fedcopl-lab runs pack` wrote") from error
    return added
