"""``fedcopl-lab reproduce``: from missing runs to figures and report."""

import argparse
import math
import time
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain, takewhile
from pathlib import Path

from joblib import cpu_count
from tqdm.auto import tqdm

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import check_writable
from fedcopl_lab._identity import key_of
from fedcopl_lab.cli._drawing import Drawing
from fedcopl_lab.cli._machine import check_inputs, chosen_device, fetch_missing, list_costs, not_stored, on_this_machine
from fedcopl_lab.cli.options import add_profile, figures_folder, positive, refuse_beside
from fedcopl_lab.config import RunConfig, profile_name
from fedcopl_lab.paper import SEEDS, Item, committed_seconds, find_items, has_runs, runs_of, runs_to_settle
from fedcopl_lab.store import Store

_UNITS = {"s": 1, "m": 60, "h": 3600}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``reproduce``."""
    parser.description = (
        "Computes the first seed of every item where it is not stored yet, compares it with the committed numbers and "
        "draws both: pictures, tables, provenance and a report that grows while the runs come."
    )
    add_profile(parser)
    add = parser.add_argument
    items = "such as fedcopl_main_table1, or paper, beyond, fedcopl, sage, all (default: paper, with --committed all)"
    add("--items", nargs="+", metavar="ITEM", help=items)
    seeds = "all: every seed of each item; or numbers, for the items that leave them open (default: the first one)"
    add("--seeds", nargs="+", type=_seed, metavar="N", help=seeds)
    budget = "go on, for 30m or 2h in all, with the runs that settle most claims; says what stays unknown"
    add("--budget", type=_seconds, metavar="TIME", help=budget)
    add("--device", help="cpu, cuda or mps (default: cpu; for the profile paper cuda where there is a card)")
    add("--jobs", type=positive, help="runs at a time (default: one per core; one on a GPU)")
    engines = "processes of this machine, or Ray's workers on this or many machines (extra cluster)"
    add("--engine", choices=("processes", "ray"), default="processes", help=engines)
    shard = "compute the I-th of N parts of the runs and nothing else, for job arrays"
    add("--shard", metavar="I/N", help=shard)
    out = "where figures and report go (default: figures/here/, which git ignores; with --committed figures/)"
    add("--out", metavar="FOLDER", help=out)
    for flag, text in (
        ("--svg", "write every picture as SVG too"),
        ("--open", "open the report in a browser at the end"),
        ("--quiet", "no progress bar"),
        ("--yes", "fetch missing data and weights of the profile paper without asking, also more than 5 GB"),
        ("--dry-run", "list every run with its time and memory and what is not here; run nothing"),
        ("--committed", "draw the committed numbers of the profile, such as mini; no run, no data set"),
    ):
        add(flag, action="store_true", help=text)
    parser.set_defaults(command=reproduce)


def _seed(text: str) -> int | str:
    if text != "all" and not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no seed; write all, or numbers such as 0 1 2")
    return text if text == "all" else int(text)


def _seconds(text: str) -> float:
    """``30m`` -> 1800."""
    if not text[:-1].isdigit() or text[-1] not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write it as 90s, 30m or 2h")
    return float(text[:-1]) * _UNITS[text[-1]]


def reproduce(options: argparse.Namespace) -> int:
    """Compute, draw, write, compare; prints where the report is. Of a shard, compute only."""
    start = time.monotonic()
    profile, ray = profile_name(options.profile), options.engine == "ray"
    if options.committed:
        computing = {name: getattr(options, name) for name in ("dry_run", "seeds", "shard", "jobs", "device", "budget")}
        refuse_beside("--committed", engine=ray, **computing)
    if options.budget is not None:
        refuse_beside("--budget", engine=ray, shard=options.shard)
    options.device = chosen_device(options.device, profile)
    folder = Path(options.out) if options.out else figures_folder(profile, here=not options.committed)
    pictures = ("pdf", "png", "svg") if options.svg else ("pdf", "png")
    if options.committed:
        return _draw_committed(profile, options, folder, pictures)
    items = _with_runs(find_items(options.items), profile)
    seeds = tuple(SEEDS if "all" in (options.seeds or ["all"]) else options.seeds)
    first = None if options.seeds else 1
    if not options.dry_run:
        check_writable(folder)
    store = Store()
    machine = on_this_machine(options.device)
    configs = list(dict.fromkeys(config for _, _, config in runs_of(items, profile, seeds, first, machine=machine)))
    if options.shard:
        configs = _part(configs, options.shard)
    if options.dry_run:
        return list_costs(configs, store)
    missing = not_stored(configs, store)
    fetch_missing(missing if profile == "paper" else [], options.yes)
    check_inputs(missing)
    workers = options.jobs or (1 if options.device != "cpu" else cpu_count())
    _announce(items, configs, missing, workers, profile)
    if ray:
        from fedcopl_lab.extras.cluster import ray_sweep

        ray_sweep(configs, store, options.jobs, not options.quiet)
        missing = []
    if options.shard:
        from fedcopl_lab.engine import sweep

        sweep(configs, store, workers, not options.quiet)  # after Ray nothing is left to compute
        print(f"shard {options.shard}: {len(configs)} runs are stored; when all shards are, the same command "
              "without --shard draws them")  # fmt: skip
        return 0
    drawing = Drawing(items, profile, seeds, machine, store, folder, pictures)
    order = _in_item_order(drawing, missing)
    if options.budget is not None:
        end = start + options.budget
        order = takewhile(lambda _: time.monotonic() < end, chain(order, _for_claims(drawing, missing)))
    else:
        workers = min(workers, len(missing) or 1)
    _compute_and_draw(drawing, missing, order, workers, options.quiet)
    print("\n".join(drawing.finish()))
    print(f"took {time.monotonic() - start:.0f} s")
    _show(drawing.report, options.open)
    return 0


def _compute_and_draw(
    drawing: Drawing, missing: Sequence[RunConfig], order: Iterator[RunConfig], workers: int, quiet: bool
) -> None:
    """Workers compute without a stop; meanwhile each item is drawn as soon as its runs are there."""
    from fedcopl_lab.engine import computed

    with (
        tqdm(total=len(missing), unit="run", disable=quiet or not missing) as bar,
        closing(computed(order, drawing.store, workers)) as runs,
    ):
        early = [next(runs, None)] if workers > 1 else []  # the workers begin; the first pictures come meanwhile
        bar.set_description(drawing.begin(missing))
        print(f"report: {drawing.report}, written again as tables and figures come")
        for config in chain(early, runs):
            if config is not None:
                bar.total = max(bar.total, bar.n + 1)
                bar.update()
                bar.set_description(drawing.add(config))


def _in_item_order(drawing: Drawing, missing: Sequence[RunConfig]) -> Iterator[RunConfig]:
    """Each missing run once; of an item the longest first, so that no worker ends alone with a long one.

    On a card runs of one data set and model follow each other.
    """
    from fedcopl_lab.engine import same_tokens

    left = set(missing)
    for item in drawing.items:
        wanted = left & set(drawing.wanted(item))
        left -= wanted
        length = {config: -config.rounds * config.local_epochs for config in wanted}
        yield from sorted(wanted, key=lambda config: (*same_tokens(config), length[config], key_of(config)))


def _for_claims(drawing: Drawing, asked_for: Sequence[RunConfig]) -> Iterator[RunConfig]:
    """Runs that settle claims, without those that are under way."""
    profile = drawing.profile
    for config in runs_to_settle(profile, drawing.store, committed_seconds(profile)):
        if (wanted := drawing.machine(config)) not in asked_for:
            yield wanted


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
    """The items that the profile has; says which it does not."""
    known = tuple(item for item in items if has_runs(item, profile))
    left_out = [f"  {item.id}: {item.not_run(profile)[0].reason}" for item in items if item not in known]
    if not known:
        raise FedCoPLError("\n".join([f"profile {profile} has no runs of these items:", *left_out]))
    if left_out:
        print("\n".join([f"not run in profile {profile}:", *left_out]))
    return known


def _announce(
    items: Sequence[Item], configs: Sequence[RunConfig], missing: Sequence[RunConfig], jobs: int, profile: str
) -> None:
    runs = f"{len(configs)} runs, {len(missing)} of them to compute"
    print(f"profile {profile}, tables and figures: {len(items)}; {runs}")
    if missing:
        jobs = min(jobs, len(missing))
        seconds = sum(map(committed_seconds(profile), missing)) / jobs + 8  # every worker loads torch once
        unknown = "an unknown time (no run of this profile has been timed)"
        took = unknown if math.isnan(seconds) else f"{max(1, round(seconds / 60))} min"
        print(f"about {took} on {jobs} process(es); stop at any time, the next call goes on from there")
