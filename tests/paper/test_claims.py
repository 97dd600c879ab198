"""The printed numbers: how many there are, what adds up, and what is known not to."""

import re
from decimal import ROUND_HALF_UP, Decimal

import pytest

from fedcopl_lab import FedCoPLError
from fedcopl_lab.paper import claims
from fedcopl_lab.paper._printed import NUMBERS

COUNTS = {
    "fedcopl": "main Table 1: 140, main Table 2: 70, main Table 3: 30, main Table 4: 24, main Table 5: 20, "
    "main Table 6: 16, supplement Table 1: 18, supplement Table 2: 24, supplement Table 3: 54, supplement Table 4: 60, "
    "supplement Table 5: 60, supplement text: 6",
    "sage": "main Table 1: 156, main convergence table: 36, settings: 13, supplement Table 5: 18, "
    "supplement Table 6: 48, supplement Table 7: 48, supplement Table 8: 168",
}
ROWS = {(paper, item): int(n) for paper, text in COUNTS.items() for item, n in re.findall(r"(\w[^:,]*): (\d+)", text)}
SETS = ["DTD", "RESISC45", "CUB", "UCF101", "CIFAR-10", "CIFAR-100"]


def values(item: str, **where: object) -> dict[str, str]:
    table = claims("fedcopl", item, **where)
    assert table["dataset"].is_unique
    return dict(zip(table["dataset"], table["value"], strict=True))


@pytest.mark.parametrize(("paper", "item"), ROWS)
def test_every_table_has_all_its_cells(paper: str, item: str) -> None:
    assert len(claims(paper, item)) == ROWS[paper, item]


def test_there_is_nothing_else() -> None:
    assert len(claims()) == sum(ROWS.values())
    assert set(zip(claims()["paper"], claims()["item"], strict=True)) == set(ROWS)


def test_all_thirty_averages_recompute() -> None:
    checked = 0
    for item in ("main Table 1", "main Table 2"):
        table = claims("fedcopl", item)
        for _, group in table.groupby(["method", "labeller", "beta"], dropna=False):
            by_set = dict(zip(group["dataset"], group["value"], strict=True))
            mean = sum(Decimal(by_set[name]) for name in SETS) / 6
            assert mean.quantize(Decimal("0.01"), ROUND_HALF_UP) == Decimal(by_set["Average"])
            checked += 1
    assert checked == 30


def test_tables_repeat_each_other() -> None:
    main = values("main Table 1", method="FedCoPL", beta=0.1)
    for other in (
        values("main Table 5", param_value="1;1;1"),
        values("main Table 6", param_value="0;1"),
        values("supplement Table 4", param_value="0.50"),
        values("supplement Table 5", param_value="0.50"),
    ):
        assert other.items() <= main.items()
    fpl = values("main Table 1", method="PromptFL", labeller="FPL", beta=0.1)
    assert values("main Table 5", param_value="0;0;0").items() <= fpl.items()
    copl = values("main Table 3", method="PromptFL", labeller="CoPL")
    assert values("main Table 6", param_value="1;1").items() <= copl.items()
    for method in ("PromptFL", "pFedPrompt", "FedOTP"):
        first = values("main Table 1", method=method, labeller="FPL", beta=0.1)
        assert values("main Table 3", method=method, labeller="FPL").items() <= first.items()


def test_fourteen_of_the_fifteen_printed_gains_are_differences() -> None:
    table = claims("fedcopl", "main Table 3")
    fpl = table[table["labeller"] == "FPL"].set_index(["method", "dataset"])["value_number"]
    wrong = []
    for line in table[table["labeller"] == "CoPL"].to_dict("records"):
        gain = line["value_number"] - fpl[line["method"], line["dataset"]]
        if abs(gain - line["printed_gain"]) > 0.005:
            wrong.append((line["method"], line["dataset"], line["flag"]))
    assert wrong == [("pFedPrompt", "CUB", "misprint: the gain is 52.77 - 48.48 = 4.29")]


def test_the_zero_shot_row_does_not_depend_on_the_split() -> None:
    rows = [values("main Table 1", method="zero-shot", beta=beta) for beta in (0.1, 0.05)]
    rows.append(values("main Table 2", method="zero-shot"))
    assert rows[0] == rows[1] == rows[2]


@pytest.mark.parametrize(
    ("item", "dataset", "value"),
    [
        ("supplement Table 1", "CUB", "5594"),
        ("supplement text", "RESISC45", "58"),
        ("supplement text", "CUB", "66"),
        ("supplement text", "UCF101", "30"),
        ("supplement Table 2", "UCF101", "65.13"),
        ("supplement Table 2", "RESISC45", "58.94"),
        ("main Table 6", "CUB", "49.08"),
        ("main Table 4", "DTD", "56.83"),
    ],
)
def test_known_misprints_and_doubtful_cells_are_flagged(item: str, dataset: str, value: str) -> None:
    table = claims("fedcopl", item, dataset=dataset, value=value)
    assert len(table) >= 1
    assert (table["flag"] != "").all()


def test_sage_speed_ups_are_ratios_of_rounds() -> None:
    table = claims("sage", metric=["rounds_to_accuracy", "speed_up_over_fixmatch_lpl"])
    keys = ["item", "alpha", "method", "param_value"]
    wide = table.pivot(index=keys, columns="metric", values="value_number").reset_index()
    for (item, alpha, target), group in wide.groupby(["item", "alpha", "param_value"]):
        rounds = group.set_index("method")["rounds_to_accuracy"]
        ratio = rounds["FixMatch-LPL"] / rounds
        printed = group.set_index("method")["speed_up_over_fixmatch_lpl"]
        assert ((ratio - printed).abs().dropna() <= 0.0051).all(), (item, alpha, target)


def test_methods_have_one_spelling_and_an_alias() -> None:
    table = claims()
    assert not set(table["method"]) & {"FedOPT", "FedLoke", "Zero-shot CLIP"}
    assert set(claims(method="FedOTP")["printed_method"]) == {"FedOPT"}
    assert set(claims(method="FedLoKe")["printed_method"]) == {"FedLoke"}


def test_numbers_agree_with_the_printed_text() -> None:
    table = claims()
    assert all(table[name].dtype == float for name in NUMBERS)
    read = table[table["value"] != "None"]
    assert (read["value"].astype(float) == read["value_number"]).all()
    assert set(table[table["value"] == "None"]["flag"]) == {"target not reached"}


def test_filters_take_lists_and_return_copies() -> None:
    table = claims("fedcopl", "main Table 6", dataset=["DTD", "CUB"])
    assert set(table["dataset"]) == {"DTD", "CUB"}
    table["value"] = "0"
    assert not (claims("fedcopl", "main Table 6", dataset="DTD")["value"] == "0").any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"paper": "fedcop"}, "unknown paper 'fedcop'; did you mean 'fedcopl'"),
        ({"paper": "sage", "item": "main Table 6"}, "unknown item 'main Table 6'.*known: .*main Table 1"),
        ({"datset": "DTD"}, "unknown column 'datset'; did you mean 'dataset'"),
    ],
)
def test_unknown_names_are_errors_that_list_the_known(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(FedCoPLError, match=message):
        claims(**arguments)
