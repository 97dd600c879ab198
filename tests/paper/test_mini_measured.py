"""Committed numbers of the profile `mini`: a sample of them is computed again where CIFAR is at hand."""

import pytest

import fedcopl_lab as lab
from fedcopl_lab._identity import key_of
from fedcopl_lab.paper import ITEMS, collect, find_items, measured, measured_runs
from fedcopl_lab.paper._sage_rounds import pseudo_label_numbers
from fedcopl_lab.report import against_committed

pytestmark = pytest.mark.long


def test_the_row_before_training_comes_out_again(real_cifar, store, monkeypatch):
    monkeypatch.setenv("FEDCOPL_LAB_DATA", str(real_cifar))
    item = find_items(["main Table 1"])[0]
    committed = measured("mini").query("item == @item.id and series == 'Prompted, before training' and seed == 0")
    columns = set(committed["column"])
    assert columns
    short = [c for cell, c in item.runs("mini", (0,)) if c.method == "zero-shot" and cell.column in columns]
    lab.sweep(short, store=store, progress=False)
    table = against_committed(collect(item, "mini", (0,), store, partial=True), committed, tolerance=0.01)
    assert set(table["column"]) == columns
    assert set(table["verdict"]) <= {"exact", "within tolerance"}, table


@pytest.mark.parametrize(("method", "least"), [("FedCoPL", 7), ("SAGE", 12)])
def test_the_first_round_of_a_trained_run_comes_out_again(method, least, real_cifar, store, power_cut, monkeypatch):
    """Labels, local training, averaging and testing, at the cost of one round."""
    monkeypatch.setenv("FEDCOPL_LAB_DATA", str(real_cifar))
    config = lab.configure("mini", method=method, seed=0, **({"alpha": 0.1} if method == "SAGE" else {}))
    numbers = measured("mini")
    committed = numbers[(numbers["key"] == key_of(config)) & (numbers["x"] == 1)]
    [record] = power_cut(config, store, after=1).records()
    record |= pseudo_label_numbers(record)
    values = {metric: value for metric, value in record.items() if isinstance(value, int | float)}
    lines = committed[committed["metric"].isin(values)].drop_duplicates("metric").set_index("metric")
    assert len(lines) >= least
    again = {metric: values[metric] for metric in lines.index}
    assert again == pytest.approx(lines["value"].to_dict(), rel=0.02, abs=0.02)


def test_every_number_names_the_run_that_gave_it():
    numbers, runs = measured("mini"), measured_runs("mini").set_index("key")
    trained = numbers.dropna(subset="key")
    assert set(trained["key"]) == set(runs.index)
    assert set(numbers[numbers["key"].isna()]["item"]) <= {"fedcopl_supp_table1"}, "counted in the manifests"
    assert (runs["profile"] == "mini").all()
    assert runs[["hardware", "packages", "threads"]].notna().all(axis=None)
    # how right a kind of label is has no value in a run that gave none of them
    always = trained[~trained["metric"].str.startswith("label_accuracy_")]
    asked = {(one.id, cell.series, cell.column): {*one.seeds_of(cell)} for one in ITEMS for cell in one.cells("mini")}
    for (item, series, column, metric), lines in always.groupby(["item", "series", "column", "metric"]):
        assert set(lines["seed"]) == asked[item, series, column], f"{item}, {series}, {column}: {metric}"
