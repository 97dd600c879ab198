"""How many seeds an item's runs have, and what bounds them."""

import pytest

from fedcopl_lab import FedCoPLError
from fedcopl_lab.paper import SEEDS, find_items


def seeds_of(name):
    return sorted({config.seed for _, config in find_items([name])[0].runs("smoke")})


def test_an_item_has_its_own_seeds_or_those_asked_for(monkeypatch):
    monkeypatch.delenv("FEDCOPL_LAB_SEEDS", raising=False)
    assert seeds_of("fedcopl_main_table1") == list(SEEDS)
    assert seeds_of("fedcopl_ours_spread") == [0, 1, 2, 3, 4, 5]
    assert seeds_of("fedcopl_supp_fig3") == [0]


def test_the_environment_bounds_all_of_them(monkeypatch):
    monkeypatch.setenv("FEDCOPL_LAB_SEEDS", "2")
    assert seeds_of("fedcopl_main_table1") == [0, 1]
    assert seeds_of("fedcopl_ours_spread") == [0, 1]
    assert seeds_of("fedcopl_supp_fig3") == [0]


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_bound_that_is_no_count_is_refused(monkeypatch, text):
    monkeypatch.setenv("FEDCOPL_LAB_SEEDS", text)
    with pytest.raises(FedCoPLError, match="expected how many seeds at most"):
        seeds_of("fedcopl_main_table1")
