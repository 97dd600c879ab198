"""The command line, ``fedcopl-lab COMMAND``; a command's options and work are in the module that its row names."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from fedcopl_lab import __version__
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.cli._interrupts import EXIT_CODE, INTERRUPTED, end_now, prompt_interrupts

COMMANDS = {
    "reproduce": ("run what the tables and figures need, draw them, write the report", "cli._reproduce:add_options"),
    "run": ("one run", "cli._runs:add_run_options"),
    "runs": ("what is stored", "cli._runs:add_runs_options"),
    "save": ("a table or figure as files for a paper", "cli._save:add_options"),
    "verify": ("compute one committed number again and compare", "cli._verify:add_options"),
    "claims": ("what the papers claim in words, and whether it holds here", "cli._claims:add_options"),
    "data": ("the papers' data sets: what is there, fetch, check", "cli._data:add_options"),
    "export": ("write the committed measurements from the stored runs", "cli._export:add_options"),
    "train-embedded": ("train a model of the package again from its recipe", "extras.embedded:add_options"),
    "plan": ("what a profile will cost on this machine", "extras.bench.commands:add_plan_options"),
    "bench": ("how fast the steps are here", "extras.bench.commands:add_bench_options"),
    "features": ("packs of CLIP features, to replay the label phase", "extras.packs:add_options"),
    "federate": ("a run as a federation of separate clients", "extras.federation.commands:add_options"),
    "doctor": ("say what is there and what is missing", "cli._doctor:add_options"),
}
"""Command -> its help, and the module under ``fedcopl_lab`` with the function that adds its options to a parser."""

EXAMPLES = """\
examples:
  fedcopl-lab reproduce                                   the papers' tables and figures in smoke, one seed
  fedcopl-lab reproduce --items fedcopl_main_table1       one of them
  fedcopl-lab save fedcopl_main_table1 t1 --formats pdf tex --width single
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
    """What the shell calls: after Ctrl-C the process ends at once, since an orderly exit can take seconds."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # read when torch is loaded; its profiler warns
    try:
        try:
            status = main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1  # as other programs end then; another broken pipe is no success
    if status == EXIT_CODE:
        sys.stderr.flush()
        end_now()
    sys.exit(status)


class _LazyCommands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """Commands whose module is imported, and whose options are added, when the command is asked for."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if values[0] in COMMANDS:
            module, function = COMMANDS[values[0]][1].split(":")
            getattr(importlib.import_module(f"fedcopl_lab.{module}"), function)(self.choices[values[0]])
        super().__call__(parser, namespace, values, option_string)


def _import_plugin(name: str) -> str:
    """Import a module of the user's."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        importlib.import_module(name)
    except ImportError as error:
        expected = "expected a module of the current folder or an installed one"
        raise argparse.ArgumentTypeError(f"{name} cannot be imported ({error}); {expected}") from error
    except FedCoPLError as error:  # argparse would hide it, as a ValueError
        raise argparse.ArgumentTypeError(str(error)) from error
    return name


def _parser() -> argparse.ArgumentParser:
    what = "Open up FedCoPL and SAGE step by step, and get their tables and figures back."
    parser = argparse.ArgumentParser(prog="fedcopl-lab", description=what, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    plugin = "import a module first, in the current folder too, such as one that registers a method; may be repeated"
    parser.add_argument("--plugin", type=_import_plugin, action="append", metavar="MODULE", help=plugin)
    parser.add_argument("--version", action="version", version=f"fedcopl-lab {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, action=_LazyCommands,
                                     parser_class=argparse.ArgumentParser)  # fmt: skip
    for name, (text, _) in COMMANDS.items():
        commands.add_parser(name, help=text)
    return parser
