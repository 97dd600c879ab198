"""``report.save``: what a paper needs, the same bytes each time, and clear words for what cannot be."""

import re

import pytest
from matplotlib.figure import Figure

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.report import draw, save, table
from fedcopl_lab.report.looks import DOUBLE, SINGLE

ITEM = "fedcopl_main_table6"


def pdf_width(content: bytes) -> float:
    """Inches, of the page's own box."""
    left, _, right, _ = map(float, re.search(rb"/MediaBox \[([^\]]*)\]", content)[1].split())
    return (right - left) / 72


def test_every_kind_of_an_item_comes_out_the_same_twice(made_up, tmp_path) -> None:
    kinds = ("pdf", "svg", "png", "tex", "csv")
    first, second = (save(ITEM, tmp_path / part / "six", kinds, made_up(ITEM)) for part in "ab")
    assert [path.name for path in first] == [f"six.{kind}" for kind in kinds]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_letters_are_in_the_files(made_up, tmp_path) -> None:
    pdf, svg = save(ITEM, tmp_path / "six", ("pdf", "svg"), made_up(ITEM))
    content = pdf.read_bytes()
    assert b"/FontFile2" in content, "TrueType, embedded"
    assert b"/Type3" not in content
    assert b"CreationDate" not in content
    assert "<text" not in svg.read_text(encoding="utf-8"), "letters are outlines"


@pytest.mark.parametrize(("width", "inches"), [("single", SINGLE), ("double", DOUBLE)])
def test_a_figure_takes_the_width_of_a_template_and_is_left_as_it_was(width, inches, made_up, tmp_path) -> None:
    figure = draw(ITEM, made_up(ITEM))
    before = tuple(figure.get_size_inches())
    (path,) = save(figure, tmp_path / "f.pdf", width=width)
    assert pdf_width(path.read_bytes()) == pytest.approx(inches, abs=0.01)
    assert tuple(figure.get_size_inches()) == before


def test_an_item_alone_is_drawn_from_the_committed_numbers(tmp_path) -> None:
    (path,) = lab.report.save(ITEM, tmp_path / "six.tex")
    numbers = lab.paper.measured("smoke").query("item == @ITEM")
    means = [text.split(" ± ")[0] for text in table(numbers).to_numpy().ravel()]
    assert all(mean in path.read_text(encoding="utf-8") for mean in means)


def test_what_cannot_be_written_is_said_and_nothing_is_left_behind(made_up, tmp_path) -> None:
    figure = Figure()
    for what, to, more, saying in (
        (ITEM, "a.pdf", {"kinds": ("png",)}, r"ends in \.pdf but kinds=\('png',\)"),
        (ITEM, "a", {"kinds": ("pfd",)}, "kind 'pfd' cannot be written; did you mean 'pdf'"),
        (figure, "a.tex", {}, r"no numbers for \.tex; pass the item"),
        (figure, "a.pdf", {"width": "triple"}, "expected one of single, double"),
        ("fedcopl_main_fig2", "a.tex", {}, "fedcopl_main_fig2 is no table"),
        ("fedcopl_main_fig99", "a.pdf", {}, "unknown item"),
    ):
        with pytest.raises(FedCoPLError, match=saying):
            save(what, tmp_path / to, **more)
    assert not list(tmp_path.iterdir())
