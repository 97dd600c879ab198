"""Ctrl-C at random moments of real commands in processes of their own, their workers included."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from findings import Finding
from processes import SlowServer
from workloads import small_manifests

SECONDS_TO_END = 2.0
VERBS = {  # each takes longer than the longest wait; FOLDER stands for an empty folder
    "reproduce": "reproduce --items fedcopl_main_table1 --jobs 2 --quiet --out FOLDER",
    "run": "run --set rounds=500",
    "data get": "data get cinic10 --quiet --root FOLDER",
    "bench step": "bench step --classes 200 --backbone ViT-B-32 --out FOLDER",
    "plan": "plan --profile paper",
    "train-embedded": "train-embedded tiny --out FOLDER",
}

_START = """
import os, signal, sys
sys.path.insert(0, {here!r})
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it
from pathlib import Path
from fedcopl_lab.cli import entry
if sys.argv[1] == "data":
    import seams
    for owner, name, value in seams.everywhere("data", "manifest_folder", lambda: Path({manifests!r})):
        setattr(owner, name, value)
os.write(1, b"begins\\n")
entry()
"""


def interrupt_all(scratch: Path, seed: int, times: int) -> Iterator[Finding]:
    """Every long command is interrupted so often, from its imports on."""
    (scratch / "served").mkdir(parents=True)
    server = SlowServer(scratch / "served")
    try:
        manifests = small_manifests(scratch, server.url)
        archive = scratch / "served" / "CINIC-10.tar.gz"
        archive.write_bytes(archive.read_bytes() + bytes(20_000_000))  # slow enough to be caught at it
        moments = random.Random(seed)
        program = _START.format(here=str(Path(__file__).parent), manifests=str(manifests))
        for verb in VERBS:
            folders = [scratch / f"{verb.replace(' ', '-')}-{number}" for number in range(times)]
            ends = [_interrupt(program, VERBS[verb], folder, moments.uniform(0.2, 8.0)) for folder in folders]
            slowest, problems = max(seconds for seconds, _ in ends), [problem for _, problem in ends if problem]
            note = "; ".join(problems)[:400] or f"{times} times: one line, exit 130, slowest after {slowest:.2f} s"
            passed = not problems and slowest < SECONDS_TO_END
            yield Finding("ctrl-c", verb, "slowest end, s", slowest, f"below {SECONDS_TO_END:g}", passed, note)
    finally:
        server.close()


def _interrupt(program: str, verb: str, folder: Path, moment: float) -> tuple[float, str]:
    """Seconds until the command and its workers have ended, and what was not as promised."""
    folder.mkdir()
    command = [sys.executable, "-c", program, *verb.replace("FOLDER", str(folder)).split()]
    environment = os.environ | {"FEDCOPL_LAB_HOME": str(folder / "runs")}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
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
