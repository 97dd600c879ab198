"""Recipes that train the models of the package: CLIPs on glyphs and on photographs, and SAGE's start."""

import argparse

from fedcopl_lab._lazy import lazy_names

_NAMES = {
    ".cards": "card_files evaluate_tiny",
    ".recipes": "MiniRecipe StartRecipe TextRecipe TinyRecipe",
    ".train": "train_embedded",
    ".mini": "train_mini",
    ".start": "train_start",
    ".tiny": "train_tiny",
    ".traits": "train_traits",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``fedcopl-lab train-embedded``, which trains a model of the package again from its recipe."""
    parser.description = (
        "Trains tiny, tiny-p1 or tiny-rn on rendered glyphs, or mini on its recorded part of CIFAR-10 and "
        "CIFAR-100, or the text tower of mini-traits beside mini's image tower, or resnet8-cifar100, from which runs "
        "of SAGE can start, and writes weights and model card to FOLDER. Training mini takes an hour or more; stopped "
        "and started again with the same FOLDER, it goes on where it was. The others take minutes."
    )
    parser.add_argument("name", nargs="?", default="tiny", help="which model (default: tiny)")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where to write")
    parser.add_argument("--steps", type=int, help="fewer steps, for a quick look")
    parser.add_argument(
        "--epochs", type=int, help="mini, mini-traits and resnet8-cifar100: passes (default: the recipe's)"
    )
    parser.set_defaults(command=_train)


def _train(options: argparse.Namespace) -> int:
    from fedcopl_lab.extras.embedded.train import train_embedded

    print(train_embedded(options.name, out_dir=options.out, steps=options.steps, epochs=options.epochs))
    return 0
