"""Seeds derived by purpose: repeatable, apart from each other, and without global state."""

import itertools
import random

import numpy as np
import torch

from fedcopl_lab.seeding import derived_seed, numpy_generator, torch_generator


def test_seeds_of_different_purposes_never_meet():
    seeds = {
        derived_seed(seed, purpose, *parts)
        for seed in range(5)
        for purpose in ("batches", "partition", "initial prompts")
        for parts in [(), *((r,) for r in range(12)), *itertools.product(range(12), range(12))]
    }
    assert len(seeds) == 5 * 3 * (1 + 12 + 144)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert len({derived_seed(0, "a", 1, 11), derived_seed(0, "a", 11, 1), derived_seed(0, "a", 111)}) == 3


def test_values_stay_the_same_over_versions():
    # stored runs depend on these streams: a change here needs a higher NUMERICS
    assert derived_seed(0, "batches", 3, 1) == 5565867255542284629
    assert derived_seed(7, "partition", "dirichlet") == 3665210650312187207


def test_generators_repeat_and_differ():
    for make, draw in (
        (torch_generator, lambda g: torch.rand(4, generator=g).tolist()),
        (numpy_generator, lambda g: g.random(4).tolist()),
    ):
        assert draw(make(0, "x", 1)) == draw(make(0, "x", 1))
        assert len({tuple(draw(make(*a))) for a in ((0, "x", 1), (1, "x", 1), (0, "y", 1), (0, "x", 2))}) == 4


def test_global_random_states_are_left_alone():
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    torch.rand(3, generator=torch_generator(0, "x"))
    numpy_generator(0, "x").random(3)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]
