"""What several commands share: the profile, ``NAME=VALUE`` settings, and the folder of the figures."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import checkout_root
from fedcopl_lab.config import configure


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Add ``--profile``."""
    parser.add_argument("--profile", help="smoke, mini or paper (default: $FEDCOPL_LAB_PROFILE, else smoke)")


def add_settings(parser: argparse.ArgumentParser, flag: str, text: str) -> None:
    """Add a flag that may be repeated; its pairs go to ``options.settings``, for :func:`parse_settings`."""
    parser.add_argument(flag, action="append", default=[], dest="settings", metavar="NAME=VALUE", help=text)


def positive(text: str) -> int:
    """The type of an option that counts something."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no count; write a whole number, 1 or more")
    return int(text)


def refuse_beside(flag: str, **given: Any) -> None:
    """Refuse options that would do nothing beside a flag; None or False for one that was not given."""
    idle = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None and value is not False]
    if idle:
        raise FedCoPLError(f"{', '.join(idle)} would do nothing beside {flag}; leave one of them out")


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """The settings by name.

    Raises:
        FedCoPLError: a pair without ``=`` or without a name.

    >>> parse_settings(["beta=0.05", "labeller=FPL", "q_conf=null"])
    {'beta': 0.05, 'labeller': 'FPL', 'q_conf': None}
    """
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise FedCoPLError(f"{pair!r} is no setting; expected NAME=VALUE, such as beta=0.05")
        try:
            settings[name] = text if name == "labeller" else json.loads(text)  # a labeller is called "true"
        except ValueError:
            settings[name] = text
    return settings


def configured(options: argparse.Namespace) -> Any:
    """The configuration that the flags and the settings name; a setting wins over its flag.

    >>> configured(argparse.Namespace(profile=None, method=None, seed=3, settings=["method=PromptFL"])).method
    'PromptFL'
    """
    settings = parse_settings(options.settings)
    flags = {name: getattr(options, name, None) for name in ("profile", "method", "mode", "seed", "device")}
    return configure(**{name: value for name, value in flags.items() if value is not None} | settings)


def figures_folder(profile: str = "smoke", here: bool = False) -> Path:
    """``figures/`` of the checkout, else of the current folder; ``figures/PROFILE`` for all but smoke.

    What this machine computes goes to ``figures/here``, which git ignores, so that the committed files stay.
    """
    folder = (checkout_root() or Path.cwd()) / "figures" / ("here" if here else "")
    return folder if profile == "smoke" else folder / profile
