"""``fedcopl-lab reproduce``: from missing runs to figures and report."""

import os
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import check_writable, checkout_root
from fedcopl_lab.cli._dry_run import dry_run
from fedcopl_lab.cli._inputs import check_inputs, not_stored
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


def reproduce(
    profile: str | None = None,
    names: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    device: str = "cpu",
    jobs: int | None = None,
    out: str | None = None,
    open_report: bool = False,
    progress: bool = True,
    dry: bool = False,
    svg: bool = False,
    engine: str = "processes",
    shard: str | None = None,
) -> int:
    """Compute, draw, write, compare; prints where the report is. Of a shard, compute only."""
    profile = profile_name(profile)
    items = _with_runs(find_items(names), profile)
    chosen = tuple(seeds) if seeds else SEEDS
    folder = Path(out) if out else figures_folder(profile)
    if not dry:
        check_writable(folder)
    configs = [config for _, _, config in runs_of(items, profile, chosen, device=device)]
    store = Store()
    unique = list(dict.fromkeys(configs))
    if shard:
        unique = _part(unique, shard)
    if dry:
        return dry_run(unique, store)
    check_inputs(not_stored(unique, store))
    from fedcopl_lab.engine import sweep
    from fedcopl_lab.extras.cluster import ray_sweep

    workers = jobs or (1 if device != "cpu" else os.cpu_count() or 1)
    _announce(items, unique, store, workers, profile)
    start = time.perf_counter()
    runs = ray_sweep(unique, store, jobs, progress) if engine == "ray" else sweep(unique, store, workers, progress)
    if shard:
        print(f"shard {shard}: {len(runs)} runs are stored; when all shards are, `fedcopl-lab reproduce` draws them")
        return 0
    computed = time.perf_counter() - start
    report = _write(items, profile, chosen, device, store, runs, folder, svg)
    print(f"runs: {computed:.0f} s, figures and report: {time.perf_counter() - start - computed:.0f} s")
    _show(report, open_report)
    return 0


def draw_committed(
    profile: str | None, names: Sequence[str] | None, out: str | None, open_report: bool, svg: bool
) -> int:
    """Draw a profile's committed numbers: no run is computed or read; prints where the report is.

    Args:
        profile: whose numbers.
        names: of the items; None takes all that can be drawn.
        out: folder; None takes that of the profile.
        open_report: in a browser.
        svg: write every picture as SVG too.
    """
    from fedcopl_lab.report import write_committed

    profile = profile_name(profile)
    folder = Path(out) if out else figures_folder(profile)
    check_writable(folder)
    report = write_committed(folder, profile, find_items(names or ["all"]), _pictures(svg))
    _show(report, open_report)
    return 0


def _show(report: Path, in_browser: bool) -> None:
    print(f"report: {report}")
    if in_browser:
        webbrowser.open(report.resolve().as_uri())


def _pictures(svg: bool) -> tuple[str, ...]:
    return ("pdf", "png", "svg") if svg else ("pdf", "png")


def _part(configs: Sequence[RunConfig], shard: str) -> list[RunConfig]:
    from fedcopl_lab.engine import shard_of

    part, _, parts = shard.partition("/")
    if not (part.isdigit() and parts.isdigit()):
        raise FedCoPLError(f"--shard {shard} is no part; write it as 1/8, the first of eight")
    return shard_of(configs, int(part), int(parts))


def figures_folder(profile: str = "smoke") -> Path:
    """``figures/`` of the checkout, else of the current folder; ``figures/PROFILE`` for all but smoke."""
    folder = (checkout_root() or Path.cwd()) / "figures"
    return folder if profile == "smoke" else folder / profile


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
    svg: bool,
) -> Path:
    from fedcopl_lab.report import against_committed, save_item, write_report

    origins = run_table(runs)
    numbers = {item.id: collect(item, profile, seeds, store, device=device) for item in items}
    for item in items:
        used = origins[origins["key"].isin(numbers[item.id]["key"])]
        save_item(item, numbers[item.id], used, folder, profile, _pictures(svg))
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
