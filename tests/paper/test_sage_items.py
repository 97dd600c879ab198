"""SAGE's tables and figures: which runs they need, and what is collected from stored ones."""

import json

import pytest
from sage_rows import sage_row

from fedcopl_lab._files import to_json
from fedcopl_lab._identity import key_of
from fedcopl_lab.config import KAPPA_STAR, SAGE_METHODS
from fedcopl_lab.paper import claims, collect, find_items, printed
from fedcopl_lab.paper.items._sage_columns import REPEATED
from fedcopl_lab.paper.items._sage_runs import CONVERGING

SAGE = find_items(["sage"])
N_RUNS_SMOKE = 168  # what the time budget of the smoke profile was planned for


def item(name):
    return find_items([name])[0]


def write(store, config, rows, split=None):
    run = store.run(key_of(config))
    (run.path / "rounds").mkdir(parents=True)
    (run.path / "config.json").write_text(to_json(config.as_dict()))
    for row in rows:
        (run.path / "rounds" / f"{row['round']:04d}.json").write_text(json.dumps(row))
    last = {name: value for name, value in rows[-1].items() if not isinstance(value, dict | list)}
    (run.path / "result.json").write_text(json.dumps(last))
    if split:
        (run.path / "split.json").write_text(json.dumps(split))


def collected(store, name, seed=0):
    numbers = collect(item(name), "smoke", (seed,), store)
    return numbers.set_index(["series", "column", "metric", "x", "y"])["value"].sort_index()


def store_all(store, name, rows, seeds=(0,), split=None):
    runs = {config: rows for _, config in item(name).runs("smoke", seeds)}
    for config in runs:
        write(store, config, rows, split)


def test_items_share_their_runs():
    runs = {config for one in SAGE for _, config in one.runs("smoke")}
    assert len(runs) == N_RUNS_SMOKE
    assert {config.method for config in runs} == set(SAGE_METHODS)
    assert {(config.n_clients, config.dataset) for config in runs} == {(20, "digits")}


@pytest.mark.parametrize("name", ["sage_main_table1", "sage_supp_table8"])
def test_tables_have_the_printed_rows_and_columns(name):
    one = item(name)
    for profile in ("smoke", "paper"):
        cells = one.cells(profile)
        assert [cell.series for cell in cells[:: len(cells) // 13]] == list(SAGE_METHODS)
        assert len({cell.column for cell in cells}) == (3 if profile == "smoke" else 12)
        assert len({(cell.series, cell.column) for cell in cells}) == len(cells)
    there = claims("sage", one.source)
    assert set(there["method"]) == set(SAGE_METHODS)
    columns = {f"{row['dataset']}, α = {row['alpha']:g}" for _, row in there.iterrows()}
    assert columns == {cell.column for cell in one.cells("paper")}


def test_only_three_methods_run_once_a_seed():
    for cell, config in item("sage_main_table1").runs("smoke", (3, 4)):
        assert config.seed in ((3, 4) if cell.series in REPEATED else (0,))


def test_the_fully_labelled_reference_is_one_run_for_both_ratios():
    def references(name):
        return {config for cell, config in item(name).runs("smoke") if cell.series == "FedAvg-SL"}

    assert references("sage_main_table1") == references("sage_supp_table8")
    labelled = {
        config.label_fraction for cell, config in item("sage_supp_table8").runs("smoke") if cell.series == "SAGE"
    }
    assert labelled == {0.2}


def test_kappa_is_swept_with_kappa_star_and_two_rows_without():
    cells = item("sage_supp_fig14").cells("paper")
    swept = [cell.config.kappa for cell in cells if cell.series == "SAGE"]
    assert swept == sorted([*map(float, range(2, 21, 2)), KAPPA_STAR])
    assert {cell.series for cell in cells if cell.column == "no κ"} == {"FixMatch-LPL", "FixMatch-GPL"}


def test_tables_of_rounds_have_the_printed_targets_at_full_scale():
    for name in ("sage_supp_table6", "sage_supp_table7", "sage_main_rounds"):
        cells = item(name).cells("paper")
        there = claims("sage", item(name).source, metric="rounds_to_accuracy")
        assert {cell.column for cell in cells} >= {f"CIFAR-100, {value} %" for value in there["param_value"]}
        assert {cell.series for cell in cells} == set(there["method"]) == set(CONVERGING)
        assert all(cell.config.rounds > there["value_number"].max() for cell in cells)


def test_pseudo_labels_are_collected_per_round(store):
    store_all(store, "sage_main_fig7", [sage_row(1), sage_row(2, both__n_added=0, both__n_added_correct=0)])
    numbers = collected(store, "sage_main_fig7")["SAGE", "α = 0.1"].droplevel("y")
    assert numbers["share_local", 1] == 0.3
    assert numbers["share_cpg", 1] == 0.4
    assert numbers["label_accuracy_local", 1] == 0.5
    assert numbers["label_accuracy_cpg", 1] == (150 + 80) / 400
    assert numbers["label_accuracy_added", 1] == 0.8
    assert ("label_accuracy_added", 2) not in numbers.index  # nothing was added, so nothing is right or wrong
    assert numbers["share_minority_cpg", 2] == 0.5


def test_confidences_are_of_the_first_third_of_the_rounds(store):
    late = sage_row(4, local__counts=[1000] + [0] * 19)
    store_all(
        store, "sage_main_fig2a", [sage_row(1), sage_row(2), sage_row(3), *(late | {"round": n} for n in (4, 5, 6))]
    )
    numbers = collected(store, "sage_main_fig2a")["SAGE", "α = 0.5", "local"].droplevel("y")
    assert len(numbers) == 20
    assert numbers[0.95] == 0.3
    assert numbers[0.5] == 0.7
    assert numbers[0.0] == 0


def test_rounds_to_an_accuracy_keep_runs_that_never_get_there(store):
    accuracies = [0.1, 0.35, 0.3, 0.3, 0.3, 0.3]
    store_all(store, "sage_supp_table6", [{"round": n, "accuracy": a} for n, a in enumerate(accuracies, 1)])
    numbers = collected(store, "sage_supp_table6")["SAGE"].droplevel(["x", "y"])
    assert numbers["30 %", "rounds_needed"] == 2
    assert numbers["30 %", "censored"] == 0
    assert numbers["40 %", "rounds_needed"] == 7
    assert numbers["40 %", "censored"] == 1
    assert numbers["30 %", "rounds_needed_smoothed"] == 6  # (0.35 + 4 * 0.3) / 5 is the first mean at or above 0.3


def test_theory_is_collected_per_client(store):
    store_all(store, "sage_supp_theory", [sage_row(1), sage_row(2, clients__end_entropy=[0.6, None, None])])
    numbers = collected(store, "sage_supp_theory")["SAGE", "α = 1"]
    assert numbers["posterior_entropy", 2, 0] == 0.5
    assert numbers["prior_entropy", 2, 0] == pytest.approx(1.0)
    assert numbers["eq16_right", 2, 0] == pytest.approx(1.5)
    assert numbers["posterior_entropy", 2, 1] == 0.6
    assert ("posterior_entropy", 2, 2) not in numbers.index
    agreeing = numbers["images_when_agreeing"].droplevel("y")
    assert agreeing.to_dict() == {0: 0, 1: 8, 2: 12}
    assert numbers["confidence_when_agreeing"].droplevel("y").to_dict() == {1: 0.5, 2: pytest.approx(0.9)}


def test_a_split_has_labelled_and_unlabelled_images(store):
    split = {"class_counts": {"labelled": [[1, 2]], "unlabelled": [[3, 4]]}}
    store_all(store, "sage_supp_fig16", [sage_row(1)], split=split)
    numbers = collected(store, "sage_supp_fig16")["images", "α = 0.1"]
    assert numbers.to_dict() == {
        ("labelled", 0, 0): 1, ("labelled", 1, 0): 2, ("unlabelled", 0, 0): 3, ("unlabelled", 1, 0): 4,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "metric", "cells"),
    [("sage_main_table1", "accuracy", 156), ("sage_supp_table8", "accuracy", 156), ("sage_supp_table5", "accuracy", 18),
     ("sage_supp_table6", "rounds_needed", 24), ("sage_supp_table7", "speed_up", 24),
     ("sage_main_rounds", "rounds_needed", 18)],
)  # fmt: skip
def test_printed_numbers_have_the_names_of_our_rows_and_columns(name, metric, cells):
    table = printed(name, metric)
    assert len(table) == cells
    ours = {(cell.series, cell.column) for cell in item(name).cells("paper")}
    assert set(zip(table["series"], table["column"], strict=True)) <= ours


def test_printed_numbers_are_the_papers():
    table = printed("sage_supp_table5").set_index(["series", "column"])["value"]
    assert table["FixMatch-LPL, soft", "CIFAR-100, α = 0.1"] == 31.96
    rounds = printed("sage_supp_table6", "rounds_needed").set_index(["series", "column"])["value"]
    assert rounds["FixMatch-LPL", "CIFAR-100, 50 %"] == 562
