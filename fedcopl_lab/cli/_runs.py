"""``fedcopl-lab run`` and ``fedcopl-lab runs``: compute one, list, show, tidy."""

import argparse

import pandas as pd

from fedcopl_lab.cli._machine import on_this_machine
from fedcopl_lab.cli.options import add_profile, add_settings, configured, parse_settings
from fedcopl_lab.config import METHODS, SAGE_METHODS
from fedcopl_lab.store import Run, Store, runs

LISTED = "key method labeller dataset scheme beta aggregate seed complete accuracy seconds"
ROUND_COLUMNS = "round accuracy accuracy_sample_mean accuracy_global label_accuracy n_selected loss_last_epoch"


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``run``."""
    parser.description = "Runs one configuration, or shows it when it is stored."
    add_profile(parser)
    methods = f"{', '.join(METHODS)}, or one of SAGE's tables: {', '.join(SAGE_METHODS)}"
    parser.add_argument("--method", default="FedCoPL", help=f"{methods} (default: FedCoPL)")
    parser.add_argument("--mode", default="paper", help="paper, authors (the released code) or native (own defaults)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    add_settings(parser, "--set", "any setting of the method, such as beta=0.05, q_conf=null or kappa=10")
    parser.set_defaults(command=run_one)


def add_runs_options(parser: argparse.ArgumentParser) -> None:
    """The verbs of ``runs`` and their options."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="one line per run")
    add_settings(listing, "--where", "only runs with this setting, such as method=FedCoPL")
    listing.set_defaults(command=list_runs)
    show = verbs.add_parser("show", help="one run: settings, rounds, environment")
    show.add_argument("key", help="run key, or its beginning")
    show.set_defaults(command=show_run)
    pack = verbs.add_parser("pack", help="write complete runs to one file, without prompts and models")
    pack.add_argument("file", help="such as runs.tar.xz")
    add_settings(pack, "--where", "only runs with this setting, such as profile=mini")
    pack.set_defaults(command=pack_runs)
    unpack = verbs.add_parser("unpack", help="add the runs of such a file that are not stored here")
    unpack.add_argument("file", help="such as figures/mini/runs.tar.xz")
    unpack.set_defaults(command=unpack_runs)
    verbs.add_parser("gc", help="delete runs that were never finished").set_defaults(command=remove_incomplete)


def run_one(options: argparse.Namespace) -> int:
    """Compute one configuration and show its rounds."""
    from fedcopl_lab.engine import run

    settings = parse_settings(options.settings)
    config = configured(options)
    _print_run(run(config if "clients_per_forward" in settings else on_this_machine(config.device)(config)))
    return 0


def list_runs(options: argparse.Namespace) -> int:
    """One line per stored run."""
    table = runs(**parse_settings(options.settings))
    print(f"no such run in {Store().root}" if table.empty else _columns(table, LISTED))
    return 0


def show_run(options: argparse.Namespace) -> int:
    """Settings, rounds and environment of one run."""
    run = Store().find(options.key)
    for name, value in run.config.as_dict().items():
        print(f"{name:>16}  {value}")
    _print_run(run)
    if run.complete:
        there = run.environment
        print(f"{there['hardware']}, {there['threads']} thread(s), Python {there['python']}, {run.seconds:.1f} s")
    return 0


def pack_runs(options: argparse.Namespace) -> int:
    """Write complete runs to one file."""
    from fedcopl_lab.extras.run_archive import write_archive

    table, store = runs(**parse_settings(options.settings)), Store()
    keys = write_archive(options.file, [store.run(key) for key in table.get("key", ())])
    print(f"wrote {len(keys)} runs to {options.file}")
    return 0


def unpack_runs(options: argparse.Namespace) -> int:
    """Add the runs of a file to the store."""
    from fedcopl_lab.extras.run_archive import read_archive

    store = Store()
    print(f"added {len(read_archive(options.file, store))} runs to {store.root}")
    return 0


def remove_incomplete(options: argparse.Namespace) -> int:
    """Delete runs that were never finished."""
    gone = Store().remove_incomplete()
    print(f"removed {len(gone)} unfinished run(s)" + (f": {', '.join(gone)}" if gone else ""))
    return 0


def _print_run(run: Run) -> None:
    print(run)
    if not run.rows.empty:
        print(f"{_columns(run.rows, ROUND_COLUMNS)}\nstored in {run.path}")


def _columns(table: pd.DataFrame, names: str) -> str:
    shown = table[[name for name in names.split() if name in table]]
    return shown.to_string(index=False, float_format=lambda v: f"{v:.3f}", na_rep="-")
