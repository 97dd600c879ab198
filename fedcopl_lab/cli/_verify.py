"""``fedcopl-lab verify``: one committed number, computed again and compared."""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from fedcopl_lab._errors import FedCoPLError, did_you_mean
from fedcopl_lab.cli._machine import check_inputs
from fedcopl_lab.cli.options import add_profile, positive
from fedcopl_lab.config import profile_name
from fedcopl_lab.paper import Cell, Item, collect, find_items, measured, measured_runs
from fedcopl_lab.store import Store


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``verify``."""
    parser.description = ("Computes the runs behind one committed cell again, in a store of their own, "
                          "and says how far they agree.")  # fmt: skip
    add_profile(parser)
    add = parser.add_argument
    add("cell", metavar="CELL", help="'ITEM / ROW / COLUMN', as a click on a number of the report shows it")
    add("--seeds", nargs="+", type=int, metavar="N", help="seeds (default: all that are committed)")
    add("--jobs", type=positive, help="runs at a time (default: one per core)")
    add(
        "--tolerance",
        type=_not_negative,
        default=0.01,
        help="in the number's own unit (default: 0.01, a point of accuracy)",
    )
    parser.set_defaults(command=verify)


def _not_negative(text: str) -> float:
    if not float(text) >= 0:
        raise argparse.ArgumentTypeError(f"{text} is not valid; expected 0 or more")
    return float(text)


def verify(options: argparse.Namespace) -> int:
    """Compute again and compare; 1 when a value is outside the tolerance."""
    from fedcopl_lab.engine import sweep
    from fedcopl_lab.report import against_committed

    profile = profile_name(options.profile)
    item, cell = find_cell(options.cell, profile)
    here = measured(profile, item.id).query("series == @cell.series and column == @cell.column")
    here = here if options.seeds is None else here[here["seed"].isin(options.seeds)]
    if here.empty:
        raise FedCoPLError(f"nothing is committed of this cell in profile {profile}; see fedcopl_lab.report.coverage")
    alone = replace(item, cells=lambda profile: (replace(cell, seeds=None),), seeds=None)
    seeds = sorted(set(here["seed"].astype(int)))
    configs = [config for _, config in alone.runs(profile, seeds)]
    check_inputs(configs)
    runs = measured_runs(profile)
    seconds = runs.loc[runs["key"].isin(here["key"]), "seconds"].sum()
    print(f"{item.id} / {cell.series} / {cell.column}: {len(configs)} runs, seeds {', '.join(map(str, seeds))}; "
          f"they took {seconds:.0f} s when they were committed")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        sweep(configs, store, options.jobs, progress=False)
        found = against_committed(collect(alone, profile, seeds, store), here, options.tolerance)
    found = found[found["verdict"] != "only committed"]  # what takes other rows, such as a lead
    shown = found[["metric", "committed", "fresh", "max_difference", "verdict"]]
    print(shown.to_string(index=False, float_format=lambda value: f"{value:.6g}"))
    off = int(found["verdict"].isin(("within seeds", "differs")).sum())
    print(_verdict(found["max_difference"].max(), len(found), off, options.tolerance))
    return 1 if off else 0


def find_cell(name: str, profile: str) -> tuple[Item, Cell]:
    """The item and cell of ``ITEM / ROW / COLUMN``; a column's name may have commas and signs, but no `` / ``."""
    parts = [part.strip() for part in name.split(" / ")]
    item, *others = find_items(parts[:1])
    if others:
        raise FedCoPLError(f"{parts[0]!r} names several tables and figures; write one cell as 'ITEM / ROW / COLUMN'")
    cells = {(cell.series, cell.column): cell for cell in item.cells(profile)}
    if not cells:
        raise FedCoPLError(f"{item.id} has no runs in profile {profile}; choose another item")
    if tuple(parts[1:]) not in cells:
        known = [" / ".join([item.id, *cell]) for cell in cells]
        raise FedCoPLError(f"there is no cell {name!r}{did_you_mean(name, known)}; such as: {'; '.join(known[:5])}")
    return item, cells[parts[1], parts[2]]


def _verdict(largest: float, count: int, off: int, tolerance: float) -> str:
    if off:
        return f"{off} of {count} numbers are outside the tolerance of {tolerance:g}; largest difference {largest:.2g}"
    how = f"within {tolerance:g}; largest difference of one value {largest:.2g}" if largest else "exactly"
    return f"all {count} numbers agree {how}"
