"""Pictures and report of a profile from its committed numbers; no run is read."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.paper import ITEMS, Item, has_runs, measured, measured_claims, measured_runs
from fedcopl_lab.report._draw import draw
from fedcopl_lab.report._page import write_report
from fedcopl_lab.report._save import comparable, save_item
from fedcopl_lab.report._words import item_of


def write_committed(
    folder: Path | str, profile: str = "mini", items: Sequence[Item] = ITEMS, pictures: Sequence[str] = ("pdf", "png")
) -> Path:
    """Draw the items of which enough is committed to compare, and write ``report.html`` with the committed verdicts.

    Args:
        folder: where to write; made when missing.
        profile: whose committed numbers.
        items: what to draw, as far as it can be drawn.
        pictures: kinds of picture files, of ``"pdf"``, ``"png"`` and ``"svg"``.

    Returns:
        The report.

    Raises:
        FedCoPLError: nothing of these items is committed, or a folder that cannot be written.

    >>> write_committed("figures", "smoke", lab.paper.find_items(["main Table 6"]), pictures=()).name
    'report.html'

    Shown in the README.
    """
    numbers, runs = measured(profile), measured_runs(profile)
    drawn = drawable(items, numbers, profile)
    if not any(map(len, drawn.values())):
        raise FedCoPLError(f"not enough of these items is committed in profile {profile} to draw; see report.coverage")
    for item, lines in drawn.items():
        save_item(item, lines, runs, folder, profile, pictures)
    together, judged = pd.concat(drawn.values()), measured_claims(profile)
    return write_report(folder, list(drawn), together, runs, profile, judged, compare=False)


def draw_committed(item: Item | str, profile: str = "mini") -> Figure:
    """The picture of an item from a profile's committed numbers, without the columns of which one row alone was run.

    Args:
        item: the item, its id or its place in the paper.
        profile: whose committed numbers.

    Raises:
        FedCoPLError: an unknown item, or too little of it is committed to compare.

    >>> draw_committed("sage_main_fig2a")
    <Picture size ...>

    Shown in notebook ``fedcopl_main_fig2``.
    """
    known = item_of(item)
    lines = comparable(known, measured(profile), profile)
    if lines.empty:
        raise FedCoPLError(f"not enough of {known.id} is committed in profile {profile} to draw; see report.coverage")
    return draw(known, lines, profile)


def drawable(items: Sequence[Item], numbers: pd.DataFrame, profile: str) -> dict[Item, pd.DataFrame]:
    """The items of which enough is there to draw them, with their lines; diagrams need none."""
    found = {item: comparable(item, numbers, profile) for item in items if has_runs(item, profile)}
    return {item: lines for item, lines in found.items() if len(lines) or item.reads == "nothing"}
