"""Markdown tables of the README, the docs and the notebooks' index, from what is committed."""

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from fedcopl_lab.paper import (
    ITEMS,
    VERDICTS,
    Item,
    discrepancies,
    find_items,
    judged_claims,
    measured,
    measured_claims,
    measured_profiles,
    measured_runs,
)
from fedcopl_lab.report import beside, coverage
from fedcopl_lab.report._claims import SYMBOLS, gate_lines
from fedcopl_lab.report._compare import number_text
from fedcopl_lab.report._words import item_of, paper_of


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = ["|" + "".join(f" {cell} |" if cell else " |" for cell in head), "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def items_markdown(profile: str = "smoke") -> str:
    """Every table and figure that can be made, as Markdown for the README.

    Args:
        profile: whose committed runs and verdicts.

    Returns:
        One line per item: where it is in its paper, what it shows, its notebook, its runs and their minutes (of one
        process, for all seeds; runs that items share count for each), and its claims' verdicts as signs and numbers.

    Raises:
        FedCoPLError: nothing was measured in that profile.
    """
    runs = measured_runs(profile).set_index("key")
    verdict_of = measured_claims(profile).set_index("number")["verdict"]
    keys = measured(profile).dropna(subset="key").groupby("item")["key"].unique()
    rows = []
    for item in ITEMS:
        own = runs.loc[[key for key in keys.get(item.id, ()) if key]]
        found = verdict_of.reindex(list(item.claims)).value_counts()
        rows.append(
            (
                f"{paper_of(item)}, {item.source} (`{item.id}`)",
                item.title,
                f"[{item.notebook}](notebooks/{item.notebook}.ipynb)",
                f"{len(own)}, {own['seconds'].sum() / 60:.1f}" if len(own) else "none",
                " ".join(f"{sign} {found[verdict]}" for verdict, sign in SYMBOLS.items() if verdict in found),
            )
        )
    return markdown(("item", "shows", "notebook", "runs, minutes", "claims"), rows)


def beside_markdown(item: Item | str, profile: str) -> str:
    """An item's committed numbers beside the printed ones as Markdown, in the columns of which both have a row.

    >>> print(beside_markdown("fedcopl_main_table1", "mini"))
    | | CIFAR-10, β = 0.1: paper | mini |...
    """
    wide = beside(item_of(item), measured(profile), profile).droplevel(["profile", "dataset"], axis=1)
    values: dict[Any, pd.Series] = dict(wide.items())
    printed = {column: values["paper", column, "mean"] for column in wide.xs("paper", axis=1).columns.unique("column")}
    ours = {column: values["measured", column, "mean"] for column in printed if ("measured", column, "mean") in values}
    columns = [column for column, mean in ours.items() if (mean.notna() & printed[column].notna()).any()]
    rows = []
    for row in wide.index:
        texts = []
        for column in columns:
            mean, std = (values["measured", column, of][row] for of in ("mean", "std"))
            texts += [number_text(printed[column][row]), number_text(mean, std)]
        if set(texts[1::2]) != {"–"}:  # a row that was measured
            rows.append([row, *texts])
    return markdown(["", *(name for column in columns for name in (f"{column}: paper", profile))], rows)


def coverage_markdown(profile: str = "mini") -> str:
    """The table as Markdown, for the README.

    >>> coverage_markdown("mini").splitlines()[0]
    '| item | runs | not run |'
    """
    rows = [(row["shows"], f"{row['committed']:,} of {row['runs']:,}", row["not_run"] or "–")
            for row in coverage(profile).to_dict("records")]  # fmt: skip
    return markdown(("item", "runs", "not run"), rows)


def claims_markdown(profile: str) -> str:
    """The claims that a profile's committed runs settle, as Markdown: claim, verdict, what was measured.

    >>> print(claims_markdown("smoke"))
    | claim | verdict | measured |...
    """
    settled = judged_claims()[["number", "source"]].merge(measured_claims(profile), on="number")
    settled = settled[settled["verdict"] != "not tested"]
    rows = [
        (f"{line['number']}. {line['claim']} ({line['source']})", f"{SYMBOLS[line['verdict']]} {line['verdict']}",
         f"{line['statistic']}; {line['n_seeds']} seeds" if line["statistic"] else line["note"])
        for line in settled.to_dict("records")
    ]  # fmt: skip
    return markdown(("claim", "verdict", "measured"), rows)


def verdicts_markdown() -> str:
    """How many claims of each paper hold, by profile."""
    rows = []
    papers = judged_claims().set_index("number")["paper"]
    for name, shown in (("fedcopl", "FedCoPL"), ("sage", "SAGE")):
        for profile in reversed(measured_profiles()):
            verdicts = measured_claims(profile)
            counts = verdicts[verdicts["number"].map(papers) == name]["verdict"].value_counts()
            rows.append((shown, f"`{profile}`", *(counts.get(word, 0) for word in VERDICTS)))
    return markdown(("paper", "profile", "hold", "do not hold", *VERDICTS[2:]), rows)


def gates_markdown(profile: str) -> str:
    """What a profile's own runs must show before claims are judged, and what they show; places not run are left out."""
    heads = ("gate", "place", "quantity", "needed", "measured", "state")
    found = [line for line in gate_lines(profile) if line["state"] != "not measured" and line["gate"] != "C"]
    return markdown(heads, ([line[name] for name in heads] for line in found))


def switches_markdown(profile: str = "smoke") -> str:
    """What each switch of the released code changes, by itself: the setting, and the measured gain over seeds."""
    (item,) = find_items(["fedcopl_ours_quirks"])
    configs = {cell.series: vars(cell.config) for cell in item.cells(profile)}
    numbers = measured(profile)
    numbers = numbers[(numbers["item"] == item.id) & (numbers["metric"] == "accuracy")]
    values = 100 * numbers.pivot_table(index="seed", columns="series", values="value")
    plain = configs.pop("paper mode")
    rows = []
    for name, config in configs.items():
        told = ", ".join(f"`{key}={value}`" for key, value in config.items() if value != plain[key])
        gains = (values[name] - values["paper mode"]).dropna() if name in values else pd.Series(dtype=float)
        text = f"{gains.mean():+.1f} ± {gains.std():.1f}".replace("-", "−") if len(gains) > 1 else "not measured"
        rows.append((name, told, text, len(gains) or ""))
    return markdown(("switch", "setting", "accuracy against paper mode (points)", "seeds"), rows)


def discrepancies_markdown() -> str:
    """Every place where FedCoPL's paper and its released code differ, and the setting that chooses."""
    rows = []
    for row in discrepancies().fillna("").to_dict("records"):
        setting = f"`{row['option']}={row['default']}`" if row["option"] else ""
        cells = (row["number"], row["topic"], row["paper"], row["code"], setting, row["toolkit"])
        rows.append([str(cell).replace("|", "\\|") for cell in cells])
    return markdown(("", "what", "the paper", "the released code", "setting", "here"), rows)
