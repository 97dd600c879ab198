"""``fedcopl-lab reproduce``: from missing runs to figures and report."""

import argparse
import os
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import check_writable
from fedcopl_lab.cli._needs import check_inputs, list_costs, not_stored
from fedcopl_lab.cli.options import add_profile, figures_folder
from fedcopl_lab.config import RunConfig, profile_name
from fedcopl_lab.paper import (
    SEEDS,
    Item,
    collect,
    find_items,
    has_runs,
    measured,
    measured_claims,
    measured_runs,
    run_table,
    runs_of,
    same_verdicts,
    verdicts,
)
from fedcopl_lab.store import Run, Store


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``reproduce``."""
    parser.description = (
        "Computes the runs that are not stored yet, writes figures/ (PDF, PNG, CSV, LaTeX, provenance) "
        "and figures/report.html, and compares with the committed measurements."
    )
    add_profile(parser)
    add = parser.add_argument
    items = "ids such as fedcopl_main_table1, or paper, beyond, fedcopl, sage, all (default: paper)"
    add("--items", nargs="+", metavar="ITEM", help=items)
    add("--seeds", nargs="+", type=int, metavar="N", help="seeds (default: those of each item)")
    add("--device", default="cpu", help="cpu, cuda or mps (default: cpu)")
    add("--jobs", type=int, help="runs at a time (default: one per core; one on a GPU)")
    engines = "processes of this machine, or Ray's workers on this or many machines (extra cluster)"
    add("--engine", choices=("processes", "ray"), default="processes", help=engines)
    shard = "compute the I-th of N parts of the runs and nothing else, for job arrays"
    add("--shard", metavar="I/N", help=shard)
    out = "where figures and report go (default: figures/ of the checkout, figures/PROFILE for all but smoke)"
    add("--out", metavar="FOLDER", help=out)
    for flag, text in (
        ("--svg", "write every picture as SVG too"),
        ("--open", "open the report in a browser at the end"),
        ("--quiet", "no progress bar"),
        ("--dry-run", "list every run with its time and memory and what is not here; run nothing"),
        ("--committed", "draw the committed numbers of the profile, such as mini; no run, no data set"),
    ):
        add(flag, action="store_true", help=text)
    parser.set_defaults(command=reproduce)


def reproduce(options: argparse.Namespace) -> int:
    """Compute, draw, write, compare; prints where the report is. Of a shard, compute only."""
    profile = profile_name(options.profile)
    folder = Path(options.out) if options.out else figures_folder(profile)
    pictures = ("pdf", "png", "svg") if options.svg else ("pdf", "png")
    if options.committed:
        return _draw_committed(profile, options, folder, pictures)
    items = _with_runs(find_items(options.items), profile)
    seeds = tuple(options.seeds) if options.seeds else SEEDS
    if not options.dry_run:
        check_writable(folder)
    store = Store()
    configs = list(dict.fromkeys(config for _, _, config in runs_of(items, profile, seeds, device=options.device)))
    if options.shard:
        configs = _part(configs, options.shard)
    if options.dry_run:
        return list_costs(configs, store)
    check_inputs(not_stored(configs, store))
    workers = options.jobs or (1 if options.device != "cpu" else os.cpu_count() or 1)
    _announce(items, configs, store, workers, profile)
    start = time.perf_counter()
    if options.engine == "ray":
        from fedcopl_lab.extras.cluster import ray_sweep

        runs = ray_sweep(configs, store, options.jobs, not options.quiet)
    else:
        from fedcopl_lab.engine import sweep

        runs = sweep(configs, store, workers, not options.quiet)
    if options.shard:
        rest = "when all shards are, `fedcopl-lab reproduce` draws them"
        print(f"shard {options.shard}: {len(runs)} runs are stored; {rest}")
        return 0
    computed = time.perf_counter() - start
    report = _write(items, profile, seeds, options.device, store, runs, folder, pictures)
    print(f"runs: {computed:.0f} s, figures and report: {time.perf_counter() - start - computed:.0f} s")
    _show(report, options.open)
    return 0


def _draw_committed(profile: str, options: argparse.Namespace, folder: Path, pictures: tuple[str, ...]) -> int:
    """Draw a profile's committed numbers; no run is computed or read."""
    from fedcopl_lab.report import write_committed

    check_writable(folder)
    report = write_committed(folder, profile, find_items(options.items or ["all"]), pictures)
    _show(report, options.open)
    return 0


def _show(report: Path, in_browser: bool) -> None:
    print(f"report: {report}")
    if in_browser:
        webbrowser.open(report.resolve().as_uri())


def _part(configs: Sequence[RunConfig], shard: str) -> list[RunConfig]:
    from fedcopl_lab.engine import shard_of

    part, _, parts = shard.partition("/")
    if not (part.isdigit() and parts.isdigit()):
        raise FedCoPLError(f"--shard {shard} is no part; write it as 1/8, the first of eight")
    return shard_of(configs, int(part), int(parts))


def _with_runs(items: Sequence[Item], profile: str) -> tuple[Item, ...]:
    """The items that the profile has; says which it does not.

    Raises:
        FedCoPLError: it has none of them.
    """
    known = tuple(item for item in items if has_runs(item, profile))
    left_out = [f"  {item.id}: {item.not_run(profile)[0].reason}" for item in items if item not in known]
    if not known:
        raise FedCoPLError("\n".join([f"profile {profile} has no runs of these items:", *left_out]))
    if left_out:
        print("\n".join([f"not run in profile {profile}:", *left_out]))
    return known


def _write(
    items: Sequence[Item],
    profile: str,
    seeds: Sequence[int],
    device: str,
    store: Store,
    runs: Sequence[Run],
    folder: Path,
    pictures: tuple[str, ...],
) -> Path:
    from fedcopl_lab.report import against_committed, save_item, write_report

    origins = run_table(runs)
    numbers = {item.id: collect(item, profile, seeds, store, device=device) for item in items}
    for item in items:
        used = origins[origins["key"].isin(numbers[item.id]["key"])]
        save_item(item, numbers[item.id], used, folder, profile, pictures)
    found = verdicts(profile, store, seeds, device=device)
    report = write_report(folder, items, numbers, origins, profile, found)
    try:
        print(_agreement(against_committed(pd.concat(numbers.values()), measured(profile))))
        print(_same_verdicts(found, profile))
    except FedCoPLError as nothing_committed:
        print(nothing_committed)
    return report


def _same_verdicts(found: pd.DataFrame, profile: str) -> str:
    both = same_verdicts(found, measured_claims(profile))
    off = both[~both["same"]].to_dict("records")
    changed = "".join(f"; {row['number']}: {row['committed']} -> {row['fresh']}" for row in off)
    return f"against the committed verdicts: {len(both) - len(off)} of {len(both)} claims the same{changed}"


def _agreement(table: pd.DataFrame) -> str:
    if table.empty:
        return "no committed number to compare with"
    exact = int((table["verdict"] == "exact").sum())
    off = table[table["verdict"] == "differs"]
    text = f"against the committed numbers: {exact} of {len(table)} cells exact, {len(off)} outside tolerance"
    return text + ("; another processor rounds differently, see the report" if len(off) else "")


def _announce(items: Sequence[Item], configs: Sequence[RunConfig], store: Store, jobs: int, profile: str) -> None:
    missing = not_stored(configs, store)
    print(
        f"{len(items)} tables and figures in profile {profile}: {len(configs)} runs, {len(missing)} of them to compute"
    )
    if missing:
        print(
            f"about {_minutes(missing, jobs)} on {jobs} process(es); stop at any time, the next call goes on from there"
        )


def _minutes(missing: Sequence[RunConfig], jobs: int) -> str:
    """From the committed timings: per method where that run was timed, else the mean of all."""
    try:
        timed = measured_runs(missing[0].profile).groupby("method")["seconds"].mean()
    except FedCoPLError:
        return "an unknown time (no run of this profile has been timed)"
    seconds = sum(float(timed.get(config.method, timed.mean())) for config in missing) / jobs
    start_up = 8.0  # every worker loads torch once
    return f"{max(1, round((seconds + start_up) / 60))} min"
