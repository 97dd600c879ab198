"""The README's generated tables: what they print is what is committed, and columns that only one side has stay out."""

import pandas as pd

from fedcopl_lab.paper import measured_claims, printed
from fedcopl_lab.report import _overview, bench_markdown, beside, beside_markdown, claims_markdown


def test_printed_and_measured_stand_in_pairs(made_up, monkeypatch) -> None:
    numbers = made_up("fedcopl_main_table1", profile="mini")
    monkeypatch.setattr(_overview, "measured", lambda profile: numbers)
    head, _, *rows = beside_markdown("fedcopl_main_table1", "mini").splitlines()
    assert head.startswith("| | CIFAR-10, β = 0.1: paper | mini | CIFAR-10, β = 0.05: paper | mini |")
    assert "DTD" not in head
    cells = {row.split(" | ")[0].removeprefix("| "): row.removesuffix(" |").split(" | ")[1:] for row in rows}
    wide = beside("fedcopl_main_table1", numbers, "mini")
    theirs = printed("fedcopl_main_table1").query("series == 'FedCoPL' and column == 'CIFAR-10, β = 0.1'")["value"]
    ours = wide.loc["FedCoPL"].filter(like="mini").filter(like="CIFAR-10, β = 0.1")
    assert cells["FedCoPL"][:2] == [f"{theirs.item():.1f}", f"{ours.iloc[0]:.1f} ± {ours.iloc[1]:.1f}"]
    assert cells["Prompted, before training"][0] == "–"
    assert "Zero-shot CLIP" not in cells


def test_a_column_without_a_row_of_both_stays_out(made_up, monkeypatch) -> None:
    numbers = made_up("fedcopl_main_table1", profile="mini")
    start_only = (numbers["column"] != "CIFAR-10, β = 0.05") | (numbers["series"] == "Prompted, before training")
    monkeypatch.setattr(_overview, "measured", lambda profile: numbers[start_only])
    head, *_ = beside_markdown("fedcopl_main_table1", "mini").splitlines()
    assert "CIFAR-10, β = 0.1" in head
    assert "β = 0.05" not in head.split("CIFAR-100")[0]


def test_every_settled_claim_has_a_line() -> None:
    settled = measured_claims("smoke").query("verdict != 'not tested'")
    _, _, *rows = claims_markdown("smoke").splitlines()
    assert len(rows) == len(settled)
    for row, line in zip(rows, settled.to_dict("records"), strict=True):
        assert row.startswith(f"| {line['number']}. {line['claim']} (")
        assert f"{line['verdict']} | {line['statistic']}; {line['n_seeds']} seeds |" in row


def test_a_step_of_both_types_stands_in_one_line() -> None:
    common = {"backbone": "ViT-B-32", "classes": 47, "seconds_plain": 11.47, "repeats": 7}
    rows = pd.DataFrame([
        {**common, "dtype": "bf16", "seconds": 2.93, "speed_up": 3.918, "share_of_ceiling": 0.82,
         "memory_ratio": 0.228},
        {**common, "dtype": "fp32", "seconds": 5.89, "speed_up": 1.947, "share_of_ceiling": 0.89,
         "memory_ratio": 0.383},
    ])  # fmt: skip
    head, _, line = bench_markdown(rows).splitlines()
    assert line == "| ViT-B-32 | 47 | 11.5 s | 5.9 s, 1.95× | 2.9 s, 3.92× | 89%, 82% | × 0.38, × 0.23 | 7 |"
    assert head.count("|") == line.count("|")
