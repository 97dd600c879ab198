"""The commands as functions of their parsed arguments.

Each loads its module when called, so that --help and bad arguments answer at once.
"""

import argparse


def reproduce(options: argparse.Namespace) -> int:
    from fedcopl_lab.cli import _reproduce

    if options.committed:
        return _reproduce.draw_committed(options.profile, options.items, options.out, options.open, options.svg)
    return _reproduce.reproduce(
        profile=options.profile, names=options.items, seeds=options.seeds, device=options.device, jobs=options.jobs,
        out=options.out, open_report=options.open, progress=not options.quiet, dry=options.dry_run,
        svg=options.svg, engine=options.engine, shard=options.shard,
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    from fedcopl_lab.cli._runs import run_one

    return run_one(options)


def runs_list(options: argparse.Namespace) -> int:
    from fedcopl_lab.cli._runs import list_runs

    return list_runs(options.settings)


def runs_show(options: argparse.Namespace) -> int:
    from fedcopl_lab.cli._runs import show_run

    return show_run(options.key)


def runs_gc(options: argparse.Namespace) -> int:
    from fedcopl_lab.cli._runs import remove_incomplete

    return remove_incomplete()


def claims(options: argparse.Namespace) -> int:
    from fedcopl_lab.cli import _claims

    return _claims.claims(options.profile, options.paper, options.markdown, options.stored)


def data(options: argparse.Namespace) -> int:
    from fedcopl_lab.cli._data import VERBS

    return VERBS[options.verb](options)


def export(options: argparse.Namespace) -> int:
    from fedcopl_lab.cli import _export

    return _export.export(options.profile, options.out, options.add)


def train_embedded(options: argparse.Namespace) -> int:
    from fedcopl_lab import models

    length = {"steps": options.steps, "epochs": options.epochs, "minutes": options.minutes}
    print(models.train_embedded(options.name, out_dir=options.out, **length))
    return 0


def plan(options: argparse.Namespace) -> int:
    from fedcopl_lab.extras.bench import plan_command as _plan

    return _plan.plan(options)


def bench_step(options: argparse.Namespace) -> int:
    from fedcopl_lab.extras.bench.commands import bench

    return bench(options)


def bench_sage(options: argparse.Namespace) -> int:
    from fedcopl_lab.extras.bench.sage_commands import bench

    return bench(options)


def bench_widgets(options: argparse.Namespace) -> int:
    from fedcopl_lab.extras.bench.widget_commands import bench

    return bench(options)


def federate(options: argparse.Namespace) -> int:
    from fedcopl_lab.extras.federation.commands import VERBS

    return VERBS[options.verb](options)


def doctor(options: argparse.Namespace) -> int:
    from fedcopl_lab.cli import _doctor

    return _doctor.doctor()
