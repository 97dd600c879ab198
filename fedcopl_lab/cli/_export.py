"""``fedcopl-lab export``: from stored runs to the numbers and verdicts that are committed."""

import argparse
from pathlib import Path

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.cli._machine import on_this_machine
from fedcopl_lab.cli.options import add_profile
from fedcopl_lab.config import profile_name
from fedcopl_lab.paper import (
    ITEMS,
    add_claims,
    add_numbers,
    collect,
    has_runs,
    keys_by_cell,
    measured_folder,
    read_measured,
    run_table,
    verdicts,
    where_reached,
    write_claims,
    write_measured,
)
from fedcopl_lab.store import Store


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``export``."""
    parser.description = (
        "For maintainers: collects every item from the run store and rewrites paper/measured/PROFILE.csv; "
        "with --add it keeps what the file holds of runs that other machines stored."
    )
    add_profile(parser)
    parser.add_argument("--out", metavar="FOLDER", help="where to write (default: the package's paper/measured)")
    adding = "keep what is there, add the cells of which all seeds are stored, name the rest"
    parser.add_argument("--add", action="store_true", help=adding)
    parser.add_argument("--device", default="cpu", help="where the runs were computed: cpu or cuda (default: cpu)")
    parser.set_defaults(command=export)


def export(options: argparse.Namespace) -> int:
    """Write what stored runs give, every item's numbers and every claim's verdict, as a profile's committed ones.

    ``--add`` keeps the cells and verdicts that the folder holds, adds those that are stored, and says which are
    missing, instead of an error. With a card as device, call it on the machine that has computed the runs.
    """
    profile, store, add = profile_name(options.profile), Store(), options.add
    folder, machine = Path(options.out) if options.out else measured_folder(), on_this_machine(options.device)
    items = [item for item in ITEMS if item.reads != "nothing" and has_runs(item, profile)]
    tables = [collect(item, profile, store=store, partial=add, machine=machine) for item in items]
    if not any(any(table["key"]) for table in tables):
        way_out = f"run `fedcopl-lab reproduce --profile {profile} --seeds all`"
        raise FedCoPLError(f"no cell of profile {profile} is stored at all its seeds; {way_out}")
    numbers = pd.concat([table for table in tables if len(table)])
    claims = verdicts(profile, store, machine=machine)
    elsewhere = pd.DataFrame({"key": []})
    if add and (folder / f"{profile}.csv").is_file():
        asked_for = {(item.id, *cell): keys for item in items
                     for cell, keys in keys_by_cell(item, profile, cards=True).items()}  # fmt: skip
        committed, elsewhere, judged = read_measured(folder, profile)
        numbers = add_numbers(committed, numbers, asked_for)
        claims = where_reached(add_claims(judged, claims, set().union(*asked_for.values())), numbers, profile)
    keys = {key for key in numbers["key"].dropna() if key}
    kept = elsewhere[elsewhere["key"].isin(keys)]
    here = run_table([store.run(key) for key in sorted(keys - set(kept["key"]))])
    runs = pd.concat([table for table in (kept, here) if len(table)]).sort_values("key", ignore_index=True)
    if add:
        print(f"{len(kept)} runs were committed, {len(here)} are new")
        there = set(zip(numbers["item"], numbers["series"], numbers["column"], strict=True))
        for item in items:
            cells = {(item.id, cell.series, cell.column) for cell in item.cells(profile)}
            if left := cells - there:
                print(f"not run: {item.id}, {len(left)} of {len(cells)} cells")
    for path in (*write_measured(folder, profile, numbers, runs), write_claims(folder, profile, claims)):
        print(f"wrote {path}")
    return 0
