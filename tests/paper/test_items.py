"""Which runs items have: their seeds; in `mini` photographs its frozen model never saw, and nothing zero-shot."""

import pytest
from made_up_runs import jitter, rounds

from fedcopl_lab.config import PromptConfig
from fedcopl_lab.paper import ITEMS, SEEDS, differences, find_items, has_runs, judged_claims, verdicts
from fedcopl_lab.paper.items._fedcopl_columns import SETS_OF_MINI
from fedcopl_lab.store import Store

PROMPTED = [item for item in ITEMS if item.id.startswith("fedcopl_") and item.cells("smoke")]
BACKBONES = ["fedcopl_main_table4", "fedcopl_supp_table2"]


def test_every_item_runs_on_unseen_photographs_or_says_why_not():
    for item in PROMPTED:
        configs = [cell.config for cell in item.cells("mini")]
        assert all(isinstance(one, PromptConfig) and one.clip == "mini-traits" for one in configs)
        assert {one.dataset for one in configs} <= {config["dataset"] for config in SETS_OF_MINI.values()}
        assert bool(configs) == has_runs(item, "mini") == (item.id not in BACKBONES)
        assert configs or item.not_run("mini")[0].reason


def test_columns_name_the_photographs_and_cifar10_stands_for_other_sets():
    columns = {
        name: [c.column for c in find_items([name])[0].cells("mini")] for name in ("main Table 1", "main Table 6")
    }
    assert list(dict.fromkeys(columns["main Table 1"])) == ["CIFAR-10, β = 0.1", "CIFAR-10, β = 0.05"]
    assert set(columns["main Table 6"]) == {"CIFAR-10, β = 0.1", "CIFAR-10, β = 0.05"}
    clients = [cell.column for cell in find_items(["main Fig. 3"])[0].cells("mini")]
    assert {name for name in clients if "K =" in name} == {f"CIFAR-10, K = {k}" for k in (5, 10, 30)}
    assert find_items(["main Fig. 3"])[0].not_run("mini")[0].column == "CIFAR-10, K = 50"


@pytest.mark.parametrize("item", PROMPTED, ids=lambda item: item.id)
def test_nothing_is_called_zero_shot(item):
    rows = {cell.series for cell in item.cells("mini") if cell.config.method == "zero-shot"}
    assert not any("zero" in row.lower() for row in rows)
    assert not any("smoke profile" in sentence for sentence in differences(item, "mini"))
    assert differences(item, "smoke") == item.differs


def test_claims_without_runs_are_not_tested(tmp_path):
    table = verdicts("mini", Store(tmp_path), paper="fedcopl")
    about_patches = table["number"].isin([17, 18])  # of a model that did not learn to compare them with texts
    assert (table.loc[about_patches, "verdict"] == "regime not reached").all()
    assert (table.loc[~about_patches, "verdict"] == "not tested").all()
    assert table["note"].str.len().min() > 10


def test_a_row_whose_regime_is_not_reached_is_no_rival(judged_by):
    judged = judged_by("best_under_dirichlet", lambda config: rounds([60.0, 70.0 + jitter(config)]), "mini")
    assert judged.cells > 0
    assert "FedOTP + FPL" in judged.note


def test_every_claim_is_judged_or_says_what_mini_lacks(judged_by):
    """In a made-up world where FedCoPL leads by five points; what is read before training is not called zero-shot."""
    methods = set()

    def world(config):
        methods.add(config.method)
        return rounds([60.0, 65.0, 70.0 + 5.0 * (config.method == "FedCoPL") + jitter(config)])

    lacking = []
    for row in judged_claims("fedcopl").to_dict("records"):
        judged = judged_by(row["statistic"], world, "mini")
        if judged.verdict == "not tested":
            lacking.append((row["number"], judged.note))
        elif row["number"] in (12, 13, 15):  # compare with the row before training
            assert "prompted, before training" in judged.note
    assert "zero-shot" in methods
    assert {16, 19, 26, 28} <= {number for number, _ in lacking}
    without_a_floor = [line for line in lacking if "Exactly 0 at every seed" not in line[1]]
    assert len(without_a_floor) < 15, without_a_floor


def seeds_of(name, **how):
    return sorted({config.seed for _, config in find_items([name])[0].runs("smoke", **how)})


def test_an_item_has_its_own_seeds_or_those_asked_for():
    assert set(seeds_of("fedcopl_main_table1", seeds=(3, 7))) <= {3, 7} | set(SEEDS)
    assert len(seeds_of("fedcopl_ours_spread")) > len(SEEDS) or len(SEEDS) > 3
    assert seeds_of("fedcopl_supp_fig3") == [0]


@pytest.mark.parametrize("name", ["fedcopl_main_table1", "fedcopl_ours_spread", "fedcopl_supp_fig3"])
def test_first_bounds_the_seeds_of_every_cell(name):
    every = seeds_of(name)
    assert seeds_of(name, first=None) == every
    assert seeds_of(name, first=1) == every[:1]
    assert seeds_of(name, first=0) == []
