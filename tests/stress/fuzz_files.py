"""Files from elsewhere: configurations, command lines, manifests, stored runs, checkpoints, archives, claims."""

import dataclasses
import json
import random
import shutil
import tomllib
from contextlib import suppress
from pathlib import Path

import torch
from fuzz import NUMBERS, VALUES, WORDS, Case, damaged, plain, snapshot, target
from seams import everywhere, internal, patched
from workloads import SAGE, compute

import fedcopl_lab as lab
from fedcopl_lab.cli import main
from fedcopl_lab.config import METHODS, SAGE_METHODS, PromptConfig, SageConfig
from fedcopl_lab.data import download_of, known_manifests, load_manifest, manifest_folder
from fedcopl_lab.paper import claims, find_items, measured
from fedcopl_lab.store import Run, Store

FIELDS = sorted({field.name for kind in (PromptConfig, SageConfig) for field in dataclasses.fields(kind)})


@target("configure")
def _configure(draw: random.Random, folder: Path) -> Case:
    profile = draw.choice(("smoke", "smoke", "paper", None)) if draw.random() < 0.8 else draw.choice(WORDS)
    method = draw.choice((*METHODS, *SAGE_METHODS)) if draw.random() < 0.8 else draw.choice(WORDS)
    fields = [name for name in FIELDS if name not in ("profile", "method")]
    changes = {draw.choice((*fields, "colour")): draw.choice(VALUES) for _ in range(draw.choice((1, 1, 2, 4)))}
    mode = draw.choice(("paper", "paper", "authors", "native", "x"))
    return lambda: lab.configure(profile, method=method, mode=mode, **changes).label


VERBS = (
    ("run", "--profile", "--method", "--mode", "--seed", "--set"),
    ("runs", "list", "--where"), ("runs", "show"), ("runs", "gc"), ("reproduce", "--items", "--seeds", "--jobs"),
    ("claims", "--paper", "--profile"), ("data", "list"), ("data", "verify"), ("data", "get"), ("data", "where"),
    ("export", "--profile"), ("train-embedded",), ("plan", "--method", "--set", "--rate"), ("bench", "step", "--dtype"),
    ("bench", "sage", "--width"), ("doctor", "--x"),
)  # fmt: skip


HEAVY = (
    ("engine", "_compute"), ("engine", "sweep"), ("extras.bench", "measure_rates"), ("extras.bench", "bench_step"),
    ("extras.bench", "bench_sage"),
)  # fmt: skip


@target("command line")
def _command_line(draw: random.Random, folder: Path) -> Case:
    verb = draw.choice(VERBS)
    arguments = [word for word in verb if not word.startswith("-")]
    for flag in (word for word in verb if word.startswith("-")):
        if draw.random() < 0.5:
            name = f"{draw.choice(FIELDS)}=" if flag in ("--set", "--where") else ""
            arguments += [flag, f"{name}{draw.choice((*WORDS, *map(str, NUMBERS)))}"]
    arguments += [draw.choice(WORDS) for _ in range(draw.randrange(2))]

    def stop(*_: object, **__: object) -> None:
        raise lab.FedCoPLError("this input is good: nothing is computed here")

    def case() -> None:
        before = snapshot(folder)
        with patched(*(change for package, name in HEAVY for change in everywhere(package, name, stop))):
            try:
                status = main(arguments)
            except SystemExit as end:  # argparse's own answer
                status = int(end.code or 0)
        assert status in (0, 1, 2), f"{arguments} ended with {status}"
        assert snapshot(folder) == before

    return case


@target("manifest")
def _manifest(draw: random.Random, folder: Path) -> Case:
    name = draw.choice(known_manifests())
    content = (manifest_folder() / f"{name}.toml").read_bytes()
    table = tomllib.loads(content.decode())
    table[draw.choice(sorted(table))] = plain(draw)
    (folder / f"{name}.toml").write_bytes(damaged(draw, content))
    changed = draw.choice((("manifest_folder", lambda: folder), ("read_manifest_table", lambda name: table)))
    asked = draw.choice((load_manifest, download_of))

    def case() -> None:
        with patched(*everywhere("data", *changed)):
            asked(name)

    return case


def _stored(folder: Path) -> Run:
    """A run to injure, made once."""
    store = Store(folder / "made")
    if not store.runs():
        compute(SAGE)(store.root)
    return store.runs()[0]


@target("stored run")
def _stored_run(draw: random.Random, folder: Path) -> Case:
    model = _stored(folder)
    path = folder / "injured" / model.key
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(model.path, path)
    if draw.random() < 0.5:
        (path / "result.json").unlink()
    files = [one for one in sorted(path.rglob("*")) if one.is_file()]
    chosen = draw.choice(files)
    if chosen.suffix == ".json" and draw.random() < 0.5:
        table = json.loads(chosen.read_text())
        key = draw.choice(sorted(table))
        table[key] = plain(draw)
        if draw.random() < 0.3:
            del table[key]
        chosen.write_text(json.dumps(table))
    else:
        chosen.write_bytes(damaged(draw, chosen.read_bytes()))

    def case() -> None:
        store = Store(path.parent)
        run = store.run(model.key)
        for read in (lambda: lab.runs(store), lambda: run.rows, lambda: run.clients, lambda: run.label_phases,
                     lambda: run.seconds, run.load_state, run.load_prompts, lambda: repr(run)):  # fmt: skip
            with suppress(lab.FedCoPLError):
                read()
        lab.run(SAGE, store, progress=False)

    return case


@target("weights file")
def _weights(draw: random.Random, folder: Path) -> Case:
    from safetensors.torch import save_file

    right, suffix = folder / "right.pt", draw.choice((".pt", ".safetensors"))
    if not right.exists():
        state = {"a.weight": torch.ones(3, 2), "b": torch.tensor(1.0)}
        torch.save(state, right)
        save_file(state, right.with_suffix(".safetensors"))
    path = folder / f"mine{suffix}"
    path.write_bytes(damaged(draw, right.with_suffix(suffix).read_bytes()))
    return lambda: internal("models", "_read_state")("ViT-B-32", path, torchscript=False)


@target("archive")
def _archive(draw: random.Random, folder: Path) -> Case:
    import fakes

    names = ["a/b", "a/../../out", "/etc/x", "C:\\x", "a//b", "./c", "é", "a" * 300, "..", "a\0b", "b/", ""]
    files = {draw.choice(names) or "x": bytes(draw.randrange(100)) for _ in range(draw.randrange(1, 5))}
    make, path = draw.choice(((fakes.tar, folder / "set.tar.gz"), (fakes.zipped, folder / "set.zip")))
    try:
        make(path, files)
    except (ValueError, OSError):
        path.write_bytes(b"")
    if draw.random() < 0.5:
        path.write_bytes(damaged(draw, path.read_bytes()))
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)

    def case() -> None:
        before = sorted(one.name for one in folder.iterdir())
        try:
            internal("data", "unpack")(path, out, progress=False, max_bytes=1000)
        except lab.FedCoPLError:
            assert not [one for one in out.rglob("*") if one.is_file()], "something was left"
            raise
        finally:
            assert sorted({one.name for one in folder.iterdir()} - {"out"}) == sorted({*before} - {"out"})

    return case


@target("claims and printed numbers")
def _claims(draw: random.Random, folder: Path) -> Case:
    word = draw.choice(WORDS)
    column = draw.choice(("dataset", "method", "beta", "colour", "value"))
    return draw.choice((
        lambda: claims(draw.choice(("fedcopl", "sage", word))),
        lambda: claims(None, word),
        lambda: claims(**{column: draw.choice(VALUES)}),
        lambda: find_items([word]),
        lambda: measured(word.replace("\0", "")),
    ))  # fmt: skip
