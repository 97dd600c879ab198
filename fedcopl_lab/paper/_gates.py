"""Gates: what a regime must show with true labels, or by its baselines alone, before claims are judged in it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig, configure
from fedcopl_lab.paper._collect import TIDY_COLUMNS, collect, keys_by_cell
from fedcopl_lab.paper._measured import add_numbers, measured, measured_clip_labels
from fedcopl_lab.paper._printed import claims, read_table
from fedcopl_lab.paper.items import ITEMS, PAPER_SETS, SAGE_SETS, SEEDS
from fedcopl_lab.store import Store

Place = tuple[str, str]
"""Data set and split of a run."""

GATE_COLUMNS = ["gate", "scope", "dataset", "split", "quantity", "value", "least", "most", "unit", "n_seeds", "state"]
_ON_REAL_CLIP = "clip_features"
_NAMED_AT_MOST = 3


def gates(profile: str = "smoke", numbers: pd.DataFrame | None = None) -> pd.DataFrame:
    """Which gates a profile's regime passes; claims are judged only where it passes theirs.

    Gates A and B ask whether text prompts and true labels can gain anything, C whether the labellers do on OpenAI's
    CLIP what the paper prints, D whether pseudo-labels matter in SAGE's runs. They use true labels of training
    images and baselines, never the comparison that a claim is about. ``gates.csv`` has their limits.

    Args:
        profile: whose numbers.
        numbers: as :func:`fedcopl_lab.paper.collect` gives them; None takes the committed ones, if there are any.

    Returns:
        One line per gate, place and quantity: gate, scope (``"all"``, ``"set"`` or ``"split"``: where it decides),
        dataset, split (empty: all), quantity (in words), value (mean over seeds), least, most, unit, n_seeds, state
        (``"passed"``, ``"failed"`` or ``"not measured"``).

    Raises:
        FedCoPLError: an unknown profile.

    >>> gates("smoke").query("gate == 'B'")["split"].tolist()[:2]
    ['IID', 'β = 0.5']

    Shown in notebook ``00_quickstart``.
    """
    configure(profile)
    rows = _committed(profile) if numbers is None else numbers
    rows = pd.concat([rows[TIDY_COLUMNS], _on_real_clip()], ignore_index=True)
    rows = rows.assign(split=rows["column"].astype(str).map(split_of))
    found = [row for line in read_table("gates.csv").to_dict("records") for row in _judged(line, rows, profile)]
    return pd.DataFrame(found, columns=GATE_COLUMNS)


def gate_rows(profile: str, store: Store, seeds: Sequence[int] = SEEDS, **changes: Any) -> pd.DataFrame:
    """What the gates read: the committed numbers of runs that are asked for today, and the stored ones beside them."""
    read = {name for text in read_table("gates.csv")["items"] for name in _names(text)}
    items = [item for item in ITEMS if item.id in read]
    fresh = pd.concat([collect(item, profile, seeds, store, partial=True, **changes) for item in items])
    before = _committed(profile)
    cells = [(one.id, keys_by_cell(one, profile, cards=True, **changes)) for one in items]
    asked = {(name, *cell): keys for name, keys_of in cells for cell, keys in keys_of.items()}
    return add_numbers(before[before["item"].isin(read)], fresh, asked)


def failed_gates(table: pd.DataFrame, letters: str, places: Iterable[Place]) -> dict[Place, list[str]]:
    """The places (of the runs that a claim reads) at which one of some gates is not passed, with why, in words."""
    found: dict[Place, list[str]] = {}
    for place, letter in product(places, letters):
        dataset, split = place
        decides = (table["scope"] == "all") | (table["dataset"] == dataset) & table["split"].isin(["", split])
        rows = table[(table["gate"] == letter) & decides]
        said = [_in_words(line) for line in rows[rows["state"] != "passed"].to_dict("records")]
        if not len(rows):
            said = [f"Gate {letter} is not measured at {split}."]
        if said:
            found.setdefault(place, []).extend(said)
    return found


def sentences(failed: Mapping[Place, Sequence[str]]) -> list[str]:
    """The first few sentences of :func:`failed_gates`, each once."""
    said = list(dict.fromkeys(one for many in failed.values() for one in many))
    more = len(said) - _NAMED_AT_MOST
    return [*said[:_NAMED_AT_MOST], *([f"And {more} more; see `fedcopl-lab claims --gates`."] if more > 0 else [])]


def place_of(config: RunConfig) -> Place:
    """(data set, split) of a run; another frozen model than the profile's own is a place of its own.

    >>> place_of(configure("smoke", beta=0.05))
    ('digits', 'β = 0.05')
    """
    if isinstance(config, SageConfig):
        return config.dataset, ("Dirichlet, " if config.scheme == "dirichlet" else "") + f"α = {config.alpha:g}"
    usual = configure(config.profile)
    if not isinstance(config, PromptConfig) or not isinstance(usual, PromptConfig):
        raise FedCoPLError(f"{config!r} is a run of neither paper")
    split = {"iid": "IID", "quantity": "quantity"}.get(config.scheme) or f"β = {config.beta:g}"
    return config.dataset, split if config.clip == usual.clip else f"{split}, {config.clip}"


def _judged(line: Mapping[Any, str], rows: pd.DataFrame, profile: str) -> list[dict[str, Any]]:
    items = _names(line["items"])
    rows = rows[rows["item"].isin(items)]
    least, most = (float(line[name]) if line[name] else float("nan") for name in ("least", "most"))
    found = []
    for dataset, split in _places(line, items, rows, profile):
        there = rows[(rows["dataset"] == dataset) & (rows["split"] == split)]
        values = _differences(line, there)
        value = float(values.mean()) if len(values) else float("nan")
        inside = not (value < least or value > most)
        place = {"all": ("", split), "set": (dataset, ""), "split": (dataset, split)}[line["scope"]]
        found.append(
            {
                "gate": line["gate"], "scope": line["scope"], "dataset": place[0], "split": place[1],
                "quantity": line["quantity"], "value": value, "least": least, "most": most, "unit": line["unit"],
                "n_seeds": len(values), "state": ("passed" if inside else "failed") if len(values) else "not measured",
            }
        )  # fmt: skip
    return found


def _places(line: Mapping[Any, str], items: Sequence[str], rows: pd.DataFrame, profile: str) -> list[Place]:
    """Where the profile's items, or the numbers, have the row that a line asks for."""
    own = _names(line["own"])
    cells = [cell for item in ITEMS if item.id in items for cell in item.cells(profile) if cell.series in own]
    found = [(cell.config.dataset, split_of(cell.column)) for cell in cells]
    known = rows[rows["series"].isin(own)]
    found += list(zip(known["dataset"], known["split"], strict=True))
    return [place for place in dict.fromkeys(found) if line["column"] in ("", place[1])]


def _differences(line: Mapping[Any, str], rows: pd.DataFrame) -> pd.Series:
    """One number per seed: of the row, minus of the other if one is named; the first item and metric that are there."""
    read = _STATISTICS[line["statistic"]]
    per_seed = []
    for names in filter(None, (_names(line["own"]), _names(line["other"]))):
        own = rows[rows["series"].isin(names)]
        wanted = product(_names(line["items"]), _names(line["metric"]))
        found = (own[(own["item"] == item) & (own["metric"] == metric)] for item, metric in wanted)
        chosen = next(filter(len, found), own.head(0)).sort_values("x")
        per_seed.append(chosen.groupby("seed")["value"].agg(lambda values: read(values.to_numpy(dtype=float))))
    values = per_seed[0] - per_seed[1] if len(per_seed) > 1 else per_seed[0]
    return float(line["scale"]) * values.dropna().astype(float)


_STATISTICS: Mapping[str, Callable[[np.ndarray], float]] = {
    "final": lambda values: float(values[-1]),
    "late": lambda values: float(values[-max(len(values) // 3, 1) :].mean()),  # the last third of the rounds
}


def _in_words(line: Mapping[Any, Any]) -> str:
    head = f"Gate {line['gate']} at {gate_place(line)}: {line['quantity']}"
    if line["state"] == "not measured":
        return f"{head} not measured."
    return f"{head} {gate_value(line)} ({limits(line)} needed)."


def gate_place(line: Mapping[Any, Any]) -> str:
    """The data set and split of a line of :func:`gates`, in words."""
    return ", ".join(filter(None, (line["dataset"], line["split"])))


def gate_value(line: Mapping[Any, Any]) -> str:
    """What a line of :func:`gates` measured, with its unit."""
    return f"{line['value']:.3g} {line['unit']}".strip()


def limits(line: Mapping[Any, Any]) -> str:
    """What a line of :func:`gates` asks for, in words.

    >>> limits({"least": 8.0, "most": float("nan")})
    'at least 8'
    """
    bounds = {"at least": line["least"], "at most": line["most"]}
    return " and ".join(f"{word} {value:g}" for word, value in bounds.items() if not np.isnan(value))


def _committed(profile: str) -> pd.DataFrame:
    try:
        return measured(profile)
    except FedCoPLError:  # nothing is
        return pd.DataFrame(columns=TIDY_COLUMNS)


def _on_real_clip() -> pd.DataFrame:
    """The labellers on OpenAI's ViT-B/32, and what the paper prints of them on that data set, as tidy rows."""
    ours = measured_clip_labels()
    theirs = claims("fedcopl", "supplement Table 3", dataset="CIFAR-10").dropna(subset=["beta"])
    ours = ours.assign(series=ours["labeller"], value=ours["label_accuracy"])
    printed = [theirs.assign(seed=seed, series=theirs["labeller"] + ", printed", value=theirs["value_number"] / 100)
               for seed in ours["seed"].unique()]  # fmt: skip
    rows = pd.concat([ours, *printed])[["series", "beta", "seed", "value"]]
    return rows.assign(
        item=_ON_REAL_CLIP, column=[f"β = {beta:g}" for beta in rows["beta"]], metric="label_accuracy", x=0,
        y=None, key="", profile="", dataset="cifar10", swept="beta", level=rows["beta"], row_level=None, role="other",
    )[TIDY_COLUMNS]  # fmt: skip


def split_of(column: str) -> str:
    """A column's name without that of its data set."""
    first, _, rest = column.partition(", ")
    return rest if first in PAPER_SETS or first in SAGE_SETS else column


def _names(text: str) -> list[str]:
    return text.split(" | ") if text else []
