"""Accuracy against the bytes that a client has sent so far."""

import pandas as pd
from matplotlib.figure import Figure

from fedcopl_lab.paper.items import Item
from fedcopl_lab.report._curves import headline, looks_of
from fedcopl_lab.report._style import DOUBLE, QUIET, legend_handle, new_figure, percent_axis
from fedcopl_lab.report._words import is_own, metric_name, order, setting_of

KIB = 1024


def traffic(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """One panel a split, one line a method, a mark for each round; up is good, left is cheap."""
    columns, looks = order(lines["column"]), looks_of(order(lines["series"]))
    clients = setting_of(item, profile).clients
    figure = new_figure(DOUBLE, 2.9)
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        for name, look in looks.items():
            sent = sent_and_accuracy(lines[(lines["column"] == column) & (lines["series"] == name)], clients)
            axes.fill_between(sent["sent"], sent["low"], sent["high"], color=look.color, alpha=0.14, linewidth=0)
            axes.plot(sent["sent"], sent["mean"], color=look.color, marker=look.marker, markerfacecolor=look.face,
                      linestyle=look.line, zorder=3 if is_own(name) else 2)  # fmt: skip
        axes.set_title(column)
        axes.set_xlabel("sent by a client so far (KiB)")
        axes.set_xlim(left=0)
        percent_axis(axes)
    panels[0].set_ylabel(f"{metric_name('accuracy').replace(', ', ',' + chr(10))} (%)")
    last = panels[-1].get_xlim()[1]
    panels[-1].annotate("a mark: a round", (last, panels[-1].get_ylim()[0]), (-3, 3), textcoords="offset points",
                        ha="right", va="bottom", fontsize=6.5, color=QUIET)  # fmt: skip
    handles = [legend_handle(name, look) for name, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), columnspacing=1.2)
    headline(figure, item, lines, profile, "accuracy", "line: mean, band: ± std")
    return figure


def sent_and_accuracy(lines: pd.DataFrame, clients: int) -> pd.DataFrame:
    """By round: KiB that a client has sent until its end, and the mean accuracy in percent with its band.

    Args:
        lines: of one method and split, with metrics ``accuracy`` and ``bytes_up``, the latter of all clients.
        clients: their number K.

    Returns:
        Columns sent, mean, low, high; rounds as index.
    """
    sent = lines[lines["metric"] == "bytes_up"].groupby("x")["value"].mean().cumsum() / clients / KIB
    accuracy = 100 * lines[lines["metric"] == "accuracy"].groupby("x")["value"].agg(["mean", "std"]).fillna(0)
    return pd.DataFrame(
        {
            "sent": sent,
            "mean": accuracy["mean"],
            "low": accuracy["mean"] - accuracy["std"],
            "high": accuracy["mean"] + accuracy["std"],
        }
    )
