"""Names, units and number formats that all pictures, tables and pages share."""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from fedcopl_lab._errors import FedCoPLError, check_columns
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.paper import ITEMS, PAPER_SETS, SAGE_SETS, VALUE_COLUMNS, Cell, Item, find_items, with_settings

_METRICS = {
    "accuracy": "accuracy, mean over clients",
    "accuracy_sample_mean": "accuracy, mean over images",
    "accuracy_global": "accuracy on the whole test set",
    "accuracy_last5": "accuracy, mean of the last 5 rounds",
    "round_noise": "change of the 5-round mean from round to round",
    "label_accuracy": "pseudo-label accuracy",
    "n_selected": "pseudo-labelled images",
    "drift_text": "drift diversity of the text prompts",
    "drift_visual": "drift diversity of the visual prompts",
    "cosine_text": "cosine distance of the text prompts",
    "cosine_visual": "cosine distance of the visual prompts",
    "train": "training images per client and class",
    "n_classes": "classes",
    "n_train": "training images",
    "n_test": "test images",
    "upload_distance": "distance of the upload from the true class shares",
    "upload_distance_global": "distance of the global shares, guessed without upload",
    "labelled": "labelled images per client and class",
    "unlabelled": "unlabelled images per client and class",
    "local": "confidence of the local model",
    "global": "confidence of the global model",
    "n_local": "views labelled by the local model",
    "n_global": "views labelled by the global model",
    "n_views": "views scored",
    "n_minority": "views scored of minority classes",
    "share_local": "labelled by the local model",
    "share_global": "labelled by the global model",
    "share_cpg": "labelled by either model (CPG)",
    "label_accuracy_cpg": "right labels among those of CPG",
    "share_added": "labelled by the global model only",
    "share_agreeing": "views on which both models agree",
    "lambda": "λ, mean",
    "lambda_sure": "λ where the local model is confident",
    "lambda_majority": "λ for the client's majority classes",
    "lambda_minority": "λ for the client's minority classes",
    "entropy_local": "entropy of the local predictions (nats)",
    "entropy_global": "entropy of the global predictions (nats)",
    "histogram_entropy_local": "entropy of the local confidences' histogram (nats)",
    "histogram_entropy_global": "entropy of the global confidences' histogram (nats)",
    "rounds_needed": "rounds to the accuracy",
    "rounds_needed_smoothed": "rounds to the accuracy, 5-round mean",
    "censored": "share of runs that never got there",
    "censored_smoothed": "share of runs whose 5-round mean never got there",
    "gain": "lead of SAGE over the best other method, points",
    "speed_up": "speed-up over FixMatch-LPL, mean of the seeds' ratios",
}
_COUNTS = {"n_selected", "train", "n_classes", "n_train", "n_test", "labelled", "unlabelled", "n_local", "n_global",
           "n_views", "n_minority", "rounds_needed", "rounds_needed_smoothed"}  # fmt: skip
_CLIPS = {"tiny-p1": "tiny CLIP with patches of one pixel", "tiny-rn": "tiny CLIP with a ResNet tower"}
TABLES = ("final", "first")  # what an item reads of its runs when it has one value a cell
PAPERS = {"fedcopl": "FedCoPL", "sage": "SAGE"}
_DATASETS = {"digits": "handwritten digits"} | {ours: theirs for theirs, ours in (PAPER_SETS | SAGE_SETS).items()}


@dataclass(frozen=True)
class Setting:
    """Where an item's numbers come from, as a reader must see it."""

    profile: str
    dataset: str  # spelled for reading; several with commas between, or how many there are
    clip: str  # name of the model, or several with commas between
    clients: int  # K of the first cell; 0 for an item without runs

    @property
    def short(self) -> str:
        """Such as ``smoke: handwritten digits, tiny CLIP``."""
        if not self.dataset:
            return self.profile
        named = "ResNet" in self.clip or "CLIP" in self.clip
        return f"{self.profile}: {self.dataset}, {self.clip}{'' if named else ' CLIP'}"


def item_of(item: Item | str) -> Item:
    """The item itself, or the one of that id or source."""
    return item if isinstance(item, Item) else find_items([item])[0]


def is_table(item: Item) -> bool:
    """Whether an item is a table of one value a cell, which a paper typesets."""
    return item.reads in TABLES and (item.drawing == "dots" or "Table" in item.source)


def setting_of(item: Item | str, profile: str, lines: pd.DataFrame | None = None) -> Setting:
    """Profile, data sets and models of all runs of an item, or of those that its lines are from."""
    cells = item_of(item).cells(profile)
    if lines is not None:
        cells = cells_of(item_of(item), profile, lines) or cells
    if not cells:
        return Setting(profile, "", "", 0)
    configs = [cell.config for cell in cells]
    sets = order(set_name(config.dataset) for config in configs)
    models = order(_CLIPS.get(config.clip, config.clip) if isinstance(config, PromptConfig) else "ResNet-8"
                   for config in configs)  # fmt: skip
    data = ", ".join(sets) if len(sets) <= 3 else f"{len(sets)} data sets"
    return Setting(profile, data, ", ".join(models), configs[0].n_clients)


def cells_of(item: Item, profile: str, lines: pd.DataFrame) -> list[Cell]:
    """The cells of an item that some of the lines are from."""
    found = set(zip(lines["series"], lines["column"], strict=True))
    return [cell for cell in item.cells(profile) if (cell.series, cell.column) in found]


def comparable(item: Item, numbers: pd.DataFrame, profile: str) -> pd.DataFrame:
    """The committed lines of an item that say something without the missing ones; empty where there are none.

    Columns of which less than half of the rows, or one of two, were run are left out, of a table also those of which
    just half were, and the whole item where its columns are what is compared (a sweep, or more and fewer labels) and
    fewer than three are there.
    """
    lines = numbers[numbers["item"] == item.id]
    there, cells = cells_of(item, profile, lines), item.cells(profile)
    if len(there) == len(cells):
        return lines
    run, wanted = (pd.Series([cell.column for cell in some], dtype=str).value_counts() for some in (there, cells))
    if item.axis or item.drawing == "lines":
        return lines if len(run) >= 3 and item.drawing != "surface" else lines[:0]
    wanted = wanted[run.index]
    share = run / wanted - 0.01 * (item.drawing == "dots")
    return lines[lines["column"].isin(run.index[(share >= 0.5) & ((run > 1) | (wanted == 1))])]


def set_name(name: str) -> str:
    """A data set or a part of one, spelled for reading."""
    whole, colon, _ = name.partition(":")
    return f"{_DATASETS[whole]} (part)" if colon and whole in _DATASETS else _DATASETS.get(name, name)


def row_name(series: str) -> str:
    """A row as it is shown: no word in capitals but the names of methods and labels."""
    return series.replace("TRUE LABELS", "true labels")


def paper_of(item: Item) -> str:
    """Which paper an item belongs to, for headings."""
    return PAPERS.get(item.id.split("_")[0], "Ours")


def lines_of(item: Item | str, numbers: pd.DataFrame, profile: str, metrics: Iterable[str] = ()) -> pd.DataFrame:
    """The lines of one item, checked, in its order, and with what each of them is from."""
    name = item_of(item).id
    wanted = (column for column in VALUE_COLUMNS if column != "key")
    check_columns("numbers", wanted, numbers, "pass what collect() or measured() gives")
    lines = numbers[numbers["item"] == name]
    other = {str(one) for one in lines.get("profile", ())} - {profile}
    if other and item_of(name).reads != "manifests":  # the same in every profile
        raise FedCoPLError(f"the numbers of {name} are of the profile {', '.join(other)}, not {profile}; name it")
    for metric in metrics:
        if metric not in set(lines["metric"]):
            raise FedCoPLError(f"the numbers have no {metric!r} of {name}; run `fedcopl-lab reproduce --items {name}`")
    values = pd.to_numeric(lines["value"], errors="coerce")
    if values.isna().any():
        raise FedCoPLError(f"the numbers of {name} hold a value that is no number; collect them again")
    lines = lines.assign(value=values.astype(float))
    if "role" not in lines.columns:  # read from a CSV, which does not repeat what the item's cells say
        lines = with_settings(lines, profile)
    return in_item_order(lines)


def in_item_order(lines: pd.DataFrame) -> pd.DataFrame:
    """The lines with rows and columns as the item has them; committed files are sorted by name instead."""
    lines = lines.reset_index(drop=True)
    if lines.empty or "profile" not in lines.columns:
        return lines
    there = lines[["item", "profile"]].drop_duplicates().itertuples(index=False, name=None)
    found = [(item, profile) for name, profile in there for item in ITEMS if item.id == name]
    cells = [cell for item, profile in found for cell in item.cells(profile)]
    counted = PAPER_SETS if any(item.reads == "manifests" for item, _ in found) else ()
    series = order([*(cell.series for cell in cells), *counted, *lines["series"]])
    columns = order([*(cell.column for cell in cells), *lines["column"]])
    places = lines["series"].map(series.index) * len(columns) + lines["column"].map(columns.index)
    return lines.loc[places.sort_values(kind="stable").index]


def last_round(lines: pd.DataFrame) -> pd.DataFrame:
    """Of every run and metric, the value of its last round."""
    newest = lines.groupby(["series", "column", "metric", "seed"], sort=False)["x"].transform("max")
    return lines[lines["x"] == newest]


def order(values: Iterable[str]) -> list[str]:
    """Distinct values in order of first appearance."""
    return list(dict.fromkeys(values))


def metric_name(metric: str, item: Item | None = None) -> str:
    """A metric in words, such as ``pseudo-label accuracy``; SAGE's accuracy is that of one model for all clients."""
    if metric == "accuracy" and item is not None and paper_of(item) == "SAGE":
        return _METRICS["accuracy_global"]
    return _METRICS.get(metric, metric.replace("_", " "))


def axis_name(metric: str, item: Item | None = None) -> str:
    """A metric as the name of an axis, in two lines where it is long; without an item, as the papers print it."""
    if metric == "accuracy":
        return ("" if item is None else "test " if paper_of(item) == "SAGE" else "client-mean ") + "accuracy (%)"
    return metric_name(metric).replace(", ", ",\n") + unit(metric)


def unit(metric: str) -> str:
    """What stands behind a metric's name in a heading."""
    return " (%)" if is_share(metric) else ""


LESS_IS_BETTER = ("rounds_needed", "rounds_needed_smoothed")
"""Metrics of which the smallest is the best."""


def is_share(metric: str) -> bool:
    """Whether a metric is stored as a share and shown in percent."""
    return "accuracy" in metric or metric.startswith("share_") or metric == "round_noise"


def scale(metric: str) -> float:
    """What a stored value is multiplied with before it is shown."""
    return 100.0 if is_share(metric) else 1.0


def mean_std(mean: float, std: float, metric: str = "accuracy") -> str:
    """``78.6 ± 1.4``: percent with one decimal for accuracies, three digits otherwise; no ± for one seed."""
    digits = 1 if is_share(metric) else 0 if metric in _COUNTS else 3
    text = f"{mean * scale(metric):,.{digits}f}"
    return text if pd.isna(std) else f"{text} ± {std * scale(metric):.{digits}f}"
