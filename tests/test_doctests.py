"""Every ``>>>`` example of the library runs: with its printed result where one stands below it."""

import doctest
import importlib
import math
from pathlib import Path
from shutil import copytree

import numpy as np
import pandas as pd
import pytest
import torch

import fedcopl_lab as lab

PACKAGE = Path(lab.__file__).parent
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def modules_with_examples():
    for path in sorted(PACKAGE.rglob("*.py")):
        if ">>>" in path.read_text(encoding="utf-8"):
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


LONG = ("_explorer_page", "bench.card_bench", "bench.prompt_step", "bench.sage_step", "bench.widgets")
"""A page that tests/browser writes too, and what a machine is timed with: tests/extras/bench makes the same calls."""


def marked(name):
    return pytest.param(name, marks=pytest.mark.long if name.endswith(LONG) else ())


@pytest.mark.parametrize("name", [marked(name) for name in modules_with_examples()])
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copytree(PACKAGE.parent / "docs/example_study", "docs/example_study")
    module = importlib.import_module(name)
    package = importlib.import_module(name if hasattr(module, "__path__") else name.rpartition(".")[0])
    offered = {public: getattr(package, public) for public in dir(package) if not public.startswith("_")}
    names = {"lab": lab, "np": np, "pd": pd, "torch": torch, "math": math, "Path": Path}
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    told: list[str] = []
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, globs=offered | vars(module) | names):
        runner.run(example, out=told.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(told)
