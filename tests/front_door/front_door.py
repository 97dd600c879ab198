"""What is written by rule: tables of the README and the docs, the notebooks' index, the links in every notebook.

``make tables`` writes them; tests only say whether they are current.
"""

import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import printed_effects
import written_tables as tables

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
Notebook = dict[str, Any]

UNPLACED = {"part": "The method", "place": 15, "of": ""}
"""Where a notebook stands that says nothing of itself: right after the quickstart."""

BY_RULE = ("links-top", "set-up", "install", "links-bottom")
BEFORE_IT = ("## Parameters", "## Run what is missing", "## The numbers")
SET_UP = """\
## Set-up

Run the cells from the top. Those that are folded check the installation and fetch numbers; a click
on the bar opens one."""
INSTALL = """\
# This cell installs nothing: where the package is missing, it says what to type.
from importlib.util import find_spec

if find_spec("fedcopl_lab") is None:
    raise ModuleNotFoundError(
        "fedcopl_lab is not installed for this kernel. In a terminal, in the folder with pyproject.toml: `make lab`; "
        "or `python -m pip install -e .` with this kernel's python, then restart the kernel. README.md says more."
    )"""


def read_notebooks(folder: Path = NOTEBOOKS) -> dict[str, Notebook]:
    """File stem -> notebook, in reading order."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.ipynb")}
    return dict(sorted(found.items(), key=lambda pair: (told_of(pair[1])["place"], pair[0])))


def told_of(notebook: Notebook) -> dict[str, Any]:
    """What a notebook's metadata say of it: part, place, shows, of."""
    return UNPLACED | {"shows": title_of(notebook)} | notebook["metadata"].get("fedcopl_lab", {})


def title_of(notebook: Notebook) -> str:
    """Its first heading."""
    first = "".join(notebook["cells"][0]["source"])
    return first.splitlines()[0].removeprefix("# ")


def linked(notebooks: dict[str, Notebook]) -> dict[str, Notebook]:
    """Every notebook as it opens and ends: the idea, then the set-up; links at both ends; how to save its figures.

    The cells that check the installation and that compute runs are folded.
    """
    names = list(notebooks)
    done = {}
    for place, (name, notebook) in enumerate(notebooks.items()):
        line = _links(notebooks, names[place - 1] if place else None, names[place + 1 : place + 2])
        title, *own = [cell for cell in notebook["cells"] if cell["id"] not in BY_RULE]
        idea = _idea(own)
        opening = [title, _markdown("links-top", line), *idea, _markdown("set-up", SET_UP), _install()]
        rest = [_folded(cell) if computes(cell) else cell for cell in own if cell not in idea]
        cells = [*opening, *rest, _markdown("links-bottom", f"---\n{_take_home(name)}{line}")]
        done[name] = {**notebook, "cells": _counted(cells),
                      "metadata": {**notebook["metadata"], "fedcopl_lab": told_of(notebook)}}  # fmt: skip
    return done


def _idea(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first section, where it is called the idea: its text up to the first cell of code."""
    headings = [_heading(cell) for cell in cells]
    sections = [n for n, text in enumerate(headings) if text.startswith("## ") and text not in BEFORE_IT]
    if not sections or not headings[sections[0]].startswith("## The idea"):
        return []
    following = cells[sections[0] :]
    return following[: next((n for n, cell in enumerate(following) if cell["cell_type"] == "code"), len(following))]


def computes(cell: dict[str, Any]) -> bool:
    """Whether it is the cell that computes what is missing."""
    return cell["cell_type"] == "code" and "lab.sweep(" in "".join(cell["source"])


def _heading(cell: dict[str, Any]) -> str:
    return "".join(cell["source"]).partition("\n")[0] if cell["cell_type"] == "markdown" else ""


def _folded(cell: dict[str, Any]) -> dict[str, Any]:
    """Code that JupyterLab and the site show when one asks for it."""
    metadata = cell["metadata"]
    tags = sorted({*metadata.get("tags", ()), "hide-input"})
    return {**cell, "metadata": {**metadata, "jupyter": {"source_hidden": True}, "tags": tags}}


def _take_home(name: str) -> str:
    """How the figures of a notebook are saved as files."""
    from fedcopl_lab.paper import ITEMS

    ids = [item.id for item in ITEMS if item.notebook == name]
    if not ids:
        return ""
    others = f" The same for {', '.join(f'`{one}`' for one in ids[1:])}." if ids[1:] else ""
    call = f'lab.report.save("{ids[0]}", "{ids[0]}", ("pdf",), width="single")'
    more = 'one column wide, a table typeset, in the current folder; also `"double"`, `"svg"` and, of a table, `"tex"`'
    return f"A picture as a file: `{call}`, {more}. Committed numbers; `numbers=` takes yours.{others}\n\n"


def index(notebooks: dict[str, Notebook]) -> str:
    """The rows of ``notebooks/README.md``: a heading for each part, a line for each notebook."""
    rows = []
    for part, own in groupby(notebooks.items(), lambda pair: told_of(pair[1])["part"]):
        rows += [(f"**{part}**", "", "")]
        rows += [(f"[{name}]({name}.ipynb)", told_of(one)["shows"], told_of(one)["of"]) for name, one in own]
    return tables.markdown(("notebook", "shows", "of the paper"), rows)


def with_table(text: str, name: str, table: str) -> str:
    """A page with the table between that name's two marks replaced."""
    start, end = f"<!-- {name}: written by make tables -->\n", f"\n<!-- end of {name} -->"
    before, rest = text.split(start)
    return f"{before}{start}{table}{end}{rest.split(end)[1]}"


def to_text(notebook: Notebook) -> str:
    """As Jupyter writes it."""
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def code_blocks(text: str) -> list[tuple[str, str]]:
    """Every Python block of a page with the output block that follows it at once, empty without one."""
    found = re.findall(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", text, flags=re.DOTALL)
    return [(code, output) for code, output in found]


def pages() -> dict[Path, str]:
    """Every page and notebook as it should be."""
    from fedcopl_lab.extras.bench.picture import bench_markdown
    from fedcopl_lab.extras.bench.plan import cards_markdown

    notebooks = read_notebooks()
    should = {NOTEBOOKS / f"{name}.ipynb": to_text(notebook) for name, notebook in linked(notebooks).items()}
    wanted = {
        ROOT / "README.md": {"verdicts": tables.verdicts_markdown()},
        NOTEBOOKS / "README.md": {
            "items": index(notebooks),
            "every item": tables.items_markdown().replace("](notebooks/", "]("),
        },
        ROOT / "figures" / "mini" / "README.md": {
            "mini": tables.beside_markdown("fedcopl_main_table1", "mini"),
            "gates of mini": tables.gates_markdown("mini"),
            "SAGE in mini": tables.beside_markdown("sage_main_table1", "mini"),
            "claims in mini": tables.claims_markdown("mini"),
            "run in mini": tables.coverage_markdown("mini"),
        },
        ROOT / "docs" / "differences.md": {
            "switches": tables.switches_markdown(),
            "all": tables.discrepancies_markdown(),
        },
        ROOT / "docs" / "performance.md": {
            "bench step": bench_markdown(pd.read_csv(ROOT / "figures" / "ours_bench_step.csv")),
            "cards": cards_markdown(),
        },
    }
    for path, named in wanted.items():
        should[path] = path.read_text(encoding="utf-8")
        for name, table in named.items():
            should[path] = with_table(should[path], name, table)
    should[ROOT / "fedcopl_lab" / "paper" / "printed_effects.csv"] = printed_effects.as_csv()
    return should


def _links(notebooks: dict[str, Notebook], before: str | None, after: list[str]) -> str:
    parts = [f"← [{title_of(notebooks[before])}]({before}.ipynb)" if before else "", "[all notebooks](README.md)"]
    parts += [f"[{title_of(notebooks[name])}]({name}.ipynb) →" for name in after]
    return " · ".join(filter(None, parts))


def _markdown(name: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": text.splitlines(keepends=True)}


def _install() -> dict[str, Any]:
    return _folded({"cell_type": "code", "execution_count": None, "id": "install", "metadata": {}, "outputs": [],
                    "source": INSTALL.splitlines(keepends=True)})  # fmt: skip


def _counted(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Code cells numbered from 1, as after one run from top to bottom."""
    number, done = 0, []
    for cell in cells:
        if cell["cell_type"] == "code":
            number += 1
            outputs = [output | {"execution_count": number} if "execution_count" in output else output
                       for output in cell["outputs"]]  # fmt: skip
            cell = cell | {"execution_count": number, "outputs": outputs}
        done.append(cell)
    return done


if __name__ == "__main__":
    for file, content in pages().items():
        if content != file.read_text(encoding="utf-8"):
            file.write_text(content, encoding="utf-8")
            print(f"wrote {file.relative_to(ROOT)}")
