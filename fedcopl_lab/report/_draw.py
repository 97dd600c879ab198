"""The picture of each table and figure, and which function draws which kind."""

from collections.abc import Callable

import pandas as pd
from matplotlib.figure import Figure

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.paper import Drawing, Item, measured
from fedcopl_lab.report._diagram import overview
from fedcopl_lab.report._distributions import confidences, skew, thresholds, two_skews
from fedcopl_lab.report._equations import theory
from fedcopl_lab.report._heat_maps import surface
from fedcopl_lab.report._over_levels import clients_and_participation, decay, kappa, sweep, uploads
from fedcopl_lab.report._over_rounds import accuracy_curves, drift, labels, measures, traffic
from fedcopl_lab.report._page_tables import typeset_table
from fedcopl_lab.report._table_dots import reached, spread, statistics, table_dots
from fedcopl_lab.report._words import comparable, is_table, item_of, lines_of
from fedcopl_lab.report.looks import Sheet, style

_DRAWINGS: dict[Drawing, Callable[[Item, pd.DataFrame, str], Figure]] = {
    "overview": overview, "theory": theory, "dots": table_dots, "statistics": statistics, "reached": reached,
    "spread": spread, "sweep": sweep, "lines": clients_and_participation, "surface": surface, "uploads": uploads,
    "kappa": kappa, "decay": decay, "drift": drift, "labels": labels, "rounds": measures, "curves": accuracy_curves,
    "traffic": traffic, "skew": skew, "two_skews": two_skews, "confidences": confidences, "thresholds": thresholds,
}  # fmt: skip


def draw(
    item_id: Item | str,
    numbers: pd.DataFrame | None = None,
    profile: str = "smoke",
    drawn_for: Sheet | None = None,
    *,
    typeset: bool = False,
) -> Figure:
    """The picture of one table or figure.

    Args:
        item_id: such as ``"fedcopl_main_table1"``, or the item itself.
        numbers: tidy numbers as :func:`fedcopl_lab.paper.collect` or :func:`fedcopl_lab.paper.measured` give
            them; lines of other items are left out. None only for pictures that no run is behind.
        profile: whose numbers they are; stands in the picture.
        drawn_for: the width, font and parts wanted; None draws for both columns, with everything.
        typeset: a table as text between rules, as a paper has it, instead of dots.

    Raises:
        FedCoPLError: an unknown item, or numbers that do not belong to it.

    >>> draw("fedcopl_main_fig2", lab.paper.measured("smoke"))
    <Picture size ...>

    Shown in every notebook.
    """
    item = item_of(item_id)
    if item.reads == "nothing":
        lines = pd.DataFrame()
    elif numbers is None:
        raise FedCoPLError(f"{item.id} cannot be drawn without numbers; pass measured({profile!r}) or collect(…)")
    else:
        lines = lines_of(item, numbers, profile, item.metrics[:1])
    with style(drawn_for or Sheet()):
        drawing = typeset_table if typeset and is_table(item) else _DRAWINGS[item.drawing]
        return drawing(item, lines, profile)


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
