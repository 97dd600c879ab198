"""``fedcopl-lab federate``: its options, and what its verbs do: split, simulate, traffic, collect, virtual."""

import argparse
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedcopl_lab._errors import FedCoPLError

if TYPE_CHECKING:
    from fedcopl_lab.config import RunConfig
    from fedcopl_lab.store import Run

TRAFFIC = ("round", "bytes_up", "bytes_down", "wire_up", "wire_down")


def add_federate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command with its verbs."""
    parser = commands.add_parser("federate", help="a run as a federation of separate clients")
    verbs = parser.add_subparsers(metavar="VERB", dest="verb", required=True)
    one = verbs.add_parser(
        "split",
        help="write the server's and each client's own files",
        description="Writes FOLDER/server and FOLDER/client-0000, …: copy each client's to its machine, and start "
        "the nodes as deployment/README.md says.",
    )
    _add_run_options(one)
    one.add_argument("folder", help="where to write")
    one.add_argument(
        "--compact",
        action="store_true",
        help="clients go through their own images only; the same numbers up to rounding",
    )
    one.add_argument("--secret-noise", action="store_true", help="with count_noise: noise that no seed tells")
    here = verbs.add_parser(
        "simulate",
        help="run the federation on this machine and store it",
        description="With Flower's simulation (extra cluster), or with --engine loop client after client in this "
        "process. Stores the bytes that `fedcopl-lab run` stores with clients_per_forward=1.",
    )
    _add_run_options(here)
    here.add_argument("--engine", choices=("flower", "loop"), default="flower")
    here.add_argument("--folder", help="where server and clients keep their files (default: a temporary one)")
    here.add_argument("--jobs", type=int, default=2, help="clients at a time (default: 2)")
    traffic = verbs.add_parser("traffic", help="a federation's rounds: who answered, bytes, faults")
    traffic.add_argument("folder", help="the server's")
    back = verbs.add_parser(
        "collect",
        help="make a finished federation a stored run",
        description="For experiments, where all folders can be brought together: the run's rows compare clients "
        "with each other and with true labels, which no machine of a federation can.",
    )
    back.add_argument("server", help="the server's folder")
    back.add_argument("clients", nargs="+", help="all clients' folders")
    many = verbs.add_parser(
        "virtual",
        help="measure a federation of many thousand clients on this machine",
        description="Clients draw printed digits from (seed, client), keep their state on disk and exist only while "
        "they answer. Prints memory, time for each letter and bytes as JSON.",
    )
    many.add_argument("--method", default="FedCoPL", help="a method of FedCoPL's tables (default: FedCoPL)")
    many.add_argument("--clients", type=int, default=10_000)
    many.add_argument("--share", type=float, default=0.01, help="of the clients in a round (default: 0.01)")
    many.add_argument("--rounds", type=int, default=3)
    many.add_argument("--folder", help="where the clients keep their state (default: a temporary one)")
    for verb in (one, here, traffic, back, many):
        verb.set_defaults(command=lambda options: VERBS[options.verb](options))


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", help="smoke or paper (default: $FEDCOPL_LAB_PROFILE, else smoke)")
    parser.add_argument("--method", default="FedCoPL", help="a method of either paper (default: FedCoPL)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="NAME=VALUE", help="any setting")


def split(options: argparse.Namespace) -> int:
    """Write a federation's files."""
    from fedcopl_lab.extras import federation as federated

    for folder in federated.split(_config(options), options.folder, not options.compact, options.secret_noise):
        print(folder)
    return 0


def simulate(options: argparse.Namespace) -> int:
    """Run a federation on this machine."""
    config = _config(options)
    if options.engine == "flower":
        from fedcopl_lab.extras.federation.flower import simulate as by_flower

        run = by_flower(config, folder=options.folder, processes=options.jobs)
    else:
        run = _in_this_process(config, options.folder)
    print(f"{run.config.label}: accuracy {run.result['accuracy']:.4f}, key {run.key}")
    return 0


def traffic(options: argparse.Namespace) -> int:
    """Print a federation's rounds."""
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


def collect(options: argparse.Namespace) -> int:
    """Make a federation a stored run."""
    from fedcopl_lab.extras import federation as federated

    run = federated.collect(options.server, options.clients)
    print(f"{run.config.label}: stored as {run.key}")
    return 0


def virtual(options: argparse.Namespace) -> int:
    """Measure a federation of many clients that exist only while they answer."""
    from fedcopl_lab._files import to_json
    from fedcopl_lab.config import configure
    from fedcopl_lab.extras.federation import measure_virtual

    config = configure(
        "smoke", method=options.method, n_clients=options.clients, participation=options.share, rounds=options.rounds,
        local_epochs=1, refresh_every=0, clients_per_forward=1,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        print(to_json(measure_virtual(config, options.folder or temporary)), end="")
    return 0


VERBS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "split": split, "simulate": simulate, "traffic": traffic, "collect": collect, "virtual": virtual,
}  # fmt: skip


def _config(options: argparse.Namespace) -> "RunConfig":
    from fedcopl_lab.cli._runs import parse_settings
    from fedcopl_lab.config import PromptConfig, configure

    settings = {"seed": options.seed, **parse_settings(options.settings)}
    config = configure(options.profile, method=options.method, **settings)
    if isinstance(config, PromptConfig) and "clients_per_forward" not in settings:
        return replace(config, clients_per_forward=1)
    return config


def _in_this_process(config: "RunConfig", folder: str | None) -> "Run":
    from fedcopl_lab.extras import federation as federated

    with tempfile.TemporaryDirectory() as temporary:
        server, *clients = federated.split(config, folder or temporary)
        federated.serve(server, federated.Loopback(map(federated.open_member, clients)))
        return federated.collect(server, clients)
