"""``fedcopl-lab train-embedded``: train a model of the package again from its recipe."""

import argparse


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``train-embedded``."""
    parser.description = (
        "Trains tiny, tiny-p1 or tiny-rn on rendered glyphs, or mini on its recorded part of CIFAR-10 and "
        "CIFAR-100, or the text tower of mini-traits beside mini's image tower, and writes weights and model card to "
        "FOLDER. Training mini takes an hour or more; stopped and started again with the same FOLDER, it goes on "
        "where it was. The others take minutes."
    )
    parser.add_argument("name", nargs="?", default="tiny", help="which model (default: tiny)")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where to write")
    parser.add_argument("--steps", type=int, help="fewer steps, for a quick look")
    parser.add_argument(
        "--epochs", type=int, help="mini and mini-traits: passes over the images (default: the recipe's)"
    )
    parser.set_defaults(command=train_model)


def train_model(options: argparse.Namespace) -> int:
    """Train, write, and say where."""
    from fedcopl_lab.extras.embedded import train_embedded

    print(train_embedded(options.name, out_dir=options.out, steps=options.steps, epochs=options.epochs))
    return 0
