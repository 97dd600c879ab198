"""The supplement's Eqs. 10 to 17 as four small pictures: what they say beside what was measured."""

from dataclasses import replace
from functools import partial
from itertools import cycle

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcopl_lab.paper import Item
from fedcopl_lab.report._facets import Block, Panel, compose, headline
from fedcopl_lab.report._marks import aside, error_bars, seed_dots
from fedcopl_lab.report._words import order
from fedcopl_lab.report.looks import BY_LEVEL, DASHED, INK, Look


def theory(item: Item, lines: pd.DataFrame, profile: str) -> Figure:
    """Eq. 10, distances to the classes of the client's labels; Eq. 17 and agreement; entropies; Eq. 16, both sides."""
    looks = dict(zip(order(lines["column"]), cycle(BY_LEVEL), strict=False))
    of_column = {column: lines[lines["column"] == column] for column in looks}
    cell = ["seed", "y"]  # one line per seed and client, one column per metric
    of_client = {column: part[part["y"].notna()].pivot_table("value", cell, "metric").dropna()
                 for column, part in of_column.items()}  # fmt: skip
    merged = lines.groupby("metric")["value"].mean()

    def moved(axes: Axes) -> None:
        for place, (column, look) in enumerate(looks.items()):
            for shift, metric in ((-0.15, "start_batch_labelled_distance"), (0.15, "end_batch_labelled_distance")):
                part = of_column[column]
                by_seed = part[part["metric"] == metric].groupby("seed")["value"].mean()
                seed_dots(axes, place + shift + aside(len(by_seed), 0.06), by_seed, look.color)
                hollow = replace(look, line="none", hollow=metric.startswith("start"), size=5.0)
                axes.plot(place + shift, by_seed.mean(), **hollow.style)
        axes.set_xticks(range(len(looks)), list(looks))
        axes.margins(x=0.15)

    def agreement(axes: Axes) -> None:
        for column, look in looks.items():
            part = of_column[column]
            found = part[part["metric"] == "confidence_when_agreeing"].groupby("x")["value"].agg(["mean", "std"])
            error_bars(axes, found.index, found, look)
        axes.set_xticks(sorted(set(lines.loc[lines["metric"] == "images_when_agreeing", "x"].astype(int))))

    def entropies(axes: Axes, column: str) -> None:
        wide = of_client[column]
        axes.plot(wide["mix_entropy"], wide["posterior_entropy"], **_scattered(looks[column]).style)

    highest = max(float(wide["eq16_right"].max()) for wide in of_client.values())

    def both_sides(axes: Axes, column: str) -> None:
        wide, look = of_client[column], looks[column]
        axes.plot(wide["posterior_entropy"], wide["eq16_right"], **_scattered(look).style)
        axes.plot([0, highest], [0, highest], color=INK, linewidth=0.8, linestyle=DASHED, zorder=2)

    eq17 = (f"Eq. 17: new global model {merged['distance_to_mean']:.2f} from the mean, "
            f"{merged['distance_to_single']:.2f} from one local model")  # fmt: skip
    whole = [
        Panel(moved, "Eq. 10: mean prediction before (hollow) and after (filled) local training",
              y="distance to its labels' classes (total variation)", ends=(0.0, None)),
        Panel(agreement, eq17, "local models that agree with the new global one", "confidence of the new global model"),
    ]  # fmt: skip
    pairs = ((entropies, "entropy of the client's classes", "mean entropy of its predictions"),
             (both_sides, "H(p(y|x)), nats", "H(p(y)) + KL, nats"))  # fmt: skip
    split = [Panel(partial(paint, column=name), name, x, y, "both") for paint, x, y in pairs for name in looks]
    dots = {column: replace(look, line="none") for column, look in looks.items()}
    dots |= {"both sides of Eq. 16 equal": Look(INK, line=DASHED, width=0.8)}
    head = headline(item, lines, profile, "means over the rounds")
    return compose([Block(whole, 2.3, head=head, least=1.5, sharey=False, legend={}),
                    Block(split, 1.9, len(looks), legend=dots)])  # fmt: skip


def _scattered(look: Look) -> Look:
    return replace(look, line="none", size=3.0, alpha=0.45)
