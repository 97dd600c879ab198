"""The committed report in a real browser: it fits a phone and a screen, is whole, silent and legible."""

from itertools import pairwise
from pathlib import Path

import pytest

from fedcopl_lab.paper import find_items
from fedcopl_lab.report import write_committed

REPORT = Path(__file__).resolve().parents[2] / "figures" / "report.html"
NORMAL, LARGE = 4.5, 3.0  # contrast that WCAG AA asks of text

TEXTS = """
() => {
  const parse = (css) => { const v = css.match(/[\\d.]+/g).map(Number); return v.length > 3 ? v : [...v, 1]; };
  const over = (top, under) => top.slice(0, 3).map((c, i) => c * top[3] + under[i] * (1 - top[3]));
  const ground = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  document.querySelectorAll("details").forEach((node) => { node.open = true; });
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || ["STYLE", "SCRIPT"].includes(node.tagName) || !node.getClientRects().length) continue;
    const style = getComputedStyle(node), behind = ground(node);
    found.push([text.slice(0, 60), over(parse(style.color), behind), behind, parseFloat(style.fontSize),
                Number(style.fontWeight)]);
  }
  return found;
}
"""


def luminance(rgb: list[float]) -> float:
    """WCAG's relative luminance of a colour with channels from 0 to 255."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (value / 255 for value in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: list[float], other: list[float]) -> float:
    """From 1 (equal) to 21 (black on white)."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def needed(pixels: float, weight: float) -> float:
    """The contrast that letters of this size need."""
    return LARGE if pixels >= 24 or (pixels >= 18.66 and weight >= 700) else NORMAL


def test_contrast_of_known_pairs() -> None:
    assert contrast([0, 0, 0], [255, 255, 255]) == pytest.approx(21)
    assert contrast([119, 119, 119], [255, 255, 255]) == pytest.approx(4.48, abs=0.01)


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_report_fits_is_whole_silent_and_legible(chromium, width) -> None:
    page = chromium.new_page(viewport={"width": width, "height": 844})
    complaints: list[str] = []
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(request.url[:80]))
    page.goto(REPORT.as_uri())
    texts = page.evaluate(TEXTS)  # opens whatever is folded, so that all below sees it
    assert page.evaluate("document.documentElement.scrollWidth") == width
    images = page.evaluate("[...document.images].map(i => [i.complete && i.naturalWidth > 0, i.alt.length])")
    assert len(images) > 40
    assert all(there and alt > 20 for there, alt in images)
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map(h => Number(h.tagName[1]))")
    assert levels.count(1) == 1 == levels[0]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    broken = page.evaluate(
        "[...document.links].map(a => a.hash).filter(h => h && !document.getElementById(h.slice(1)))"
    )
    assert not broken
    assert len(texts) > 1000
    faint = {text: round(contrast(color, ground), 2) for text, color, ground, size, weight in texts
             if contrast(color, ground) < needed(size, weight)}  # fmt: skip
    assert not faint
    assert not complaints
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_a_reader_filters_steps_on_and_asks_where_a_number_comes_from(chromium, tmp_path, width) -> None:
    items = find_items(["fedcopl_main_table6", "fedcopl_main_fig1", "sage_main_fig2b"])
    report = write_committed(tmp_path, "smoke", items, pictures=())
    page = chromium.new_page(viewport={"width": width, "height": 844})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == width
    visible = "[...document.querySelectorAll('article')].filter(a => a.offsetHeight).map(a => a.id)"
    assert page.evaluate(visible) == [item.id for item in items]
    page.evaluate("document.querySelector('.entries').open = true")
    page.select_option("[data-filter=paper]", "SAGE")
    assert page.evaluate(visible) == ["sage_main_fig2b"]
    assert page.inner_text("[data-shown]") == "1 of 3 shown"
    page.select_option("[data-filter=paper]", "")
    page.select_option("[data-sort]", "title")
    titles = page.evaluate("[...document.querySelectorAll('article h3')].map(h => h.textContent)")
    assert titles[:2] == sorted(titles[:2])
    page.click("#fedcopl_main_table6 button.cell >> nth=0")
    told = page.inner_text("#origin")
    for part in (
        "neither / β = 0.1",
        "--method FedCoPL",
        "0, 1, 2",
        "torch=",
        'fedcopl-lab verify "fedcopl_main_table6',
    ):
        assert part in told
    assert not complaints
    page.close()
