"""The eight kinds of work that are killed: what each does, which part of it is struck, what it must end with."""

import json
import os
import re
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from seams import LABELLING, TRAINING, Place, everywhere, internal, patched, places

import fedcopl_lab as lab
from fedcopl_lab.data import get, manifest_folder
from fedcopl_lab.methods import ClientModels, open_method
from fedcopl_lab.store import Store

FOLDERS = (Path(__file__).parent, Path(__file__).parents[1] / "data")
sys.path[:0] = [str(folder) for folder in FOLDERS if str(folder) not in sys.path]

PROMPTING = lab.configure(
    "smoke", dataset="digits:300", rounds=3, local_epochs=1, refresh_every=1, n_clients=3, scheme="iid", n_text=2,
    n_visual=1, q_conf=0.9, q_ent=0.9,
)  # fmt: skip
SAGE = lab.configure(
    "smoke", method="SAGE", rounds=3, width=0.25, n_probe=20, steps_per_epoch=2, threshold=0.3, participation=0.2
)
NOT_PROMISED = ("environment.json", "seconds.json")  # where and how fast: they differ between equal runs

Work = Callable[[Path], object]
Files = dict[str, bytes]


@dataclass(frozen=True)
class Family:
    """One kind of work."""

    name: str  # what is killed
    work: Work  # does it in a folder, or goes on with it there
    phases: tuple[Place, ...]  # the functions inside which the kills are to fall
    unpromised: tuple[str, ...] = NOT_PROMISED  # endings of files that hold times and differ between equal calls

    def promised(self, folder: Path) -> Files:
        """The files that have to be there in the end, byte by byte."""
        return promised(folder, self.unpromised)


def visible(folder: Path) -> Files:
    """All files but those that say by their name that they are unfinished, and locks."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in name.parts)
        if path.is_file() and not hidden and not name.name.endswith((".part", "lock")):
            found[name.as_posix()] = path.read_bytes()
    return found


def promised(folder: Path, unpromised: tuple[str, ...] = NOT_PROMISED) -> Files:
    """The files of a store that a run key promises."""
    return {name: content for name, content in visible(folder).items() if not name.endswith(unpromised)}


def compute(*configs: lab.RunConfig) -> Work:
    """Runs of these configurations one after the other, with a folder as their store."""
    return lambda folder: [lab.run(config, Store(folder), progress=False) for config in configs]


def warm(configs: tuple[lab.RunConfig, ...] = (PROMPTING, SAGE)) -> None:
    """Load data and models before forking; no gradient is computed, which a fork would not survive."""
    for config in configs:
        open_method(config)


def families(scratch: Path, url: str) -> tuple[Family, ...]:
    """All eight; ``scratch`` is for what they need beside their own folders, the server at ``url`` serves from it."""
    return (
        Family("labels", compute(PROMPTING), LABELLING),
        Family("training", compute(PROMPTING, SAGE), TRAINING),
        Family("evaluation", compute(PROMPTING), ((ClientModels, "evaluate"),)),
        Family("store write", compute(SAGE), (*places("store", "write_atomic"), *places("engine", "write_atomic"))),
        Family("export", exporting(scratch), places("paper", "write_atomic")),
        Family("figure write", drawing, places("report", "write_atomic")),
        Family("checkpoint", training_a_model, places("extras.embedded", "write_atomic"), (".card.json", ".md")),
        Family("download", downloading(scratch, url), (*places("data", "fetch"), *places("data", "unpack"))),
    )


def exporting(scratch: Path) -> Work:
    """``export`` of one item from a store of its own."""
    from fedcopl_lab.paper import find_items, measured_claims

    items = find_items(["fedcopl_supp_fig3"])

    def work(folder: Path) -> object:
        os.environ["FEDCOPL_LAB_HOME"] = str(scratch / "exported")
        committed = everywhere("cli", "verdicts", lambda *_, **__: measured_claims("smoke"))
        with patched(*everywhere("cli", "ITEMS", items), *committed):
            return internal("cli._export", "export")(
                Namespace(profile="smoke", out=str(folder), add=False, device="cpu")
            )

    for _, config in items[0].runs("smoke"):
        lab.run(config, Store(scratch / "exported"), progress=False)
    return work


def drawing(folder: Path) -> None:
    """A figure and a report with it, from the committed numbers."""
    from fedcopl_lab.report import save_item, write_report

    item, numbers, runs = drawn()
    save_item(item, numbers, runs, folder)
    write_report(folder, [item], numbers, runs)


@cache
def drawn() -> tuple[Any, Any, Any]:
    """What is drawn: item, numbers, runs."""
    from fedcopl_lab.paper import find_items, measured, measured_runs

    (item,) = find_items(["fedcopl_main_table6"])
    numbers = measured("smoke")
    return item, numbers[numbers["item"] == item.id], measured_runs("smoke")


def training_a_model(folder: Path) -> object:
    """An embedded model after two steps."""
    from fedcopl_lab.extras.embedded import tiny

    recipe = tiny.TinyRecipe(steps=2, pool=64, batch_size=16)
    with patched((tiny, "make_card", small_card)):  # its measurements take longer than everything else
        return tiny.train_tiny(recipe, folder, progress=False)


def small_card(trained: Any, recipe: Any, minutes: float, n_bytes: int) -> dict[str, Any]:
    """The card of a model in the package, with this model's checksum."""
    path = internal("models", "EMBEDDED_FOLDER") / "tiny.card.json"
    return json.loads(path.read_text(encoding="utf-8")) | {"sha256": trained.sha256}


def downloading(scratch: Path, url: str) -> Work:
    """CINIC-10 in small: fetched, unpacked, recorded."""
    folder = small_manifests(scratch, url)

    def work(root: Path) -> object:
        with patched(*everywhere("data", "manifest_folder", lambda: folder)):
            return get("cinic10", root, progress=False)

    return work


def small_manifests(scratch: Path, url: str) -> Path:
    """Copies of the manifests in which CINIC-10 is a few images on a server."""
    import fakes

    folder, served = scratch / "manifests", scratch / "served"
    if folder.is_dir():
        return folder
    shutil.copytree(manifest_folder(), folder)
    served.mkdir(exist_ok=True)
    archive = fakes.tar(served / "CINIC-10.tar.gz", fakes.cinic10(("airplane", "automobile"), 8)).read_bytes()
    path = folder / "cinic10.toml"
    text = path.read_text(encoding="utf-8")
    for pattern, replacement in (
        (r"^train = \d+", "train = 16"),
        (r"^test = \d+", "test = 16"),
        (r"^classes = \[.*?\]", 'classes = ["airplane", "automobile"]'),
        (r"^classes = \d+", "classes = 2"),
        (r'^urls = \[".*?"\]', f'urls = ["{url}CINIC-10.tar.gz"]'),
        (r'^md5 = "\w+"', f'md5 = "{fakes.md5(archive)}"'),
    ):
        text = re.sub(pattern, replacement, text, flags=re.M | re.S)
    path.write_text(text, encoding="utf-8")
    return folder
