"""Pictures and report of a profile from its committed numbers."""

from pathlib import Path

import pandas as pd
import pytest

from fedcopl_lab import FedCoPLError
from fedcopl_lab.paper import ITEMS, find_items, measured
from fedcopl_lab.report import draw_committed, write_committed
from fedcopl_lab.report._page import drawable
from fedcopl_lab.report._words import comparable

MINI = Path(__file__).resolve().parents[2] / "figures" / "mini"


def part_of(name, cells):
    """An item and the lines of some of its cells, (series, column)."""
    [item] = find_items([name])
    lines = [{"item": item.id, "series": series, "column": column, "value": 0.5} for series, column in cells]
    return item, pd.DataFrame(lines)


@pytest.mark.parametrize(("n_rows", "drawn"), [(1, False), (4, False), (5, True), (8, True)])
def test_a_column_of_few_rows_is_left_out(n_rows, drawn):
    [item] = find_items(["main Table 1"])
    rows = list(dict.fromkeys(cell.series for cell in item.cells("mini")))
    one, other = "CIFAR-10, β = 0.1", "CIFAR-100, β = 0.1"
    item, lines = part_of(item.id, [*((row, one) for row in rows[:n_rows]), (rows[0], other)])
    assert set(comparable(item, lines, "mini")["column"]) == ({one} if drawn else set())


def test_a_whole_item_is_drawn_even_with_one_row():
    [item] = find_items(["fedcopl_supp_fig3"])
    item, lines = part_of(item.id, [(cell.series, cell.column) for cell in item.cells("mini")])
    assert len(comparable(item, lines, "mini")) == len(lines)


def test_a_whole_column_is_drawn_even_with_one_row():
    [item] = find_items(["sage_main_fig2a"])
    one, *_ = [(cell.series, cell.column) for cell in item.cells("mini")]
    item, lines = part_of(item.id, [one])
    assert set(comparable(item, lines, "mini")["column"]) == {one[1]}


@pytest.mark.parametrize(("n_levels", "drawn"), [(1, False), (2, False), (3, True)])
def test_a_sweep_needs_three_levels(n_levels, drawn):
    [item] = find_items(["fedcopl_supp_table4"])
    cells = [(cell.series, cell.column) for cell in item.cells("mini")]
    levels = list(dict.fromkeys(column for _, column in cells))[:n_levels]
    item, lines = part_of(item.id, [cell for cell in cells if cell[1] in levels])
    assert bool(len(comparable(item, lines, "mini"))) == drawn


def test_one_picture_is_drawn_or_said_to_be_missing():
    words = [text.get_text() for text in draw_committed("main Table 6").findobj(lambda part: hasattr(part, "get_text"))]
    assert any("mini: CIFAR-10 (part)" in text for text in words)
    with pytest.raises(FedCoPLError, match="not enough of fedcopl_main_table4 is committed in profile mini"):
        draw_committed("main Table 4")


def test_the_pictures_of_mini_are_those_of_the_committed_numbers(tmp_path):
    drawn = drawable(ITEMS, measured("mini"), "mini")
    assert {path.stem for path in MINI.glob("*.json")} == {item.id for item in drawn}
    small = [item for item in drawn if item.id in ("fedcopl_main_table6", "sage_main_fig2b")]
    assert len(small) == 2
    write_committed(tmp_path, "mini", small, pictures=())
    for path in tmp_path.iterdir():
        if path.suffix in (".csv", ".json", ".tex"):
            assert path.read_bytes() == (MINI / path.name).read_bytes()


@pytest.mark.usefixtures("words_only")
def test_the_first_screen_compares_the_rows_that_the_paper_prints(tmp_path):
    report = write_committed(tmp_path, "smoke", find_items(["main Table 1"]), pictures=())
    words = " ".join(report.read_text(encoding="utf-8").split())
    assert "In the paper, over its single data sets, it leads the best of these rows by 4.1 to 9.8 points." in words
    head, _, rest = words.partition("<nav")
    assert "Zero-shot CLIP" not in head
    assert 'id="run-in-mini"' in rest
    assert "against the committed numbers" not in rest, "they are the committed numbers"
