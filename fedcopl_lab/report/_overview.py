"""Tables for the README: all items in one, and one item beside the paper."""

import pandas as pd

from fedcopl_lab.paper import ITEMS, claims_about, measured, measured_claims, measured_runs
from fedcopl_lab.report._compare import beside, number_text
from fedcopl_lab.report._templates import SYMBOLS
from fedcopl_lab.report._words import paper_of

_FROM_NO_RUN = "none"


def items_table(profile: str = "smoke") -> pd.DataFrame:
    """Every table and figure that can be made, with what was measured for it.

    Args:
        profile: whose committed runs and verdicts.

    Returns:
        One row per item, indexed by its id. Columns paper, where (in the paper; ``"ours"`` beside it), shows,
        notebook, profile, runs, seconds (of one process, for all seeds; runs that items share count for each),
        hardware (empty without runs), and one column per verdict with how many claims about the item got it.

    Raises:
        FedCoPLError: nothing was measured in that profile.

    >>> items_table().loc["fedcopl_main_table1", ["runs", "holds", "does not hold"]]

    Shown in the README.
    """
    numbers, runs = measured(profile), measured_runs(profile).set_index("key")
    verdict_of = measured_claims(profile).set_index("number")["verdict"]
    keys = numbers.dropna(subset="key").groupby("item")["key"].unique()
    rows = []
    for item in ITEMS:
        own = runs.loc[[key for key in keys.get(item.id, ()) if key]]
        found = verdict_of.reindex(list(claims_about(item))).value_counts()
        rows.append(
            {
                "item": item.id,
                "paper": paper_of(item),
                "where": item.source,
                "shows": item.title,
                "notebook": item.notebook,
                "profile": profile,
                "runs": len(own),
                "seconds": float(own["seconds"].sum()),
                "hardware": ", ".join(sorted({f"{name}, {threads} thread" for name, threads in
                                              zip(own["hardware"], own["threads"], strict=True)})),
                **{verdict: int(found.get(verdict, 0)) for verdict in SYMBOLS},
            }
        )  # fmt: skip
    return pd.DataFrame(rows).set_index("item")


def items_markdown(profile: str = "smoke") -> str:
    """The table as Markdown, for the README: one line per item, its claims as signs and numbers.

    >>> items_markdown().splitlines()[0]
    '| item | shows | notebook | runs, minutes | claims |'
    """
    lines = ["| item | shows | notebook | runs, minutes | claims |", "|---|---|---|---|---|"]
    for item_id, row in items_table(profile).to_dict("index").items():
        cost = f"{row['runs']}, {row['seconds'] / 60:.1f}" if row["runs"] else _FROM_NO_RUN
        claims = " ".join(f"{sign} {row[verdict]}" for verdict, sign in SYMBOLS.items() if row[verdict])
        notebook = f"[{row['notebook']}](notebooks/{row['notebook']}.ipynb)"
        item = f"{row['paper']}, {row['where']} (`{item_id}`)"
        lines.append(f"| {item} | {row['shows']} | {notebook} | {cost} | {claims} |")
    return "\n".join(lines)


def beside_markdown(item: str, profile: str) -> str:
    """An item's committed numbers beside the printed ones as Markdown, in the columns of which both have a row.

    >>> print(beside_markdown("fedcopl_main_table1", "mini"))
    """
    wide = beside(item, measured(profile), profile)
    names = [str(name) for name in wide.columns]
    printed = [name.removeprefix("paper: ") for name in names if name.startswith("paper: ")]
    pairs = [(column, name) for column in printed for name in names if name.endswith(f") {column}")]
    both = [(column, name) for column, name in pairs if wide[[f"paper: {column}", name]].notna().all(axis=1).any()]
    lines = [
        "| | " + " | ".join(f"{column}: paper | {profile}" for column, _ in both) + " |",
        "|---|" + "---|---|" * len(both),
    ]
    for row, values in wide[wide[[name for _, name in both]].notna().any(axis=1)].iterrows():
        cells = [
            part
            for column, name in both
            for part in (number_text(values[f"paper: {column}"]), number_text(values[name], values[f"{name}: std"]))
        ]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)
