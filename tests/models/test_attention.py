"""Attention by batched products, by torch's fused kernel and one query at a time are the same."""

import math

import pytest
import torch

from fedcopl_lab.models.layers import attend, fused

HEADS, WIDTH, N = 2, 6, 4


def slow(projected, queries, common, sizes, mask):
    """One sequence, one head and one query at a time."""
    owner = [k for k, size in enumerate(sizes) for _ in range(size)]
    result = []
    for i, own in enumerate(projected):
        asked = own[:, :WIDTH] if queries is None else queries[i]
        keys_values = own[:, -2 * WIDTH :]
        if common is not None:
            keys_values = torch.cat([keys_values, common[owner[i]]])
        keys, values = keys_values[:, :WIDTH], keys_values[:, WIDTH:]
        rows = []
        for j, query in enumerate(asked):
            parts = []
            for head in range(HEADS):
                place = slice(head * WIDTH // HEADS, (head + 1) * WIDTH // HEADS)
                score = keys[:, place] @ query[place] / math.sqrt(WIDTH / HEADS)
                if mask is not None:
                    seen = mask[j] if mask.ndim == 2 else mask[i, 0, j]
                    score = score.masked_fill(~seen, -torch.inf)
                parts.append(score.softmax(0) @ values[:, place])
            rows.append(torch.cat(parts))
        result.append(torch.stack(rows))
    return torch.stack(result)


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape) + shape[-1]))


CAUSAL = torch.ones(N, N, dtype=torch.bool).tril()
PREFIX = torch.cat([CAUSAL, torch.ones(N, 3, dtype=torch.bool)], dim=1)
CASES = {
    "alone": (None, None, [], None),
    "causal": (None, None, [], CAUSAL),
    "one client": (None, drawn(1, 3, 2 * WIDTH), [5], None),
    "three clients": (None, drawn(3, 3, 2 * WIDTH), [2, 0, 3], PREFIX),
    "no vectors in common": (None, drawn(2, 0, 2 * WIDTH), [4, 1], None),
    "own queries": (drawn(5, 1, WIDTH), drawn(2, 3, 2 * WIDTH), [1, 4], PREFIX[[0, 3, 1, 2, 3]][:, None, None]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("form", [attend, fused])
def test_equals_one_query_at_a_time(case, form):
    queries, common, sizes, mask = CASES[case]
    projected = drawn(5, N, 3 * WIDTH if queries is None else 2 * WIDTH)
    inputs = [x.clone().requires_grad_() for x in (projected, queries, common) if x is not None]

    def call(function):
        left = iter(inputs)
        arguments = [None if x is None else next(left) for x in (projected, queries, common)]
        if function is attend:
            return attend(arguments[0], HEADS, queries=arguments[1], common=arguments[2], sizes=sizes, mask=mask)
        if function is fused:
            return fused(*arguments, sizes, HEADS, mask)
        return slow(*arguments, sizes or [5], mask)

    found, expected = call(form), call(slow)
    assert (found - expected).abs().max() <= 1e-12
    weights = drawn(*expected.shape)
    pairs = zip(torch.autograd.grad((found * weights).sum(), inputs),
                torch.autograd.grad((expected * weights).sum(), inputs), strict=True)  # fmt: skip
    assert all((a - b).abs().max() <= 1e-12 for a, b in pairs if b.numel())


@pytest.mark.parametrize("learned", [(False, False, True), (False, True, False), (True, False, False)])
def test_only_what_learns_gets_a_gradient(learned):
    inputs = [drawn(5, N, 2 * WIDTH), drawn(5, 1, WIDTH), drawn(2, 3, 2 * WIDTH)]
    everything = [x.clone().requires_grad_() for x in inputs]
    some = [x.clone().requires_grad_(learns) for x, learns in zip(inputs, learned, strict=True)]
    sums = [attend(x[0], HEADS, queries=x[1], common=x[2], sizes=[1, 4]).square().sum() for x in (everything, some)]
    for loss in sums:
        loss.backward()
    for one, all_of_it, learns in zip(some, everything, learned, strict=True):
        assert (one.grad is not None) == learns
        assert not learns or (one.grad - all_of_it.grad).abs().max() <= 1e-12


def test_bfloat16_keeps_its_type_and_stays_close():
    projected, common = drawn(5, N, 3 * WIDTH), drawn(1, 3, 2 * WIDTH)
    expected = attend(projected, HEADS, common=common, sizes=[5])
    found = attend(projected.bfloat16(), HEADS, common=common.bfloat16(), sizes=[5])
    assert found.dtype == torch.bfloat16
    assert (found - expected).abs().max() <= 0.03 * expected.abs().max()
