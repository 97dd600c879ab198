"""Every picture in the width of one column and of two: no text lies on another, and nothing is cropped."""

import matplotlib as mpl
import numpy as np
import pytest

from fedcopl_lab.paper import ITEMS, has_runs, measured
from fedcopl_lab.report import draw
from fedcopl_lab.report._words import comparable
from fedcopl_lab.report.looks import FONTS, WIDTHS, Sheet

FEW = ("fedcopl_main_fig1", "fedcopl_main_table1", "sage_main_fig7")
DRAWN = [("smoke", item) for item in ITEMS]
DRAWN += [("mini", item) for item in ITEMS if item.reads != "nothing" and has_runs(item, "mini")]


def shown_texts(figure):
    """Texts that leave ink, with their boxes in pixels; ticks outside the ends of their axis leave none."""
    figure.canvas.draw()
    hidden = set()
    for axes in figure.findobj(mpl.axes.Axes):
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick, place in zip(axis.get_major_ticks(), axis.get_majorticklocs(), strict=False):
                if not low <= place <= high or not axes.axison:
                    hidden |= {id(tick.label1), id(tick.label2)}
    texts = [text for text in figure.findobj(mpl.text.Text) if text.get_visible() and text.get_text().strip()]
    return [(text, mpl.text.Text.get_window_extent(text)) for text in texts if id(text) not in hidden]


def overlaps(texts):
    """Pairs of texts whose boxes share more than a hair; the same text at the same place counts once."""
    boxes = np.array([box.extents for _, box in texts])
    wide = np.minimum(boxes[:, None, 2], boxes[None, :, 2]) - np.maximum(boxes[:, None, 0], boxes[None, :, 0])
    high = np.minimum(boxes[:, None, 3], boxes[None, :, 3]) - np.maximum(boxes[:, None, 1], boxes[None, :, 1])
    words = [text.get_text() for text, _ in texts]
    pairs = zip(*np.nonzero(np.triu((wide > 1.5) & (high > 2.5), 1)), strict=True)
    return [(words[a], words[b]) for a, b in pairs
            if words[a] != words[b] or not np.allclose(boxes[a], boxes[b], atol=2)]  # fmt: skip


def check(item, profile, width, font, typeset=False, author=False):
    lines = measured(profile)
    lines = comparable(item, lines, profile)
    if lines.empty and item.reads != "nothing":
        pytest.skip("nothing of it is committed")
    page = Sheet(width, font, heading=not author, paper=not author)
    figure = draw(item, lines, profile, page, typeset=typeset)
    texts = shown_texts(figure)
    assert not overlaps(texts)
    inches = figure.get_size_inches()
    assert inches[0] == WIDTHS[width]
    right, top = inches * figure.dpi + 2
    outside = [text.get_text() for text, box in texts if box.x0 < -2 or box.y0 < -2 or box.x1 > right or box.y1 > top]
    assert not outside
    assert min(text.get_fontsize() for text, _ in texts) >= 5.5 or item.drawing in ("skew", "overview")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", FEW)
def test_the_author_of_a_paper_can_read_every_word(name, width) -> None:
    (item,) = (item for item in ITEMS if item.id == name)
    check(item, "smoke", width, "serif", typeset=True, author=True)


@pytest.mark.long
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("profile", "item"), DRAWN, ids=lambda value: getattr(value, "id", value))
def test_no_text_lies_on_another_and_nothing_is_cropped(profile, item, width) -> None:
    for number, font in enumerate(FONTS):
        check(item, profile, width, font, typeset=bool(number), author=bool(number))
