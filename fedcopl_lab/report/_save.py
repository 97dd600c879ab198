"""An item's files: picture, numbers, LaTeX and where they come from."""

from pathlib import Path

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import to_json, write_atomic
from fedcopl_lab.paper.items import Item
from fedcopl_lab.report._plots import draw
from fedcopl_lab.report._style import file_bytes
from fedcopl_lab.report._tables import seeds_text, to_csv, to_latex
from fedcopl_lab.report._words import item_of, lines_of, metric_name, setting_of

_RUN_COLUMNS = ("key", "profile", "dataset", "clip", "seed", "seconds", "hardware", "packages")


def save_item(
    item: Item | str, numbers: pd.DataFrame, runs: pd.DataFrame, folder: Path | str, profile: str = "smoke"
) -> list[Path]:
    """Write ``<id>.pdf``, ``.png``, ``.csv``, ``.tex`` (tables) and ``.json`` (where it comes from).

    The same numbers and runs give the same bytes; every file is there whole or not at all.

    Args:
        item: the item or its id.
        numbers: tidy numbers; lines of other items are left out. Empty for the overview diagram.
        runs: the runs behind them, as :func:`fedcopl_lab.paper.run_table` gives them.
        folder: where to write; made when missing.
        profile: whose numbers they are.

    Returns:
        The files written.

    Raises:
        FedCoPLError: numbers without their runs, or a folder that cannot be written.

    >>> save_item("fedcopl_main_table1", measured("smoke"), measured_runs("smoke"), "figures")

    Shown in every notebook.
    """
    item, folder = item_of(item), Path(folder)
    lines = (
        numbers[numbers["item"] == item.id] if item.reads == "nothing" else lines_of(item, numbers, item.metrics[:1])
    )
    figure = draw(item, lines, profile)
    contents: dict[str, bytes | str] = {
        "pdf": file_bytes(figure, "pdf"),
        "png": file_bytes(figure, "png"),
        "json": to_json(provenance(item, lines, runs, profile)),
    }
    if len(lines):
        contents["csv"] = to_csv(lines)
    if item.reads in ("final", "first"):
        metric = item.metrics[0]
        setting, seeds = setting_of(item, profile).short, seeds_text(lines, metric)
        told = f"{metric_name(metric, item.id)}; {setting}; mean ± std over {seeds}; %"
        contents["tex"] = to_latex(lines, metric, caption=f"{item.title} ({told}).", label=f"tab:{item.id}")
    paths = []
    for suffix, content in contents.items():
        path = folder / f"{item.id}.{suffix}"
        write_atomic(path, content)
        paths.append(path)
    return paths


def provenance(item: Item | str, numbers: pd.DataFrame, runs: pd.DataFrame, profile: str) -> dict[str, object]:
    """Everything a reader needs to know about an item's numbers, as plain values.

    Raises:
        FedCoPLError: a number's run is not among ``runs``.
    """
    item = item_of(item)
    missing = [column for column in _RUN_COLUMNS if column not in runs.columns]
    if missing:
        raise FedCoPLError(
            f"the runs lack the columns {', '.join(missing)}; pass what run_table() or measured_runs() gives"
        )
    keys = sorted(set(numbers["key"]) - {""})  # counts from the manifests come from no run
    behind = runs[runs["key"].isin(keys)]
    unknown = sorted(set(keys) - set(behind["key"]))
    if unknown:
        raise FedCoPLError(
            f"{len(unknown)} runs behind {item.id} are not in the run table, such as {unknown[0]}; collect both again"
        )
    return {
        "item": item.id,
        "source": item.source,
        "title": item.title,
        "question": item.question,
        "metrics": {name: metric_name(name, item.id) for name in sorted(set(numbers["metric"]))},
        "differs_from_the_paper": list(item.differs),
        "notebook": f"notebooks/{item.notebook}.ipynb",
        "command": command_of(item, profile),
        "profile": profile,
        "dataset": sorted(set(behind["dataset"])),
        "weights": sorted(set(behind["clip"])),
        "seeds": sorted({int(seed) for seed in numbers["seed"]}) if keys else [],
        "n_runs": len(keys),
        "run_keys": keys,
        "total_run_seconds": round(float(behind["seconds"].sum()), 1),
        "hardware": sorted(set(behind["hardware"])),
        "packages": sorted(set(behind["packages"])),
    }


def command_of(item: Item, profile: str) -> str:
    """The command that makes the item again."""
    chosen = "" if profile == "smoke" else f" --profile {profile}"
    return f"fedcopl-lab reproduce --items {item.id}{chosen}"
