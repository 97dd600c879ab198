"""How many seeds an item's runs have, and what bounds them."""

import pytest

from fedcopl_lab.paper import SEEDS, find_items


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
