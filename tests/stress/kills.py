"""Kill work at random moments, start it again, and compare every byte; Ctrl-C besides has to end it politely."""

import json
import os
import random
import shutil
import signal
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from findings import Finding
from processes import Child, Mark, SlowServer, call, start
from safetensors.torch import load
from seams import slow_disk
from workloads import Family, Files, families, visible, warm

from fedcopl_lab import cli

SECONDS_TO_END = 2.0


def kill_everything(scratch: Path, seed: int, wanted: int) -> Iterator[Finding]:
    """So many kills that fell inside each family's own part of the work, at moments that the seed decides."""
    warm()
    (scratch / "served").mkdir(parents=True)
    server = SlowServer(scratch / "served")
    try:
        # runs that a family reads are made in a fork: no gradient is computed in this process
        call(lambda: bool(families(scratch, server.url)), scratch / "families.log")
        for family in families(scratch, server.url):
            moments = random.Random(f"{seed} {family.name}")
            yield from _strike_often(family, scratch / family.name, moments, wanted)
    finally:
        server.close()


@dataclass(frozen=True)
class Strike:
    """One kill: whether it fell inside the phase, what was not as promised, seconds from the signal to the end."""

    inside: bool
    problems: tuple[str, ...]
    seconds: float


def _strike_often(family: Family, folder: Path, moments: random.Random, wanted: int) -> list[Finding]:
    durations = _observe(family, folder / "whole")
    promised = family.promised(folder / "whole")
    assert promised, f"{family.name} makes no file"
    inside: Counter[signal.Signals] = Counter()
    problems: list[str] = []
    slowest, tries = 0.0, 0
    while sum(inside.values()) < wanted and tries < 4 * wanted:
        how = (signal.SIGKILL, signal.SIGINT)[tries % 2]
        struck = _strike(family, folder / str(tries), promised, durations, moments, how)
        inside[how] += struck.inside
        problems += [f"{how.name}: {problem}" for problem in struck.problems]
        if how == signal.SIGINT and struck.inside:
            slowest = max(slowest, struck.seconds)
        shutil.rmtree(folder / str(tries), ignore_errors=True)
        tries += 1
    n, note = sum(inside.values()), "; ".join(dict.fromkeys(problems))[:400]
    note = note or f"{inside[signal.SIGKILL]} SIGKILL + {inside[signal.SIGINT]} SIGINT inside, {tries} in all"
    survived, passed = f"{wanted} or more, all with the same bytes", n >= wanted and not problems
    limit, in_time = f"below {SECONDS_TO_END:g}", slowest < SECONDS_TO_END
    return [
        Finding("kills", family.name, "kills survived", n - len(problems), survived, passed, note),
        Finding("kills", family.name, "slowest end after Ctrl-C, s", slowest, limit, in_time),
    ]


def _observe(family: Family, folder: Path) -> list[float]:
    """Do the work undisturbed; how long each call of its phases takes."""
    child = start(lambda mark: _work(family, folder, mark), folder.with_suffix(".log"))
    durations, since = [], 0.0
    while mark := child.next_mark():
        if mark == b"<":
            since = time.monotonic()
        else:
            durations.append(time.monotonic() - since)
    status, _ = child.end()
    assert not status, child.log.read_text()
    return durations


def _strike(
    family: Family, folder: Path, promised: Files, durations: list[float], moments: random.Random, how: signal.Signals
) -> Strike:
    chosen = moments.randrange(len(durations))
    delay = moments.uniform(0, durations[chosen])
    log = folder.with_suffix(".log")
    child = start(lambda mark: _as_command(lambda: _work(family, folder, mark)), log)
    inside = _wait_for(child, chosen)
    time.sleep(delay)
    since = time.monotonic()
    os.kill(child.pid, how)
    status, rest = child.end()
    seconds = time.monotonic() - since
    inside = inside and not rest.startswith(b">") and status != 0
    problems = [] if status in (0, -signal.SIGKILL) else _impolite(status, log.read_text())
    half = {name for name, content in visible(folder).items() if not _as_in_the_end(name, content, promised)}
    problems += [f"{name} was half written" for name in sorted(half)]
    again = start(lambda mark: _work(family, folder, mark), log)
    if again.end()[0]:
        problems.append(f"the next call failed: {log.read_text()[-300:]}")
    elif (found := family.promised(folder)) != promised:
        names = [name for name in sorted(found.keys() | promised.keys()) if found.get(name) != promised.get(name)]
        problems.append(f"the next call ended with other bytes: {', '.join(names)}")
    problems += [f"{path.name} is left behind" for path in folder.rglob(".*.part")]
    return Strike(inside, tuple(problems), seconds)


def _wait_for(child: Child, chosen: int) -> bool:
    """Whether the chosen call of a phase has begun."""
    begun = -1
    while begun < chosen:
        mark = child.next_mark()
        if not mark:
            return False
        begun += mark == b"<"
    return True


def _work(family: Family, folder: Path, mark: Mark) -> int:
    slow_disk()
    for owner, name in family.phases:
        setattr(owner, name, _marked(getattr(owner, name), mark))
    family.work(folder)
    return 0


def _marked(function: Callable[..., Any], mark: Mark) -> Callable[..., Any]:
    def marked(*args: Any, **kwargs: Any) -> Any:
        mark(b"<")
        result = function(*args, **kwargs)
        mark(b">")
        return result

    return marked


def _as_command(work: Callable[[], int]) -> int:
    """The work as the command line would do it: with its own answer to Ctrl-C, which is all that is looked at."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    parser = ArgumentParser()
    parser.set_defaults(command=lambda options: work())
    cli._parser = lambda: parser
    return cli.main([])


def _impolite(status: int, output: str) -> list[str]:
    lines = [line for line in output.replace("\r", "\n").splitlines() if line.strip()]
    right = len(lines) == 1 and lines[0].startswith("fedcopl-lab: interrupted")
    return [] if status == 130 and right else [f"ended with {status} and said {' / '.join(lines)[-300:]!r}"]


def _as_in_the_end(name: str, content: bytes, promised: Files) -> bool:
    """Whether a file is what the end will be, or at least whole on its own."""
    try:
        if name.endswith(".json"):
            json.loads(content)
        if name.endswith(".safetensors"):
            load(content)
    except Exception:
        return False
    return promised.get(name, content) == content
