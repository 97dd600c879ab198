"""The README does what it says, and whatever is written by rule is current."""

import ast
import contextlib
import io
import math
import re
from itertools import pairwise

import pytest
from front_door import INSTALL, ROOT, code_blocks, computes, index, linked, pages, read_notebooks, title_of, to_text
from PIL import Image

import fedcopl_lab as lab

README = (ROOT / "README.md").read_text(encoding="utf-8")
TEN_LINES, OWN_IMAGES = code_blocks(README)
(OWN_METHOD,) = code_blocks((ROOT / "docs" / "extend.md").read_text(encoding="utf-8"))


def said_by(code: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(code, "README.md", "exec"), {})
    return said.getvalue()


def test_everything_written_by_rule_is_current() -> None:
    old = [str(path.relative_to(ROOT)) for path, text in pages().items() if path.read_text(encoding="utf-8") != text]
    assert not old, "write them with `make tables`"


def test_the_readme_is_short_and_starts_with_the_two_commands() -> None:
    lines = README.splitlines()
    assert len(lines) <= 130
    assert len(README.encode()) <= 7500
    assert {"make reproduce", "make test"} <= {line.split("  ")[0] for line in lines[:25]}


def test_every_link_of_the_pages_leads_to_a_file() -> None:
    pages_with_links = [ROOT / "README.md", *ROOT.glob("docs/*.md"), ROOT / "notebooks/README.md"]
    pages_with_links += [ROOT / "figures/mini/README.md", ROOT / "deployment/README.md"]
    for page in pages_with_links:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            made = target.startswith("_made/")  # written and checked by `make docs`
            assert made or target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_ten_lines_print_what_stands_below_them() -> None:
    code, printed = TEN_LINES
    assert len([line for line in code.splitlines() if line and not line.startswith("import")]) <= 10
    for mine, theirs in zip(said_by(code).split(), printed.split(), strict=True):
        if "." in theirs and theirs.replace(".", "").isdigit():
            assert math.isclose(float(mine), float(theirs), abs_tol=0.03), "another processor rounds differently"
        else:
            assert mine == theirs


def test_the_tour_prints_the_ten_lines_each_with_a_page_that_is_there(capsys) -> None:
    lab.tour()
    text = capsys.readouterr().out
    assert ast.unparse(ast.parse(text)) == ast.unparse(ast.parse(TEN_LINES[0]))
    pages = re.findall(r"\S+/\S+\.(?:ipynb|html|md)", text)
    assert len(pages) > 10
    assert all((ROOT / page).is_file() for page in pages)


def test_own_images_go_through_every_step_to_predictions(tmp_path, monkeypatch) -> None:
    for shade, name in ((60, "dark"), (200, "light")):
        for number in range(45):
            path = tmp_path / "my_pictures" / name / f"{number:02d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (12, 12), (shade + number, shade, shade)).save(path)
    monkeypatch.chdir(tmp_path)
    predicted = said_by(OWN_IMAGES[0]).strip("[]\n").replace("'", "").split(", ")
    assert len(predicted) == 30
    assert set(predicted) <= {"dark", "light"}
    assert len(lab.runs()) == 1


def test_the_method_of_thirty_lines_trains() -> None:
    code = OWN_METHOD[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 32
    share, _, _, count, *_ = said_by(code).split()
    assert count == "600"
    assert float(share) > 10


def test_links_lead_through_all_notebooks_and_back() -> None:
    notebooks = read_notebooks()
    names = list(notebooks)
    assert names[0] == "00_quickstart"
    for name, after in pairwise(names):
        ends = ["".join(cell["source"]) for cell in notebooks[name]["cells"] if cell["id"].startswith("links-")]
        assert len(ends) == 2
        assert all(f"[{title_of(notebooks[after])}]({after}.ipynb) →" in text for text in ends)
        back = ["".join(cell["source"]) for cell in notebooks[after]["cells"] if cell["id"].startswith("links-")]
        assert all(f"← [{title_of(notebooks[name])}]({name}.ipynb)" in text for text in back)
    assert all(f"]({name}.ipynb)" in index(notebooks) for name in names)


def test_a_notebook_that_says_nothing_of_itself_comes_second(tmp_path) -> None:
    first = read_notebooks()["00_quickstart"]
    (tmp_path / "00_quickstart.ipynb").write_text(to_text(first), encoding="utf-8")
    cell = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["# New ideas\n"]}
    new = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "new.ipynb").write_text(to_text(new), encoding="utf-8")
    done = linked(read_notebooks(tmp_path))
    assert list(done) == ["00_quickstart", "new"]
    assert done["new"]["metadata"]["fedcopl_lab"]["shows"] == "New ideas"
    assert linked(done) == done, "a second time changes nothing"


def test_every_notebook_begins_with_the_idea_and_folds_its_set_up() -> None:
    for name, notebook in read_notebooks().items():
        cells = notebook["cells"]
        above = cells[: [cell["id"] for cell in cells].index("install")]
        texts = ["".join(cell["source"]) for cell in above if cell["id"] not in ("links-top", "set-up")]
        assert all(cell["cell_type"] == "markdown" for cell in above), name
        assert len(" ".join(texts).split()) > 30, f"{name}: what is it about?"
        sections = [line for text in texts for line in text.splitlines() if line.startswith("#")]
        assert [line[:11] for line in sections[1:]] in ([], ["## The idea"]), name
        folded = [cell for cell in cells if cell["metadata"].get("jupyter", {}).get("source_hidden")]
        assert folded == [cell for cell in cells if cell["id"] == "install" or computes(cell)], name


def test_the_first_cell_says_what_to_type_and_installs_nothing(monkeypatch) -> None:
    exec(compile(INSTALL, "install", "exec"), {})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"`make lab`.*pip install -e \."):
        exec(compile(INSTALL, "install", "exec"), {})
    for notebook in read_notebooks().values():
        first = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
        assert "".join(first["source"]) == INSTALL
