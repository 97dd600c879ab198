"""The supplement's Eqs. 10 to 17 as four small pictures: what they say beside what was measured."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcopl_lab.paper import Item
from fedcopl_lab.report._sage_rounds import ALPHA_LOOKS
from fedcopl_lab.report._style import DOUBLE, FAINT, INK, QUIET, Look, legend_handle, new_figure, percent_axis
from fedcopl_lab.report._words import order, setting_of

_DASHED = (0, (4, 3))


def theory_picture(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Eq. 10: predictions move to the client's classes; entropies; Eq. 16, both sides; Eq. 17 and agreement."""
    looks = dict(zip(order(lines["column"]), ALPHA_LOOKS, strict=False))
    figure = new_figure(DOUBLE, 5.0)
    (first, second), (third, fourth) = figure.subplots(2, 2)
    _moved(first, lines, looks)
    _entropies(second, lines, looks)
    _both_sides(third, lines, looks)
    _agreement(fourth, lines, looks)
    handles = [legend_handle(name, Look(look.color, look.marker, "none")) for name, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    seeds = lines["seed"].nunique()
    words = f"{setting_of(item, profile, lines).short}; {seeds} seed{'s' if seeds > 1 else ''}; means over the rounds"
    figure.suptitle(f"Measured here ({words})", fontsize=7, color=QUIET)
    return figure


def _moved(axes: Axes, lines: pd.DataFrame, looks: dict[str, Look]) -> None:
    for place, (column, look) in enumerate(looks.items()):
        for side, metric in enumerate(("start_distance", "end_distance")):
            part = lines[(lines["column"] == column) & (lines["metric"] == metric)]
            by_seed = part.groupby("seed")["value"].mean()
            x = 3 * place + side
            axes.plot(x + 0.12 * (np.arange(len(by_seed)) - (len(by_seed) - 1) / 2), by_seed, "o", color=look.color,
                      alpha=0.5, markersize=3, markeredgewidth=0)  # fmt: skip
            axes.plot(x, by_seed.mean(), "_", color=look.color, markersize=14, markeredgewidth=2)
    places = [3 * place + side for place in range(len(looks)) for side in (0, 1)]
    axes.set_xticks(places, ["start", "end"] * len(looks))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("distance to the client's\nclasses (total variation)")
    axes.set_xlabel("predictions at start and end of local training")
    axes.set_title("Eq. 10: do they move to the client's classes?")
    percent_axis(axes)


def _entropies(axes: Axes, lines: pd.DataFrame, looks: dict[str, Look]) -> None:
    for column, look in looks.items():
        wide = _clients(lines, column)
        _dots(axes, wide["mix_entropy"], wide["posterior_entropy"], look)
    axes.set_xlabel("entropy of the client's classes (nats)")
    axes.set_ylabel("mean entropy of its\nmodel's predictions (nats)")
    axes.set_title("Does one entropy follow the other?")
    percent_axis(axes, "both")


def _both_sides(axes: Axes, lines: pd.DataFrame, looks: dict[str, Look]) -> None:
    highest = 0.0
    for column, look in looks.items():
        wide = _clients(lines, column)
        _dots(axes, wide["posterior_entropy"], wide["eq16_right"], look)
        minus = 2 * wide["prior_entropy"] - wide["eq16_right"]
        axes.plot(wide["posterior_entropy"], minus, look.marker, color=FAINT, markersize=2.5, zorder=1)
        highest = max(highest, float(wide["eq16_right"].max()))
    axes.plot([0, highest], [0, highest], color=INK, linewidth=0.8, linestyle=_DASHED, zorder=2)
    axes.annotate("both sides equal", (0.62 * highest, 0.62 * highest), (7, -9), textcoords="offset points",
                  fontsize=6.5, ha="left")  # fmt: skip
    axes.set_xlabel("left: posterior entropy (nats)")
    axes.set_ylabel("right: prior entropy\n+ divergence (nats)")
    axes.set_title("Eq. 16 (grey: with a minus sign instead)")
    percent_axis(axes, "both")


def _agreement(axes: Axes, lines: pd.DataFrame, looks: dict[str, Look]) -> None:
    for column, look in looks.items():
        part = lines[(lines["column"] == column) & (lines["metric"] == "confidence_when_agreeing")]
        by_level = part.groupby("x")["value"].agg(["mean", "std"])
        axes.errorbar(by_level.index, by_level["mean"], by_level["std"].fillna(0), color=look.color, marker=look.marker,
                      linestyle=look.line, elinewidth=0.8)  # fmt: skip
    distances = [
        lines.loc[lines["metric"] == metric, "value"].mean() for metric in ("distance_to_mean", "distance_to_single")
    ]
    axes.set_xticks(sorted(set(lines.loc[lines["metric"] == "images_when_agreeing", "x"].astype(int))))
    axes.set_xlabel("local models that agree with the merged one")
    axes.set_ylabel("confidence of\nthe merged model")
    axes.set_title(f"Eq. 17: merged model {distances[0]:.2f} from the mean,\n{distances[1]:.2f} from one local model")
    percent_axis(axes)


def _dots(axes: Axes, x: pd.Series, y: pd.Series, look: Look) -> None:
    axes.plot(x, y, look.marker, color=look.color, alpha=0.45, markersize=3, markeredgewidth=0)


def _clients(lines: pd.DataFrame, column: str) -> pd.DataFrame:
    """One line per seed and client, one column per metric."""
    part = lines[(lines["column"] == column) & lines["y"].notna()]
    return part.pivot_table(index=["seed", "y"], columns="metric", values="value").dropna()
