"""``fedcopl-lab federate``: split the files, simulate, look at the traffic, collect."""

import argparse
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import to_json
from fedcopl_lab.cli.options import parse_settings
from fedcopl_lab.config import PromptConfig, RunConfig, configure
from fedcopl_lab.store import Run

TRAFFIC = ("round", "bytes_up", "bytes_down", "wire_up", "wire_down")


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


def _config(options: argparse.Namespace) -> RunConfig:
    settings = {"seed": options.seed, **parse_settings(options.settings)}
    config: RunConfig = configure(options.profile, method=options.method, **settings)
    if isinstance(config, PromptConfig) and "clients_per_forward" not in settings:
        return replace(config, clients_per_forward=1)
    return config


def _in_this_process(config: RunConfig, folder: str | None) -> Run:
    from fedcopl_lab.extras import federation as federated

    with tempfile.TemporaryDirectory() as temporary:
        server, *clients = federated.split(config, folder or temporary)
        federated.serve(server, federated.Loopback(map(federated.open_member, clients)))
        return federated.collect(server, clients)
