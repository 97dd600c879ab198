"""The arithmetic behind SAGE's numbers, each against a slow obvious reference."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sage_rows import sage_row

from fedcopl_lab import FedCoPLError
from fedcopl_lab.paper._sage_reached import reached_lines, speed_ups
from fedcopl_lab.paper._sage_rounds import (
    THRESHOLDS,
    by_agreement,
    client_means,
    first_third,
    histogram,
    last_third,
    pseudo_label_numbers,
    share_above,
)


def test_a_method_without_pseudo_labels_has_no_such_numbers():
    assert pseudo_label_numbers({"round": 1, "accuracy": 0.5, "local": {}}) == {}


@given(st.integers(1, 40))
def test_thirds(n):
    rows = [{"round": number} for number in range(1, n + 1)]
    early, late = first_third(rows), last_third(rows)
    assert [row["round"] for row in early] == [number for number in range(1, n + 1) if number <= max(n // 3, 1)]
    assert len(early) == len(late)
    assert late[-1]["round"] == n


@given(st.lists(st.integers(0, 50), min_size=20, max_size=20).filter(any), st.sampled_from(THRESHOLDS))
def test_share_above_a_threshold(counts, threshold):
    shares = histogram([{"local": {"counts": counts}}] * 2, "local")
    slow = sum(n for i, n in enumerate(counts) if i >= round(20 * threshold)) / sum(counts)
    assert share_above(shares, threshold) == pytest.approx(slow, abs=1e-12)


def test_a_threshold_between_two_edges_is_refused():
    with pytest.raises(FedCoPLError, match=r"threshold=0.97 is no edge of 20 equal bins"):
        share_above(np.full(20, 0.05), 0.97)


def table_of(rounds):
    lines = []
    for (series, seed), accuracies in rounds.items():
        for line in reached_lines([{"accuracy": value} for value in accuracies], "50 %"):
            lines.append({"series": series, "column": "50 %", "seed": seed, **line})
    return pd.DataFrame(lines)


def test_speed_up_is_a_mean_of_ratios_over_the_seeds_both_have():
    curve = {n: [0.0] * (n - 1) + [0.6] * (9 - n) for n in (1, 2, 4, 8)}
    numbers = table_of({("FixMatch-LPL", 0): curve[8], ("FixMatch-LPL", 1): curve[4], ("SAGE", 0): curve[2],
                        ("SAGE", 1): curve[4], ("FedDB", 0): curve[4]})  # fmt: skip
    found = speed_ups(numbers).set_index("series")
    assert found.loc["SAGE", "speed_up"] == pytest.approx(2.0)  # geometric mean of 8/2 and 4/4
    assert found.loc["FedDB", "speed_up"] == pytest.approx(2.0)
    assert found["n"].to_dict() == {"FixMatch-LPL": 2, "SAGE": 2, "FedDB": 1}
    assert not found["bounds"].any()


def test_a_run_that_never_gets_there_makes_the_speed_up_a_bound():
    numbers = table_of({("FixMatch-LPL", 0): [0.1] * 7, ("SAGE", 0): [0.1, 0.6] + [0.6] * 5})
    found = speed_ups(numbers).set_index("series")
    assert found.loc["SAGE", "speed_up"] == pytest.approx(4.0)
    assert found.loc["SAGE", "bounds"] == 1


def test_client_means_skip_rounds_without_the_client():
    rows = [
        sage_row(1, clients__start_distance=[0.4, None, None]),
        sage_row(2, clients__start_distance=[0.2, 0.6, None]),
    ]
    means = client_means(rows)["start_distance"]
    assert means[:2] == pytest.approx([0.3, 0.6])
    assert np.isnan(means[2])


def test_confidence_by_agreement_weighs_rounds_by_their_images():
    rows = [
        sage_row(1),
        sage_row(2, ensemble__agreeing_counts=[1, 4, 0], ensemble__agreeing_confidence=[0.3, 0.7, None]),
    ]
    images, confidence = by_agreement(rows)
    assert images.tolist() == [1, 8, 6]
    assert confidence.tolist() == pytest.approx([0.3, 0.6, 0.9])
