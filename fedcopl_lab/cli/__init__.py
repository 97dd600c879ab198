"""The command line, ``fedcopl-lab COMMAND``: reproduce, run, runs, claims, data, export, plan, bench and others."""

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from fedcopl_lab import __version__
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.cli import _commands
from fedcopl_lab.cli._interrupts import EXIT_CODE, INTERRUPTED, end_now, prompt_interrupts
from fedcopl_lab.extras.federation.commands import add_federate

EXAMPLES = """\
examples:
  fedcopl-lab reproduce                                   every table and figure of the smoke profile
  fedcopl-lab reproduce --items fedcopl_main_table1       one of them
  fedcopl-lab run --method FedCoPL --set beta=0.05        one run with your own setting
  fedcopl-lab runs list --where method=FedCoPL            what is stored
  fedcopl-lab data get cifar10                            download, check, unpack
  fedcopl-lab doctor                                      what is there and what is missing

Runs are kept in $FEDCOPL_LAB_HOME, or in runs/ of the checkout. A stored run is never computed again, and an
interrupted one goes on where it stopped."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it worked, 1 when a check failed, 2 for bad input, 130 after Ctrl-C."""
    try:
        with prompt_interrupts():
            options = _parser().parse_args(arguments)
            return int(options.command(options) or 0)
    except FedCoPLError as error:
        print(f"fedcopl-lab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        return EXIT_CODE


def entry() -> NoReturn:
    """What the shell calls: after Ctrl-C nothing is taken down piece by piece, which takes a busy machine seconds."""
    status = main()
    if status == EXIT_CODE:
        sys.stdout.flush()
        sys.stderr.flush()
        end_now()
    sys.exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fedcopl-lab",
        description="Open up FedCoPL and SAGE step by step, and get their tables and figures back.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fedcopl-lab {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_reproduce(commands)
    _add_run(commands)
    _add_runs(commands)
    _add_claims(commands)
    _add_data(commands)
    _add_export(commands)
    _add_train_embedded(commands)
    _add_plan(commands)
    _add_bench(commands)
    add_federate(commands)
    doctor = commands.add_parser("doctor", help="say what is there and what is missing")
    doctor.set_defaults(command=_commands.doctor)
    return parser


def _add_reproduce(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "reproduce",
        help="run what the tables and figures need, draw them, write the report",
        description="Computes the runs that are not stored yet, writes figures/ (PDF, PNG, CSV, LaTeX, provenance) "
        "and figures/report.html, and compares with the committed measurements.",
    )
    _add_profile(parser)
    parser.add_argument(
        "--items",
        nargs="+",
        metavar="ITEM",
        help="ids such as fedcopl_main_table1, or paper, beyond, fedcopl, sage, all (default: paper)",
    )
    parser.add_argument("--seeds", nargs="+", type=int, metavar="N", help="seeds (default: those of each item)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps (default: cpu)")
    parser.add_argument("--jobs", type=int, help="runs at a time (default: one per core; one on a GPU)")
    parser.add_argument(
        "--engine", choices=("processes", "ray"), default="processes",
        help="processes of this machine, or Ray's workers on this or many machines (extra cluster)",
    )  # fmt: skip
    parser.add_argument(
        "--shard", metavar="I/N", help="compute the I-th of N parts of the runs and nothing else, for job arrays"
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        help="where figures and report go (default: figures/ of the checkout, figures/PROFILE for all but smoke)",
    )
    parser.add_argument("--svg", action="store_true", help="write every picture as SVG too")
    parser.add_argument("--open", action="store_true", help="open the report in a browser at the end")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="list every run with its time and memory and what is not here; run nothing",
    )
    parser.add_argument(
        "--committed",
        action="store_true",
        help="draw the committed numbers of the profile, such as mini; no run, no data set",
    )
    parser.set_defaults(command=_commands.reproduce)


def _add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "run", help="one run", description="Runs one configuration, or shows it when it is stored."
    )
    _add_profile(parser)
    parser.add_argument(
        "--method",
        default="FedCoPL",
        help="zero-shot, PromptFL, PromptProx, pFedPrompt, FedOTP, FedCoPL, or one of SAGE's table, such as SAGE or "
        "FixMatch-LPL (default: FedCoPL)",
    )
    parser.add_argument("--mode", default="paper", help="paper, authors (the released code) or native (own defaults)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    _add_settings(parser, "--set", "any setting of the method, such as beta=0.05, q_conf=null or kappa=10")
    parser.set_defaults(command=_commands.run)


def _add_runs(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("runs", help="what is stored")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="one line per run")
    _add_settings(listing, "--where", "only runs with this setting, such as method=FedCoPL")
    listing.set_defaults(command=_commands.runs_list)
    show = verbs.add_parser("show", help="one run: settings, rounds, environment")
    show.add_argument("key", help="run key, or its beginning")
    show.set_defaults(command=_commands.runs_show)
    gc = verbs.add_parser("gc", help="delete runs that were never finished")
    gc.set_defaults(command=_commands.runs_gc)


def _add_claims(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "claims",
        help="what the papers claim in words, and whether it holds here",
        description="Shows the committed verdicts; with --stored, judges the runs that are stored here.",
    )
    _add_profile(parser)
    parser.add_argument("--paper", choices=("fedcopl", "sage"), help="one of the two (default: both)")
    parser.add_argument("--markdown", action="store_true", help="as a Markdown table")
    parser.add_argument("--stored", action="store_true", help="judge the stored runs instead")
    parser.set_defaults(command=_commands.claims)


def _add_data(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("data", help="the papers' data sets: what is there, fetch, check")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for verb, text in (
        ("list", "every set and set of weights: what it is, how large, whether it is there"),
        ("get", "download, check and unpack; interrupted downloads go on where they stopped"),
        ("verify", "read every file and compare it with the manifests; changes nothing"),
        ("where", "the folders"),
    ):
        command = verbs.add_parser(verb, help=text, description=text)
        if verb in ("get", "verify"):
            command.add_argument("names", nargs="+" if verb == "get" else "*", metavar="NAME", help="such as cifar10")
        if verb == "get":
            command.add_argument("--replace", action="store_true", help="fetch again what has a wrong checksum")
            command.add_argument("--quiet", action="store_true", help="no progress bar")
        command.add_argument("--root", metavar="FOLDER", help="instead of $FEDCOPL_LAB_DATA")
        command.set_defaults(command=_commands.data, verb=verb)


def _add_export(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "export",
        help="write the committed measurements from the stored runs",
        description="For maintainers: collects every item from the run store and rewrites paper/measured/PROFILE.csv; "
        "with --add it keeps what the file holds of runs that other machines stored.",
    )
    _add_profile(parser)
    parser.add_argument("--out", metavar="FOLDER", help="where to write (default: the package's paper/measured)")
    parser.add_argument("--add", action="store_true", help="keep what is there, add what is stored, name the rest")
    parser.set_defaults(command=_commands.export)


def _add_train_embedded(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "train-embedded",
        help="train a model of the package again from its recipe",
        description="Trains tiny, tiny-p1 or tiny-rn on rendered glyphs, or mini on its recorded part of CIFAR-10 and "
        "CIFAR-100, and writes weights and model card to FOLDER. Training mini takes an hour or more; stopped and "
        "started again with the same FOLDER, it goes on where it was.",
    )
    parser.add_argument("name", nargs="?", default="tiny", help="which model (default: tiny)")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where to write")
    parser.add_argument("--steps", type=int, help="fewer steps, for a quick look")
    parser.add_argument("--epochs", type=int, help="mini: passes over its images (default: the recipe's)")
    parser.add_argument("--minutes", type=float, help="mini: as many epochs as fit into this time")
    parser.set_defaults(command=_commands.train_embedded)


def _add_plan(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "plan",
        help="what a profile will cost on this machine",
        description="Measures this machine for a few seconds, then says runs, FLOPs, hours and memory; runs nothing.",
    )
    _add_profile(parser)
    parser.add_argument("--items", nargs="+", metavar="ITEM", help="ids such as fedcopl_main_table1 (default: all)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--precision", choices=("fp32", "bf16"), help="of training (default: the run's own)")
    parser.add_argument("--rate", type=float, metavar="GFLOPS", help="another machine's GFLOP/s instead of measuring")
    parser.add_argument("--method", help="one run of this method instead of the items'")
    _add_settings(parser, "--set", "one run with this setting, such as dataset=cifar10:300 or clients_per_forward=2")
    parser.set_defaults(command=_commands.plan)


def _add_bench(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    verbs = commands.add_parser("bench", help="how fast the steps are here").add_subparsers(
        metavar="VERB", required=True
    )
    parser = verbs.add_parser(
        "step",
        help="one training step: the plain form against ours",
        description="Times forward and backward of both forms in one process, turn by turn, with random weights; "
        "writes figures/ours_bench_step.{csv,pdf,png,json}. The whole table takes most of an hour on a CPU: choose a "
        "part, or interrupt it and go on with --resume.",
    )
    parser.add_argument("--backbone", nargs="+", default=["ViT-B-32", "ViT-B-16"], metavar="NAME")
    parser.add_argument("--classes", nargs="+", type=int, default=[10, 47, 100, 200], metavar="N")
    parser.add_argument("--dtype", nargs="+", default=["fp32", "bf16"], metavar="TYPE", help="fp32, bf16")
    parser.add_argument("--batch", type=int, default=64, help="images in a step (default: 64)")
    parser.add_argument("--repeats", type=int, default=5, help="timed steps of each form (default: 5)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--threads", type=int, help="CPU threads (default: torch's own)")
    parser.add_argument("--out", metavar="FOLDER", help="where to write (default: figures/ of the checkout)")
    parser.add_argument("--resume", action="store_true", help="keep the cells that are in the table already")
    parser.set_defaults(command=_commands.bench_step)
    parser = verbs.add_parser(
        "sage",
        help="one local step of SAGE: the plain form against ours",
        description="Times views, forward, backward and optimiser of both forms in one process, turn by turn, on the "
        "embedded digits at 32x32 pixels; writes figures/ours_bench_sage.{csv,json}.",
    )
    parser.add_argument("--width", nargs="+", type=float, default=[4.0, 1.0], metavar="W", help="of ResNet-8")
    parser.add_argument("--dtype", nargs="+", default=["fp32", "bf16"], metavar="TYPE", help="fp32, bf16")
    parser.add_argument("--batch", type=int, default=128, help="labelled images in a step (default: 128)")
    parser.add_argument("--unlabelled", type=int, default=256, help="unlabelled images in a step (default: 256)")
    parser.add_argument("--repeats", type=int, default=3, help="timed steps of each form (default: 3)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--threads", type=int, help="CPU threads (default: torch's own)")
    parser.add_argument("--out", metavar="FOLDER", help="where to write (default: figures/ of the checkout)")
    parser.add_argument("--compile", action="store_true", help="compile our form's models; needs a C++ compiler")
    parser.add_argument("--exact", action="store_true", help="also tell both forms' distance to a step in float64")
    parser.set_defaults(command=_commands.bench_sage)
    parser = verbs.add_parser(
        "widgets",
        help="how long a move of each explorer takes",
        description="Moves one control of every explorer on made-up data, in place and with a new figure each time; "
        "writes figures/ours_bench_widgets.{csv,pdf,png,json}.",
    )
    parser.add_argument("--clients", type=int, default=10, metavar="N", help="number of clients (default: 10)")
    parser.add_argument("--classes", type=int, default=10, metavar="N", help="number of classes (default: 10)")
    parser.add_argument("--images", type=int, default=1000, metavar="N", help="images of each client (default: 1000)")
    parser.add_argument("--moves", type=int, default=12, metavar="N", help="timed moves of each (default: 12)")
    parser.add_argument("--threads", type=int, help="CPU threads (default: torch's own)")
    parser.add_argument("--out", metavar="FOLDER", help="where to write (default: figures/ of the checkout)")
    parser.set_defaults(command=_commands.bench_widgets)


def _add_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", help="smoke, mini or paper (default: $FEDCOPL_LAB_PROFILE, else smoke)")


def _add_settings(parser: argparse.ArgumentParser, flag: str, text: str) -> None:
    parser.add_argument(flag, action="append", default=[], dest="settings", metavar="NAME=VALUE", help=text)
