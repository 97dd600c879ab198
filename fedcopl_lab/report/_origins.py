"""Where the report's numbers come from: for each cell its settings, runs, seeds, processor and packages."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedcopl_lab.config import RunConfig, configure
from fedcopl_lab.paper import Item
from fedcopl_lab.report._save import file_name

_KINDS = ("pdf", "png", "svg", "tex", "csv", "txt", "json")


def verify_command(profile: str) -> str:
    """The command that computes a cell again, without the cell."""
    return "fedcopl-lab verify" + ("" if profile == "smoke" else f" --profile {profile}")


def origins(items: Sequence[Item], numbers: pd.DataFrame, runs: pd.DataFrame, profile: str) -> dict[str, Any]:
    """Where every measured cell comes from, for a click: its settings, runs, seeds, processor and packages."""
    there = numbers.dropna(subset="key").drop_duplicates(["item", "series", "column", "key"])
    keys_of = there.groupby(["item", "series", "column"], sort=False)["key"].agg(list)
    machines, known = list[list[str]](), dict[str, list[int]]()
    for run in runs[runs["key"].isin(there["key"])].to_dict("records"):
        machine = [f"{run['hardware']}, {run.get('threads', 1)} thread(s)", run["packages"]]
        if machine not in machines:
            machines.append(machine)
        known[run["key"]] = [int(run["seed"]), machines.index(machine)]
    cells: dict[str, dict[str, Any]] = {}
    for item in items:
        for cell in item.cells(profile):
            keys = [key for key in keys_of.get((item.id, cell.series, cell.column), ()) if key in known]
            if keys:
                said = {"config": settings_text(cell.config), "runs": sorted(keys, key=lambda key: known[key][0])}
                cells.setdefault(item.id, {})[f"{cell.series} / {cell.column}"] = said
    return {"cells": cells, "runs": known, "machines": machines, "command": f'{verify_command(profile)} "CELL"'}


def settings_text(config: RunConfig) -> str:
    """A configuration as ``fedcopl-lab run`` takes it: what differs from its method's own in the profile."""
    own = configure(config.profile, method=config.method).as_dict()
    changed = {name: value for name, value in config.as_dict().items() if value != own.get(name) and name != "seed"}
    settings = "".join(f" --set {name}={json.dumps(value, ensure_ascii=False)}" for name, value in changed.items())
    return f"fedcopl-lab run --profile {config.profile} --method {config.method}{settings}"


def offered(item: Item, folder: Path) -> dict[str, Any]:
    """The item's files that lie beside the page."""
    names = [(file_name(item.id, kind), kind) for kind in _KINDS]
    return {"files": [(name, kind) for name, kind in names if (folder / name).is_file()]}
