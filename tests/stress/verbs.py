"""Ctrl-C at random moments of real commands in processes of their own, their workers included."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from findings import Finding
from servers import SlowServer
from workloads import small_manifests

SECONDS_TO_END = 2.0

_START = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it
from fedcopl_lab.cli import entry
{before}
os.write(1, b"begins\\n")
entry()
"""
_OWN_MANIFESTS = """
from pathlib import Path
import fedcopl_lab.data._manifests as manifests
manifests.manifest_folder = lambda: Path({folder!r})
"""


@dataclass(frozen=True)
class Verb:
    """A command that takes longer than the longest wait.

    Attributes:
        name: for the table.
        arguments: of the command line; ``FOLDER`` stands for an empty folder.
        before: code that runs before it.
    """

    name: str
    arguments: tuple[str, ...]
    before: str = ""


def interrupt_all(scratch: Path, seed: int, times: int) -> Iterator[Finding]:
    """Every long command is interrupted so often, from its imports on."""
    (scratch / "served").mkdir(parents=True)
    server = SlowServer(scratch / "served")
    try:
        manifests = small_manifests(scratch, server.url)
        archive = scratch / "served" / "CINIC-10.tar.gz"
        archive.write_bytes(archive.read_bytes() + bytes(20_000_000))  # slow enough to be caught at it
        moments = random.Random(seed)
        for verb in _verbs(_OWN_MANIFESTS.format(folder=str(manifests))):
            yield _interrupt_often(verb, scratch, moments, times)
    finally:
        server.close()


def _verbs(own_manifests: str) -> tuple[Verb, ...]:
    return (
        Verb("reproduce", ("reproduce", "--items", "fedcopl_main_table1", "--jobs", "2", "--quiet", "--out", "FOLDER")),
        Verb("run", ("run", "--set", "rounds=500")),
        Verb("data get", ("data", "get", "cinic10", "--quiet", "--root", "FOLDER"), own_manifests),
        Verb("bench step", ("bench", "step", "--classes", "200", "--backbone", "ViT-B-32", "--out", "FOLDER")),
        Verb("plan", ("plan", "--profile", "paper")),
        Verb("train-embedded", ("train-embedded", "tiny", "--out", "FOLDER")),
    )


def _interrupt_often(verb: Verb, scratch: Path, moments: random.Random, times: int) -> Finding:
    slowest, problems = 0.0, []
    for number in range(times):
        folder = scratch / f"{verb.name.replace(' ', '-')}-{number}"
        seconds, problem = _interrupt(verb, folder, moments.uniform(0.2, 8.0))
        slowest = max(slowest, seconds)
        problems += [problem] if problem else []
    note = "; ".join(problems)[:400] or f"{times} times: one line, exit 130, slowest after {slowest:.2f} s"
    passed = not problems and slowest < SECONDS_TO_END
    return Finding("ctrl-c", verb.name, "slowest end, s", slowest, f"below {SECONDS_TO_END:g}", passed, note)


def _interrupt(verb: Verb, folder: Path, moment: float) -> tuple[float, str]:
    folder.mkdir()
    command = [sys.executable, "-c", _START.format(before=verb.before)]
    arguments = [str(folder) if argument == "FOLDER" else argument for argument in verb.arguments]
    environment = os.environ | {"FEDCOPL_LAB_HOME": str(folder / "runs")}
    with subprocess.Popen(
        [*command, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(moment)
        if process.poll() is not None:
            return 0.0, f"ended by itself with {process.returncode}"
        since = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the command and all its workers
        try:
            _, complaint = process.communicate(timeout=60)  # until the workers have ended too
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return time.monotonic() - since, f"after {moment:.2f} s: a process of it did not end"
        seconds = time.monotonic() - since
    lines = [line for line in complaint.replace("\r", "\n").splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("fedcopl-lab: interrupted")]
    bars = [line for line in lines if "it/s" in line or "/s]" in line or "s/it" in line or "?" in line]
    if process.returncode != 130 or len(said) != 1 or len(lines) != 1 + len(bars):
        return seconds, f"after {moment:.2f} s: exit {process.returncode}, said {' / '.join(lines)[-200:]!r}"
    return seconds, ""
