"""``report.save``: what a paper needs, the same bytes each time, and clear words for what cannot be."""

import re

import pytest
from matplotlib.figure import Figure

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.report import save, table, write_committed
from fedcopl_lab.report.looks import DOUBLE, SINGLE

ITEM = "fedcopl_main_table6"


def pdf_width(content: bytes) -> float:
    """Inches, of the page's own box."""
    left, _, right, _ = map(float, re.search(rb"/MediaBox \[([^\]]*)\]", content)[1].split())
    return (right - left) / 72


def test_every_kind_of_an_item_comes_out_the_same_twice(made_up, tmp_path) -> None:
    kinds = ("pdf", "svg", "png", "tex", "csv")
    first, second = (save(ITEM, tmp_path / part / "six", kinds, made_up(ITEM)) for part in "ab")
    assert [path.name for path in first] == [*(f"six.{kind}" for kind in kinds), "six.caption.txt"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_letters_are_in_the_files(made_up, tmp_path) -> None:
    pdf, svg, _ = save(ITEM, tmp_path / "six", ("pdf", "svg"), made_up(ITEM))
    content = pdf.read_bytes()
    assert b"/FontFile2" in content, "TrueType, embedded"
    assert b"/Type3" not in content
    assert b"CreationDate" not in content
    assert "<text" not in svg.read_text(encoding="utf-8"), "letters are outlines"


@pytest.mark.parametrize(("width", "inches"), [("single", SINGLE), ("double", DOUBLE)])
@pytest.mark.parametrize("name", [ITEM, "fedcopl_main_fig2"])
def test_an_item_takes_the_width_of_a_template(name, width, inches, tmp_path) -> None:
    path, _ = save(name, tmp_path / "f.pdf", width=width, font="serif")
    assert pdf_width(path.read_bytes()) == pytest.approx(inches, abs=0.01)
    assert b"STIX" in path.read_bytes()


def test_a_table_is_typeset_and_its_heading_goes_into_the_caption(tmp_path) -> None:
    path, caption = save(ITEM, tmp_path / "six.svg")
    with_heading, _ = save(ITEM, tmp_path / "more.svg", heading=True, paper=True)
    assert with_heading.stat().st_size > 1.5 * path.stat().st_size
    words = caption.read_text(encoding="utf-8")
    told = "main Table 6|smoke: handwritten digits, tiny CLIP; 5 seeds|Seeds: 0, 1, 2, 3, 4|n = 5|t-interval"
    assert all(part in words for part in told.split("|"))


@pytest.mark.usefixtures("words_only")  # on the page; the files are drawn
@pytest.mark.parametrize("profile", ["smoke", "mini"])
@pytest.mark.parametrize("name", ["fedcopl_main_table6", "sage_main_fig2a"])
def test_an_author_gets_the_file_that_is_committed(name, profile, tmp_path) -> None:
    """The same picture, whether saved alone or written with all others."""
    write_committed(tmp_path / "all", profile, lab.paper.find_items([name]), pictures=("pdf",))
    saved = save(name, tmp_path / "one" / name, ("pdf", "csv"), profile=profile)
    assert [path.name for path in saved] == [f"{name}.pdf", f"{name}.csv", f"{name}.caption.txt"]
    assert [path.read_bytes() for path in saved] == [(tmp_path / "all" / path.name).read_bytes() for path in saved]


def test_an_item_alone_is_drawn_from_the_committed_numbers(tmp_path) -> None:
    (path,) = lab.report.save(ITEM, tmp_path / "six.tex")
    numbers = lab.paper.measured("smoke").query("item == @ITEM")
    means = [text.split(" ± ")[0] for text in table(numbers).to_numpy().ravel()]
    assert all(mean in path.read_text(encoding="utf-8") for mean in means)


def test_only_a_table_with_single_runs_says_that_they_have_no_spread(made_up, tmp_path) -> None:
    numbers = made_up("sage_main_table1")
    for few, said in ((2, False), (1, True)):
        kept = numbers[(numbers["series"] != "FedDB") | (numbers["seed"] < few)]
        (path,) = save("sage_main_table1", tmp_path / "one.tex", numbers=kept)
        assert ("a single run" in path.read_text(encoding="utf-8")) == said


def test_what_cannot_be_written_is_said_and_nothing_is_left_behind(made_up, tmp_path) -> None:
    figure = Figure()
    for what, to, more, saying in (
        (ITEM, "a.pdf", {"formats": ("png",)}, r"ends in \.pdf but formats=\('png',\)"),
        (ITEM, "a", {"formats": ("pfd",)}, "format 'pfd' cannot be written; did you mean 'pdf'"),
        (figure, "a.tex", {}, r"no numbers for \.tex; pass the item"),
        (ITEM, "a.pdf", {"width": "triple"}, "choose one of single, double"),
        (ITEM, "a.pdf", {"font": "comic"}, "choose one of sans, serif"),
        (figure, "a.pdf", {"width": "single"}, "keeps the layout that it was drawn with"),
        ("fedcopl_main_fig2", "a.tex", {}, "fedcopl_main_fig2 is no table"),
        ("fedcopl_main_fig99", "a.pdf", {}, "unknown item"),
    ):
        with pytest.raises(FedCoPLError, match=saying):
            save(what, tmp_path / to, **more)
    assert not list(tmp_path.iterdir())
