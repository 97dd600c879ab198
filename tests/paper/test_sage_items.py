"""SAGE's tables and figures: which runs they need, and what is collected from stored ones."""

from dataclasses import replace

import pytest
from made_up_runs import write_run
from sage_rows import sage_row

from fedcopl_lab._identity import key_of
from fedcopl_lab.config import KAPPA_STAR, SAGE_METHODS
from fedcopl_lab.methods import open_method
from fedcopl_lab.paper import claims, collect, find_items, printed
from fedcopl_lab.paper._evidence import Evidence
from fedcopl_lab.paper.items._sage_runs import CONVERGING, RANKED

SAGE = find_items(["sage"])
N_RUNS_SMOKE = 351


def item(name):
    return find_items([name])[0]


def collected(store, name, seed=0):
    numbers = collect(item(name), "smoke", (seed,), store)
    assert set(numbers["seed"]) == {seed}
    return numbers.set_index(["series", "column", "metric", "x", "y"])["value"].sort_index()


def store_all(store, name, rows, seeds=(0,), split=None):
    for config in {config for _, config in item(name).runs("smoke", seeds)}:
        write_run(store.run(key_of(config)).path, config, rows, split)


def test_items_share_their_runs():
    runs = {config for one in SAGE for _, config in one.runs("smoke", range(5))}
    assert len(runs) == N_RUNS_SMOKE
    assert {config.method for config in runs} == set(SAGE_METHODS)
    assert {(config.n_clients, config.dataset) for config in runs} == {(10, "digits")}


@pytest.mark.parametrize("name", ["sage_main_table1", "sage_supp_table8"])
def test_tables_have_the_printed_rows_and_columns(name):
    one = item(name)
    for profile in ("smoke", "paper"):
        cells = one.cells(profile)
        assert [cell.series for cell in cells[:: len(cells) // len(SAGE_METHODS)]] == list(SAGE_METHODS)
        assert len({cell.column for cell in cells}) == (3 if profile == "smoke" else 12)
        assert len({(cell.series, cell.column) for cell in cells}) == len(cells)
    there = claims("sage", one.source)
    assert set(there["method"]) == set(SAGE_METHODS)
    columns = {f"{row['dataset']}, α = {row['alpha']:g}" for _, row in there.iterrows()}
    assert columns == {cell.column for cell in one.cells("paper")}


def test_seeds_are_as_many_as_the_sentence_says():
    for name, ranked in (("sage_main_table1", 5), ("sage_supp_table8", 3)):
        for profile in ("smoke", "mini"):
            for cell in item(name).cells(profile):
                many = 5 if cell.series == "FedAvg-SL" else ranked  # one run for both tables
                many = 3 if profile == "mini" and cell.config.alpha == 0.5 else many
                assert cell.seeds == tuple(range(many if cell.series in RANKED else 3))
    assert {len(cell.seeds) for cell in item("sage_supp_table5").cells("smoke") if "soft" in cell.series} == {3}
    assert {len(cell.seeds) for cell in item("sage_ours_gates").cells("smoke")} == {5}


def test_seeds_that_are_asked_for_limit_a_cells_own():
    one = item("sage_main_table1")
    cell = next(cell for cell in one.cells("smoke") if cell.series == "SAGE")
    assert one.seeds_of(cell, (1, 3, 7)) == (1, 3)
    assert one.seeds_of(cell, (7,)) == (0,)
    assert one.seeds_of(replace(cell, seeds=None), (7, 3, 7)) == (7, 3), "a seed that is asked for twice comes once"
    assert one.seeds_of(cell, (0,)) == (0,)
    assert Evidence((0, 2, 0)).seeds == (0, 2)


def test_the_gate_has_a_column_with_the_split_that_the_paper_names():
    cells = item("sage_ours_gates").cells("smoke")
    assert {cell.column for cell in cells if cell.config.scheme == "dirichlet"} == {"Dirichlet, α = 0.3"}
    for cell in cells[::4]:
        open_method(replace(cell.config, seed=1))  # every client has images for a step


def test_the_fully_labelled_reference_is_one_run_for_both_ratios():
    def references(name):
        return {config for cell, config in item(name).runs("smoke") if cell.series == "FedAvg-SL"}

    assert references("sage_main_table1") == references("sage_supp_table8")
    for profile, few, share in (("smoke", {8}, {0.1}), ("mini", {200}, {0.1}), ("paper", {None}, {0.2})):
        cells = [cell for cell in item("sage_supp_table8").cells(profile) if cell.series == "SAGE"]
        assert {cell.config.labelled_per_class for cell in cells} == few
        assert {cell.config.label_fraction for cell in cells} == share
    assert {cell.column for cell in item("sage_ours_labels").cells("smoke")} == {"2 a class", "4 a class", "8 a class"}


def test_the_last_five_rounds_stand_beside_the_last(store):
    store_all(store, "sage_main_parts", [sage_row(n, 0.1 * n) for n in range(1, 9)])
    numbers = collected(store, "sage_main_parts")["SAGE", "α = 0.1"].droplevel(["x", "y"])
    assert numbers["accuracy"] == pytest.approx(0.8)
    assert numbers["accuracy_last5"] == pytest.approx((0.4 + 0.5 + 0.6 + 0.7 + 0.8) / 5)


def test_the_gates_numbers_are_of_the_last_third(store):
    rows = [sage_row(n, 0.1 * (n % 2), local__n_sure=300 if n > 4 else 0) for n in range(1, 7)]
    store_all(store, "sage_ours_gates", rows)
    numbers = collected(store, "sage_ours_gates")["SAGE", "Dirichlet, α = 0.3"].droplevel(["x", "y"])
    means = [sum(0.1 * (k % 2) for k in range(max(n - 4, 1), n + 1)) / min(n, 5) for n in range(1, 7)]
    assert numbers["round_noise"] == pytest.approx((abs(means[5] - means[4]) + abs(means[4] - means[3])) / 2)
    assert numbers["share_cpg"] == 0.4
    assert numbers["label_accuracy_cpg"] == (150 + 80) / 400
    assert numbers["lambda_sure"] == 0.7


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
    accuracies = [0.1, 0.45, 0.4, 0.4, 0.4, 0.4]
    store_all(store, "sage_supp_table6", [{"round": n, "accuracy": a} for n, a in enumerate(accuracies, 1)])
    numbers = collected(store, "sage_supp_table6")["SAGE"].droplevel(["x", "y"])
    assert numbers["40 %", "rounds_needed"] == 2
    assert numbers["40 %", "censored"] == 0
    assert numbers["55 %", "rounds_needed"] == 7
    assert numbers["55 %", "censored"] == 1
    assert numbers["40 %", "rounds_needed_smoothed"] == 6  # (0.45 + 4 * 0.4) / 5 is the first mean at or above 0.4


def test_theory_is_collected_per_client(store):
    store_all(store, "sage_supp_theory", [sage_row(1), sage_row(2, clients__end_entropy=[0.6, None, None])])
    numbers = collected(store, "sage_supp_theory")["SAGE", "α = 1"]
    assert numbers["posterior_entropy", 2, 0] == 0.5
    assert numbers["prior_entropy", 2, 0] == pytest.approx(1.0)
    assert numbers["eq16_right", 2, 0] == pytest.approx(1.5)
    assert numbers["eq16_printed", 2, 0] == pytest.approx(0.2)
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
    [("sage_main_table1", None, 156), ("sage_supp_table8", "accuracy", 156), ("sage_supp_table5", "accuracy", 18),
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
