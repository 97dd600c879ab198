"""``fedcopl-lab bench`` and ``fedcopl-lab plan``: what steps and runs cost on this machine."""

import argparse
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import to_json, write_atomic
from fedcopl_lab.cli.options import add_profile, add_settings, configured, figures_folder, refuse_beside
from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig, profile_name


def add_bench_options(parser: argparse.ArgumentParser) -> None:
    """The verbs of ``bench`` and their options."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    step = verbs.add_parser(
        "step",
        help="one training step: the plain form against ours",
        description="Times forward and backward of both forms in one process, turn by turn, with random weights; "
        "writes ours_bench_step.{csv,pdf,png,json}. The whole table takes most of an hour on a CPU: choose a "
        "part, or interrupt it and go on with --resume.",
    )
    step.add_argument("--backbone", nargs="+", default=["ViT-B-32", "ViT-B-16"], metavar="NAME")
    step.add_argument("--classes", nargs="+", type=int, default=[10, 47, 100, 200], metavar="N")
    _add_step_options(step, batch=64, repeats=5, images="images in a step")
    step.add_argument("--resume", action="store_true", help="keep the cells that are in the table already")
    step.set_defaults(command=bench_prompt_step)
    sage = verbs.add_parser(
        "sage",
        help="one local step of SAGE: the plain form against ours",
        description="Times views, forward, backward and optimiser of both forms in one process, turn by turn, on the "
        "embedded digits at 32x32 pixels; writes ours_bench_sage.{csv,json}.",
    )
    sage.add_argument("--width", nargs="+", type=float, default=[4.0, 1.0], metavar="W", help="of ResNet-8")
    _add_step_options(sage, batch=128, repeats=3, images="labelled images in a step")
    sage.add_argument("--unlabelled", type=int, default=256, help="unlabelled images in a step (default: 256)")
    sage.add_argument(
        "--compile", action="store_true", help="compile our models, on a card into CUDA graphs; needs a C++ compiler"
    )
    together = "instead: steps of N clients, one by one and in one pass, at three sizes (ours_bench_sage_together)"
    sage.add_argument("--clients", type=int, metavar="N", help=together)
    sage.add_argument("--method", nargs="+", default=["SAGE"], metavar="NAME", help="with --clients: of which methods")
    sage.add_argument("--exact", action="store_true", help="also tell both forms' distance to a step in float64")
    sage.set_defaults(command=bench_sage_step, default_of=sage.get_default)
    widgets = verbs.add_parser(
        "widgets",
        help="how long a move of each explorer takes",
        description="Moves one control of every explorer on made-up data, in place and with a new figure each time; "
        "writes ours_bench_widgets.{csv,pdf,png,json}.",
    )
    for name, number, text in (
        ("clients", 10, "number of clients"),
        ("classes", 10, "number of classes"),
        ("images", 1000, "images of each client"),
        ("moves", 12, "timed moves of each"),
    ):
        widgets.add_argument(f"--{name}", type=int, default=number, metavar="N", help=f"{text} (default: {number})")
    _add_where(widgets)
    widgets.set_defaults(command=bench_explorers, device="cpu")
    card = verbs.add_parser(
        "gpu",
        help="the steps of both papers on a card, in minutes",
        description="Times FedCoPL's step at the sizes of DTD and CIFAR-100, alone and with clients stacked, and "
        "SAGE's, in fp32, TF32 and bf16, beside the plain forms; writes ours_bench_gpu.{csv,json}.",
    )
    card.add_argument("--device", default="cuda", help="cuda, or cpu to try the bench itself (default: cuda)")
    card.add_argument("--small", action="store_true", help="the small models, to try the bench itself")
    card.add_argument("--repeats", type=int, default=10, help="timed steps of each form (default: 10)")
    _add_where(card)
    card.set_defaults(command=bench_gpu)


def _add_step_options(parser: argparse.ArgumentParser, batch: int, repeats: int, images: str) -> None:
    parser.add_argument("--dtype", nargs="+", default=["fp32", "bf16"], metavar="TYPE", help="fp32, bf16")
    parser.add_argument("--batch", type=int, default=batch, help=f"{images} (default: {batch})")
    timed = f"timed steps of each form (default: {repeats})"
    parser.add_argument("--repeats", type=int, default=repeats, help=timed)
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    _add_where(parser)


def _add_where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, help="CPU threads (default: torch's own)")
    parser.add_argument("--out", metavar="FOLDER", help="where to write (default: figures/here of the checkout)")


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``plan``."""
    told = "Measures this machine for seconds, then says what all seeds cost: runs, FLOPs, hours, memory; runs nothing."
    parser.description = told
    add_profile(parser)
    parser.add_argument("--items", nargs="+", metavar="ITEM", help="ids, or all (default: those of the papers)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--precision", choices=("fp32", "bf16"), help="of training (default: the run's own)")
    parser.add_argument("--rate", type=float, metavar="GFLOPS", help="another machine's GFLOP/s instead of measuring")
    parser.add_argument(
        "--memory", type=float, metavar="GB", help="a card's memory: say per item what fits, and time nothing"
    )
    parser.add_argument("--method", help="one run of this method instead of the items'")
    add_settings(parser, "--set", "one run with this setting, such as dataset=cifar10:300 or clients_per_forward=2")
    parser.set_defaults(command=plan_runs)


def bench_prompt_step(options: argparse.Namespace) -> int:
    """Time the cells that were asked for; write table, profile and picture."""
    folder = _prepare(options)
    import torch

    from fedcopl_lab.extras.bench import bench_step
    from fedcopl_lab.extras.bench.picture import draw_bench
    from fedcopl_lab.extras.bench.timing import hardware_of

    print("one training step, plain form (fp32) against ours; random weights: times mean something, logits do not")
    machine = {"batch": options.batch, "device": hardware_of(options.device), "threads": torch.get_num_threads()}
    paths = [folder / f"ours_bench_step{end}.csv" for end in ("", "_profile")]
    table, parts = (_earlier(path, machine if options.resume else None) for path in paths)
    for backbone, classes in itertools.product(options.backbone, options.classes):
        there = table if table.empty else table[(table["backbone"] == backbone) & (table["classes"] == classes)]
        missing = [dtype for dtype in options.dtype if there.empty or dtype not in set(there["dtype"])]
        if not missing:
            print(f"{backbone} {classes:>3} classes: there already", flush=True)
            continue
        cells = bench_step([backbone], [classes], missing, options.batch, options.repeats, options.device)
        for timing, plain, ours in cells:
            cell = {"backbone": backbone, "classes": classes, "dtype": timing.dtype, **machine}
            seconds = [
                {**cell, "form": form, "kind": kind, "seconds": spent}
                for form, kinds in (("plain", plain), ("ours", ours))
                for kind, spent in sorted(kinds.items())
            ]
            table = pd.concat([table, pd.DataFrame([asdict(timing)])], ignore_index=True)
            parts = pd.concat([parts, pd.DataFrame(seconds)], ignore_index=True)
            print(timing, flush=True)
        for path, rows in zip(paths, (table, parts), strict=True):  # an interrupted bench goes on from here
            write_atomic(path, _csv(rows))
    about = {"weights": "random", "clock": sorted(set(table["clock"])),
             "repeats": sorted({int(n) for n in table["repeats"]})}  # fmt: skip
    profile = {paths[1].name: _csv(parts)}
    title = "One training step, plain form against ours"
    return _write(folder, "step", title, table, options.device, draw_bench(table), profile, **about)


def bench_sage_step(options: argparse.Namespace) -> int:
    """Time the forms that were asked for; write a table and where it comes from."""
    if options.clients:
        names = ("width", "dtype", "batch", "unlabelled", "exact")
        refuse_beside("--clients", **{name: getattr(options, name) != options.default_of(name) for name in names})
    elif options.method != options.default_of("method"):
        raise FedCoPLError("--method names the methods of --clients; give both")
    folder = _prepare(options)
    from fedcopl_lab.extras.bench import bench_sage, bench_together

    if options.clients:
        title, command = "Steps of several clients, one by one and in one pass", f"sage --clients {options.clients}"
        how = {"device": options.device, "compiled": options.compile}
        table = _measured(bench_together(options.clients, tuple(options.method), options.repeats, **how))
        return _write(folder, "sage_together", title, table, options.device, command=f"fedcopl-lab bench {command}")
    print("one local step of SAGE from uint8 images to new parameters, plain form (fp32, Pillow) against ours")
    sizes = (options.dtype, options.batch, options.unlabelled, options.repeats, options.device, True, options.compile)
    timings = (bench_sage(width, *sizes, options.exact) for width in options.width)
    table = _measured(itertools.chain.from_iterable(timings))
    return _write(folder, "sage", "One local step of SAGE, plain form against ours", table, options.device)


def bench_explorers(options: argparse.Namespace) -> int:
    """Time the explorers; write a table, a picture and where they come from."""
    folder = _prepare(options)
    from fedcopl_lab.extras.bench import bench_widgets, draw_widget_bench

    print("one move of each explorer, from the new value to the finished picture, on made-up data")
    table = _measured(bench_widgets(options.clients, options.classes, options.images, options.moves))
    return _write(folder, "widgets", "One move of each explorer", table, options.device, draw_widget_bench(table))


def bench_gpu(options: argparse.Namespace) -> int:
    """Time the steps of both papers on a card; write a table and where it comes from."""
    folder = _prepare(options)
    from fedcopl_lab.extras.bench import bench_card

    rows = []
    for row in bench_card(options.device, options.small, options.repeats):
        rows.append(row)
        print(", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{v}" for k, v in row.items()), flush=True)
    return _write(folder, "gpu", "Steps of both papers on a card", pd.DataFrame(rows), options.device)


def _measured(timings: Iterable[Any]) -> pd.DataFrame:
    """A row per timing, each printed as it is measured."""
    rows = []
    for timing in timings:
        rows.append(asdict(timing))
        print(timing, flush=True)
    return pd.DataFrame(rows)


def _prepare(options: argparse.Namespace) -> Path:
    """Refuse a device that is not here, set the threads that were asked for; the folder for the files."""
    import torch

    from fedcopl_lab.engine import check_device

    check_device(options.device)
    if options.threads:
        torch.set_num_threads(options.threads)
    return Path(options.out) if options.out else figures_folder(here=True)


def _earlier(path: Path, machine: dict[str, Any] | None) -> pd.DataFrame:
    """Rows of an earlier bench of the same machine and batch; none without ``machine``."""
    if machine is None or not path.is_file():
        return pd.DataFrame()
    return pd.read_csv(path).merge(pd.DataFrame([machine]))  # on the columns of both


def _csv(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, float_format="%.6g", lineterminator="\n")


def _write(
    folder: Path,
    verb: str,
    title: str,
    table: pd.DataFrame,
    device: str,
    figure: Any = None,
    more: dict[str, str] | None = None,
    **about: Any,
) -> int:
    """Write table, picture and where they come from, and say so."""
    import torch

    from fedcopl_lab.engine import environment
    from fedcopl_lab.report.looks import file_bytes

    name = f"ours_bench_{verb}"
    files: dict[str, bytes | str] = {f"{name}.csv": _csv(table), **(more or {})}
    if figure is not None:
        files |= {f"{name}.{kind}": file_bytes(figure, kind) for kind in ("pdf", "png")}
    if "load" in table:
        about["load_average"] = {"least": float(table["load"].min()), "most": float(table["load"].max())}
    about = {"item": name, "title": title, "command": f"fedcopl-lab bench {verb}"} | about
    files[f"{name}.json"] = to_json(about | {"environment": environment(device, torch.get_num_threads())})
    for file, content in files.items():
        write_atomic(folder / file, content)
    print(f"wrote {', '.join(files)} to {folder}")
    return 0


def plan_runs(options: argparse.Namespace) -> int:
    """Measure this machine for a few seconds, or take a rate, and say what the runs will cost."""
    import torch

    from fedcopl_lab.engine import check_device
    from fedcopl_lab.extras.bench.plan import plan_run, shape_of
    from fedcopl_lab.paper import SEEDS

    if options.memory is not None:
        return _plan_memory(options)
    check_device(options.device)
    configs = list(dict.fromkeys(config for _, config in _runs_to_plan(options, SEEDS)))
    for config in configs:
        if isinstance(config, PromptConfig):
            shape_of(config)  # a model that cannot be counted is refused before anything is measured
    lines = []
    for config in configs:
        torch.set_num_threads(config.threads)
        cost = plan_run(config, gflops=options.rate)
        model = f"ResNet-8 x{config.width:g}" if isinstance(config, SageConfig) else config.as_dict()["clip"]
        lines.append(
            {"model": model, "dataset": config.dataset, "method": config.method, "runs": 1, "steps": cost.steps,
             "PFLOP": cost.flop / 1e15, "hours": cost.seconds / 3600, "memory_gb": cost.bytes / 1e9}
        )  # fmt: skip
    table = pd.DataFrame(lines)
    sums = dict.fromkeys(("runs", "steps", "PFLOP", "hours"), "sum") | {"memory_gb": "max"}
    shown = table.groupby(["model", "dataset", "method"], as_index=False, sort=False).agg(sums)
    told = f"at {options.rate:g} GFLOP/s" if options.rate else "rates measured now with random weights"
    print(f"{configs[0].profile} on {options.device}, one run at a time, {told}")
    print(shown.to_string(index=False, float_format=lambda value: f"{value:.3g}"))
    hours = table["hours"].sum()
    print(
        f"{len(table)} runs, {table['PFLOP'].sum():.3g} PFLOP, {hours:.3g} hours ({hours * 3600:.0f} s), "
        f"at most {table['memory_gb'].max():.2g} GB of memory"
    )
    return 0


def _plan_memory(options: argparse.Namespace) -> int:
    """Say which runs of each item fit a card, from the sizes of models and data sets; 0 when all do, else 2."""
    from fedcopl_lab.extras.bench.plan import plan_card

    refuse_beside("--memory", rate=options.rate)
    if not options.memory > 0:
        raise FedCoPLError(f"--memory {options.memory:g} is no memory of a card; give gigabytes, such as 24")
    lines = []
    for name, config in _runs_to_plan(options, [0]):
        plan, model = plan_card(config, options.memory), config.as_dict().get("clip", "ResNet-8")
        lines.append({"item": name, "model": model, "dataset": config.dataset, "says": plan.says, "runs": 1,
                      "gb": plan.gigabytes, "fits": plan.fits})  # fmt: skip
    table = pd.DataFrame(lines)
    groups = table.groupby(["item", "model", "dataset", "says"], as_index=False, sort=False)
    shown = groups.agg({"runs": "sum", "gb": "max"})[["item", "model", "dataset", "runs", "gb", "says"]]
    print(f"{config.profile} on a card of {options.memory:g} GB: at most so many gigabytes of it, computed from shapes")
    print(shown.to_string(index=False, float_format="{:.1f}".format))
    return 0 if table["fits"].all() else 2


def _runs_to_plan(options: argparse.Namespace, seeds: Sequence[int]) -> list[tuple[str, RunConfig]]:
    """The runs to plan with the item that asks for each."""
    from fedcopl_lab.paper import find_items, runs_of

    profile = profile_name(options.profile)
    if options.method or options.settings:
        refuse_beside("--method" if options.method else "--set", items=options.items)
        found = [("one run", configured(options))]
    else:
        runs = runs_of(find_items(options.items), profile, seeds, device=options.device)
        found = [(item.id, config) for item, _, config in runs]
    if not found:
        raise FedCoPLError(f"profile {profile} has no runs of these items")
    if options.precision:
        found = [
            (name, replace(one, precision=options.precision) if isinstance(one, PromptConfig | SageConfig) else one)
            for name, one in found
        ]
    return list(dict.fromkeys(found))
