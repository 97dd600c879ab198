"""What is written by rule: tables of the README and the docs, the notebooks' index, the links in every notebook.

``make docs`` writes them; tests only say whether they are current.
"""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
Notebook = dict[str, Any]

UNPLACED = {"part": "The method", "place": 15, "of": ""}
"""Where a notebook stands that says nothing of itself: right after the quickstart."""

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
    """Every notebook with links to the one before, the next and the index at both ends, and the cell on installing."""
    names = list(notebooks)
    done = {}
    for place, (name, notebook) in enumerate(notebooks.items()):
        line = _links(notebooks, names[place - 1] if place else None, names[place + 1 : place + 2])
        own = [cell for cell in notebook["cells"] if cell["id"] not in ("links-top", "install", "links-bottom")]
        cells = [own[0], _markdown("links-top", line), _install(), *own[1:], _markdown("links-bottom", f"---\n{line}")]
        done[name] = {**notebook, "cells": _counted(cells),
                      "metadata": {**notebook["metadata"], "fedcopl_lab": told_of(notebook)}}  # fmt: skip
    return done


def index(notebooks: dict[str, Notebook]) -> str:
    """The rows of ``notebooks/README.md``: a heading for each part, a line for each notebook."""
    lines, part = ["| notebook | shows | of the paper |", "|---|---|---|"], ""
    for name, notebook in notebooks.items():
        told = told_of(notebook)
        if told["part"] != part:
            part = told["part"]
            lines.append(f"| **{part}** | | |")
        lines.append(f"| [{name}]({name}.ipynb) | {told['shows']} | {told['of']} |")
    return "\n".join(lines)


def with_table(text: str, name: str, table: str) -> str:
    """A page with the table between that name's two marks replaced."""
    start, end = f"<!-- {name}: written by make docs -->\n", f"\n<!-- end of {name} -->"
    before, rest = text.split(start)
    return f"{before}{start}{table}{end}{rest.split(end)[1]}"


def verdicts_markdown() -> str:
    """How many claims of each paper hold, by profile."""
    from fedcopl_lab.paper import judged_claims, measured_claims, measured_profiles

    words = ("holds", "does not hold", "within noise", "not tested")
    lines = ["| paper | profile | hold | do not hold | within noise | not tested |", "|---|---|---|---|---|---|"]
    papers = judged_claims().set_index("number")["paper"]
    for name, shown in (("fedcopl", "FedCoPL"), ("sage", "SAGE")):
        for profile in reversed(measured_profiles()):
            verdicts = measured_claims(profile)
            counts = verdicts[verdicts["number"].map(papers) == name]["verdict"].value_counts()
            lines.append(f"| {shown} | `{profile}` | " + " | ".join(str(counts.get(word, 0)) for word in words) + " |")
    return "\n".join(lines)


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
    from fedcopl_lab.report import beside_markdown, claims_markdown, coverage_markdown, items_markdown

    notebooks = read_notebooks()
    should = {NOTEBOOKS / f"{name}.ipynb": to_text(notebook) for name, notebook in linked(notebooks).items()}
    tables = {
        ROOT / "README.md": {"verdicts": verdicts_markdown()},
        NOTEBOOKS / "README.md": {
            "items": index(notebooks),
            "every item": items_markdown().replace("](notebooks/", "]("),
        },
        ROOT / "figures" / "mini" / "README.md": {
            "mini": beside_markdown("fedcopl_main_table1", "mini"),
            "main Table 3 in mini": beside_markdown("fedcopl_main_table3", "mini"),
            "SAGE in mini": beside_markdown("sage_main_table1", "mini"),
            "claims in mini": claims_markdown("mini"),
            "run in mini": coverage_markdown("mini"),
        },
        ROOT / "docs" / "performance.md": {
            "bench step": bench_markdown(pd.read_csv(ROOT / "figures" / "ours_bench_step.csv"))
        },
    }
    for path, named in tables.items():
        should[path] = path.read_text(encoding="utf-8")
        for name, table in named.items():
            should[path] = with_table(should[path], name, table)
    return should


def _links(notebooks: dict[str, Notebook], before: str | None, after: list[str]) -> str:
    parts = [f"← [{title_of(notebooks[before])}]({before}.ipynb)" if before else "", "[all notebooks](README.md)"]
    parts += [f"[{title_of(notebooks[name])}]({name}.ipynb) →" for name in after]
    return " · ".join(filter(None, parts))


def _markdown(name: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": text.splitlines(keepends=True)}


def _install() -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "id": "install", "metadata": {}, "outputs": [],
            "source": INSTALL.splitlines(keepends=True)}  # fmt: skip


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
