"""``fedcopl-lab federate``: its options, and what its verbs do: split, simulate, traffic, collect, virtual."""

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.cli.options import add_profile, add_settings, configured, parse_settings, refuse_beside

if TYPE_CHECKING:
    from fedcopl_lab.config import RunConfig

Command = Callable[[argparse.Namespace], int]
TRAFFIC = ("round", "bytes_up", "bytes_down", "wire_up", "wire_down")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The verbs of ``federate`` and their options."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    def verb(name: str, command: Command, text: str, description: str | None = None) -> argparse.ArgumentParser:
        one = verbs.add_parser(name, help=text, description=description)
        one.set_defaults(command=command)
        return one

    one = verb(
        "split",
        _split,
        "write the server's and each client's own files",
        "Writes FOLDER/server and FOLDER/client-0000, …: copy each client's to its machine, and start the nodes as "
        "deployment/README.md says.",
    )
    _add_run_options(one)
    one.add_argument("folder", help="where to write")
    compact = "clients go through their own images only; the same numbers up to rounding"
    one.add_argument("--compact", action="store_true", help=compact)
    one.add_argument("--secret-noise", action="store_true", help="with count_noise: noise that no seed tells")
    one = verb(
        "simulate",
        _simulate,
        "run the federation on this machine and store it",
        "With Flower's simulation (extra cluster), or with --engine loop client after client in this process. Stores "
        "the bytes that `fedcopl-lab run` stores with clients_per_forward=1.",
    )
    _add_run_options(one)
    one.add_argument("--engine", choices=("flower", "loop"), default="flower")
    one.add_argument("--folder", help="where server and clients keep their files (default: a temporary one)")
    one.add_argument("--jobs", type=int, help="Flower's clients at a time (default: 2)")
    one = verb("traffic", _traffic, "a federation's rounds: who answered, bytes, faults")
    one.add_argument("folder", help="the server's")
    one = verb(
        "collect",
        _collect,
        "make a finished federation a stored run",
        "For experiments, where all folders can be brought together: the run's rows compare clients with each other "
        "and with true labels, which no machine of a federation can.",
    )
    one.add_argument("server", help="the server's folder")
    one.add_argument("clients", nargs="+", help="all clients' folders")
    one = verb(
        "virtual",
        _virtual,
        "measure a federation of many thousand clients on this machine",
        "Clients draw printed digits from (seed, client), keep their state on disk and exist only while they answer. "
        "Prints memory, time for each letter and bytes as JSON.",
    )
    one.add_argument("--method", default="FedCoPL", help="a method of FedCoPL's tables (default: FedCoPL)")
    one.add_argument("--clients", type=int, default=10_000)
    one.add_argument("--share", type=float, default=0.01, help="of the clients in a round (default: 0.01)")
    one.add_argument("--rounds", type=int, default=3)
    one.add_argument("--folder", help="where the clients keep their state (default: a temporary one)")


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    add_profile(parser)
    parser.add_argument("--method", default="FedCoPL", help="a method of either paper (default: FedCoPL)")
    parser.add_argument("--seed", type=int, default=0)
    add_settings(parser, "--set", "any setting")


def _split(options: argparse.Namespace) -> int:
    from fedcopl_lab.extras.federation import split

    for folder in split(_config(options), options.folder, not options.compact, options.secret_noise):
        print(folder)
    return 0


def _simulate(options: argparse.Namespace) -> int:
    from fedcopl_lab.extras import federation
    from fedcopl_lab.extras.federation.flower import simulate

    config = _config(options)
    if options.engine == "flower":
        run = simulate(config, folder=options.folder, processes=2 if options.jobs is None else options.jobs)
    else:
        refuse_beside("--engine loop", jobs=options.jobs)
        with tempfile.TemporaryDirectory() as temporary:
            server, *clients = federation.split(config, options.folder or temporary)
            federation.serve(server, federation.Loopback(map(federation.open_member, clients)))
            run = federation.collect(server, clients)
    print(f"{run.config.label}: accuracy {run.result['accuracy']:.4f}, key {run.key}")
    return 0


def _traffic(options: argparse.Namespace) -> int:
    from fedcopl_lab.store import Run

    log = Run(Path(options.folder) / "log")
    records = log.records()
    if not records:
        raise FedCoPLError(f"{options.folder} holds no round; give the server's folder of a federation that has run")
    rows = log.rows
    print(rows[[name for name in TRAFFIC if name in rows]].to_string(index=False))
    for row in records:
        for fault in row["faults"]:
            print(f"round {row['round']}: client {fault['client']} {fault['what']} ({fault['kind']})")
    return 0


def _collect(options: argparse.Namespace) -> int:
    from fedcopl_lab.extras.federation import collect

    run = collect(options.server, options.clients)
    print(f"{run.config.label}: stored as {run.key}")
    return 0


def _virtual(options: argparse.Namespace) -> int:
    from fedcopl_lab._files import to_json
    from fedcopl_lab.config import PromptConfig, configure
    from fedcopl_lab.extras.federation import measure_virtual

    settings: dict[str, Any] = {"n_clients": options.clients, "participation": options.share, "rounds": options.rounds}
    settings |= {"local_epochs": 1, "refresh_every": 0, "clients_per_forward": 1}
    config = configure("smoke", method=options.method, **settings)
    if not isinstance(config, PromptConfig):
        raise FedCoPLError(f"virtual clients tune prompts; {options.method} trains a model: choose FedCoPL or PromptFL")
    with tempfile.TemporaryDirectory() as temporary:
        print(to_json(measure_virtual(config, options.folder or temporary)), end="")
    return 0


def _config(options: argparse.Namespace) -> "RunConfig":
    config = configured(options)
    chosen = "clients_per_forward" in parse_settings(options.settings)
    return config if chosen else replace(config, clients_per_forward=1)
