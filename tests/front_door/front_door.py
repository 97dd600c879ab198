"""What is written by rule: tables of the README and the docs, the notebooks' index, the links in every notebook.

``make tables`` writes them; tests only say whether they are current.
"""

import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from fedcopl_lab.report._words import markdown

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
    return markdown(("notebook", "shows", "of the paper"), rows)


def with_table(text: str, name: str, table: str) -> str:
    """A page with the table between that name's two marks replaced."""
    start, end = f"<!-- {name}: written by make tables -->\n", f"\n<!-- end of {name} -->"
    before, rest = text.split(start)
    return f"{before}{start}{table}{end}{rest.split(end)[1]}"


def verdicts_markdown() -> str:
    """How many claims of each paper hold, by profile."""
    from fedcopl_lab.paper import VERDICTS, judged_claims, measured_claims, measured_profiles

    rows = []
    papers = judged_claims().set_index("number")["paper"]
    for name, shown in (("fedcopl", "FedCoPL"), ("sage", "SAGE")):
        for profile in reversed(measured_profiles()):
            verdicts = measured_claims(profile)
            counts = verdicts[verdicts["number"].map(papers) == name]["verdict"].value_counts()
            rows.append((shown, f"`{profile}`", *(counts.get(word, 0) for word in VERDICTS)))
    return markdown(("paper", "profile", "hold", "do not hold", *VERDICTS[2:]), rows)


def gates_markdown(profile: str) -> str:
    """What a profile's own runs must show before claims are judged, and what they show; places not run are left out."""
    from fedcopl_lab.report._claims import gate_lines

    heads = ("gate", "place", "quantity", "needed", "measured", "state")
    found = [line for line in gate_lines(profile) if line["state"] != "not measured" and line["gate"] != "C"]
    return markdown(heads, ([line[name] for name in heads] for line in found))


def switches_markdown(profile: str = "smoke") -> str:
    """What each switch of the released code changes, by itself: the setting, and the measured gain over seeds."""
    from fedcopl_lab.paper import find_items, measured

    (item,) = find_items(["fedcopl_ours_quirks"])
    configs = {cell.series: vars(cell.config) for cell in item.cells(profile)}
    numbers = measured(profile)
    numbers = numbers[(numbers["item"] == item.id) & (numbers["metric"] == "accuracy")]
    values = 100 * numbers.pivot_table(index="seed", columns="series", values="value")
    plain = configs.pop("paper mode")
    rows = []
    for name, config in configs.items():
        told = ", ".join(f"`{key}={value}`" for key, value in config.items() if value != plain[key])
        gains = (values[name] - values["paper mode"]).dropna() if name in values else pd.Series(dtype=float)
        text = f"{gains.mean():+.1f} ± {gains.std():.1f}".replace("-", "−") if len(gains) > 1 else "not measured"
        rows.append((name, told, text, len(gains) or ""))
    return markdown(("switch", "setting", "accuracy against paper mode (points)", "seeds"), rows)


def discrepancies_markdown() -> str:
    """Every place where FedCoPL's paper and its released code differ, and the setting that chooses."""
    from fedcopl_lab.paper import discrepancies

    rows = []
    for row in discrepancies().fillna("").to_dict("records"):
        setting = f"`{row['option']}={row['default']}`" if row["option"] else ""
        cells = (row["number"], row["topic"], row["paper"], row["code"], setting, row["toolkit"])
        rows.append([str(cell).replace("|", "\\|") for cell in cells])
    return markdown(("", "what", "the paper", "the released code", "setting", "here"), rows)


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
    from fedcopl_lab.paper._verdicts import printed_effects
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
            "gates of mini": gates_markdown("mini"),
            "SAGE in mini": beside_markdown("sage_main_table1", "mini"),
            "claims in mini": claims_markdown("mini"),
            "run in mini": coverage_markdown("mini"),
        },
        ROOT / "docs" / "differences.md": {"switches": switches_markdown(), "all": discrepancies_markdown()},
        ROOT / "docs" / "performance.md": {
            "bench step": bench_markdown(pd.read_csv(ROOT / "figures" / "ours_bench_step.csv")),
            "cards": cards_markdown(),
        },
    }
    for path, named in tables.items():
        should[path] = path.read_text(encoding="utf-8")
        for name, table in named.items():
            should[path] = with_table(should[path], name, table)
    should[ROOT / "fedcopl_lab" / "paper" / "printed_effects.csv"] = printed_effects()
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
