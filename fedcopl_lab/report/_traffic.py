"""Accuracy against the bytes that a client has sent so far."""

import pandas as pd
from matplotlib.figure import Figure

from fedcopl_lab.paper import Item
from fedcopl_lab.report._curves import MEAN_AND_BAND, curve, headline, looks_of
from fedcopl_lab.report._style import DOUBLE, QUIET, legend_handle, new_figure, percent_axis
from fedcopl_lab.report._words import axis_name, is_own, order, setting_of

KIB = 1024


def traffic(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """One panel a split, one line a method, a mark for each round; up is good, left is cheap."""
    columns, looks = order(lines["column"]), looks_of(order(lines["series"]))
    clients = setting_of(item, profile).clients
    figure = new_figure(DOUBLE, 2.9)
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        for name in sorted(looks, key=is_own):  # the paper's own in front
            own = lines[(lines["column"] == column) & (lines["series"] == name)]
            curve(axes, accuracy_by_bytes(own, clients), looks[name], 100.0)
        axes.set_title(column)
        axes.set_xlabel("sent by a client so far (KiB)")
        axes.set_xlim(left=0)
        percent_axis(axes)
    panels[0].set_ylabel(axis_name("accuracy"))
    last = panels[-1].get_xlim()[1]
    panels[-1].annotate("a mark: a round", (last, panels[-1].get_ylim()[0]), (-3, 3), textcoords="offset points",
                        ha="right", va="bottom", fontsize=6.5, color=QUIET)  # fmt: skip
    handles = [legend_handle(name, look) for name, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), columnspacing=1.2)
    headline(figure, item, lines, profile, "accuracy", MEAN_AND_BAND)
    return figure


def accuracy_by_bytes(lines: pd.DataFrame, clients: int) -> pd.DataFrame:
    """The lines of the accuracy with x = KiB that a client has sent until the round's end.

    Args:
        lines: of one method and split, with metrics ``accuracy`` and ``bytes_up``, the latter of all clients.
        clients: their number K.
    """
    sent = lines[lines["metric"] == "bytes_up"].groupby("x")["value"].mean().cumsum() / clients / KIB
    accuracy = lines[lines["metric"] == "accuracy"]
    return accuracy.assign(x=accuracy["x"].map(sent))
