"""The options of ``fedcopl-lab federate``."""

import argparse

from fedcopl_lab.extras.federation.commands import VERBS


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
        "with each other and with true labels, which nobody can do over the wire.",
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
