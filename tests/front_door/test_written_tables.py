"""The generated tables of README and docs print what is committed."""

import written_tables as tables

from fedcopl_lab.paper import measured, measured_claims, measured_runs, printed
from fedcopl_lab.report import beside, coverage, readable


def test_every_item_has_a_line_and_the_sum_is_last() -> None:
    table, (_, _, *lines) = coverage("mini"), tables.coverage_markdown("mini").splitlines()
    assert len(lines) == len(table)
    assert lines[-1].startswith(f"| All items, each run once | {measured_runs('mini')['key'].nunique()} of ")
    for line, row in zip(lines, table.to_dict("records"), strict=True):
        assert line == f"| {row['shows']} | {row['committed']:,} of {row['runs']:,} | {row['not_run'] or '–'} |"


def test_printed_and_measured_stand_in_pairs() -> None:
    numbers = measured("mini", "fedcopl_main_table1")
    head, _, *rows = tables.beside_markdown("fedcopl_main_table1", "mini").splitlines()
    assert head.startswith("| | CIFAR-10, β = 0.1: paper | mini | CIFAR-10, β = 0.05: paper | mini |")
    assert "DTD" not in head
    cells = {row.split(" | ")[0].removeprefix("| "): row.removesuffix(" |").split(" | ")[1:] for row in rows}
    wide = readable(beside("fedcopl_main_table1", numbers, "mini"))
    theirs = printed("fedcopl_main_table1").query("series == 'FedCoPL' and column == 'CIFAR-10, β = 0.1'")["value"]
    ours = wide.loc["FedCoPL"].filter(like="mini").filter(like="CIFAR-10, β = 0.1")
    assert cells["FedCoPL"][:2] == [f"{theirs.item():.1f}", ours.iloc[0]]
    assert cells["Prompted, before training"][0] == "–"
    assert "Zero-shot CLIP" not in cells


def test_a_column_without_a_row_of_both_stays_out(monkeypatch) -> None:
    numbers = measured("mini")
    start_only = (numbers["column"] != "CIFAR-10, β = 0.05") | (numbers["series"] == "Prompted, before training")
    monkeypatch.setattr(tables, "measured", lambda profile: numbers[start_only])
    head, *_ = tables.beside_markdown("fedcopl_main_table1", "mini").splitlines()
    assert "CIFAR-10, β = 0.1" in head
    assert "β = 0.05" not in head.split("CIFAR-100")[0]


def test_every_settled_claim_has_a_line() -> None:
    settled = measured_claims("smoke").query("verdict != 'not tested'")
    _, _, *rows = tables.claims_markdown("smoke").splitlines()
    assert len(rows) == len(settled)
    for row, line in zip(rows, settled.to_dict("records"), strict=True):
        assert row.startswith(f"| {line['number']}. {line['claim']} (")
        assert f"{line['verdict']} | {line['statistic']}; {line['n_seeds']} seeds |" in row
