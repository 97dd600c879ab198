"""The supplement's Eqs. 10 to 17 as four small pictures: what they say beside what was measured."""

from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcopl_lab.paper import Item
from fedcopl_lab.report._facets import Panel, aside, error_bars, facets, headline, seed_dots
from fedcopl_lab.report._words import order
from fedcopl_lab.report.looks import BY_LEVEL, DASHED, FAINT, INK, Look


def theory(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Eq. 10: predictions move to the client's classes; entropies; Eq. 16, both sides; Eq. 17 and agreement."""
    looks = dict(zip(order(lines["column"]), BY_LEVEL, strict=False))
    of_column = {column: lines[lines["column"] == column] for column in looks}
    of_client = {column: _clients(part) for column, part in of_column.items()}
    merged = lines.groupby("metric")["value"].mean()

    def moved(axes: Axes) -> None:
        ends = [(part, metric) for part in of_column.values() for metric in ("start_distance", "end_distance")]
        places = [place + place // 2 for place in range(len(ends))]  # pairs apart
        for place, (part, metric) in zip(places, ends, strict=True):
            by_seed = part[part["metric"] == metric].groupby("seed")["value"].mean()
            color = looks[part["column"].iloc[0]].color
            seed_dots(axes, place + aside(len(by_seed), 0.12), by_seed, color)
            axes.plot(place, by_seed.mean(), "_", color=color, markersize=14, markeredgewidth=2)
        axes.set_xticks(places, ["start", "end"] * len(looks))

    def entropies(axes: Axes) -> None:
        for column, look in looks.items():
            wide = of_client[column]
            axes.plot(wide["mix_entropy"], wide["posterior_entropy"], **_scattered(look).style)

    def both_sides(axes: Axes) -> None:
        highest = max(float(wide["eq16_right"].max()) for wide in of_client.values())
        for column, look in looks.items():
            wide = of_client[column]
            axes.plot(wide["posterior_entropy"], wide["eq16_right"], **_scattered(look).style)
            minus = 2 * wide["prior_entropy"] - wide["eq16_right"]
            axes.plot(wide["posterior_entropy"], minus, look.marker, color=FAINT, markersize=2.5, zorder=1)
        axes.plot([0, highest], [0, highest], color=INK, linewidth=0.8, linestyle=DASHED, zorder=2)
        axes.annotate("both sides equal", (0.62 * highest, 0.62 * highest), (7, -9), textcoords="offset points",
                      fontsize=6.5, ha="left")  # fmt: skip

    def agreement(axes: Axes) -> None:
        for column, look in looks.items():
            part = of_column[column]
            found = part[part["metric"] == "confidence_when_agreeing"].groupby("x")["value"].agg(["mean", "std"])
            error_bars(axes, found.index, found, look)
        axes.set_xticks(sorted(set(lines.loc[lines["metric"] == "images_when_agreeing", "x"].astype(int))))

    eq17 = (f"Eq. 17: merged model {merged['distance_to_mean']:.2f} from the mean,\n"
            f"{merged['distance_to_single']:.2f} from one local model")  # fmt: skip
    panels = [
        Panel(moved, "Eq. 10: do they move to the client's classes?", "predictions at start and end of local training",
              "distance to the client's\nclasses (total variation)", ends=(0.0, None)),
        Panel(entropies, "Does one entropy follow the other?", "entropy of the client's classes (nats)",
              "mean entropy of its\nmodel's predictions (nats)", "both"),
        Panel(both_sides, "Eq. 16 (grey: with a minus sign instead)", "left: posterior entropy (nats)",
              "right: prior entropy\n+ divergence (nats)", "both"),
        Panel(agreement, eq17, "local models that agree with the merged one", "confidence of\nthe merged model"),
    ]  # fmt: skip
    dots = {column: replace(look, line="none") for column, look in looks.items()}
    head = headline(item, lines, profile, "means over the rounds")
    return facets(panels, 5.0, across=2, sharey=False, legend=dots, head=head)


def _scattered(look: Look) -> Look:
    return replace(look, line="none", size=3.0, alpha=0.45)


def _clients(part: pd.DataFrame) -> pd.DataFrame:
    """One line per seed and client, one column per metric."""
    return part[part["y"].notna()].pivot_table(index=["seed", "y"], columns="metric", values="value").dropna()
