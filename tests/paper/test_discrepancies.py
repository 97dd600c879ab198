"""Paper against code: every setting that the table names exists, and takes the values it says."""

import json

import pytest

from fedcopl_lab import configure
from fedcopl_lab.config import setting_names
from fedcopl_lab.paper import discrepancies

ROWS = discrepancies().to_dict("records")
WITH_OPTION = [row for row in ROWS if row["option"]]
ARGUMENTS = {"mode", "method"}


def value_of(text: str):
    try:
        return json.loads(text)
    except ValueError:
        return text


def test_every_row_says_what_it_is_about_and_what_happens() -> None:
    table = discrepancies()
    assert table["number"].is_unique
    assert table["number"].is_monotonic_increasing
    assert (table["topic"] != "").all()
    assert ((table["option"] != "") | (table["toolkit"] != "")).all()
    assert ((table["paper"] != "") | (table["code"] != "")).all()


@pytest.mark.parametrize("row", WITH_OPTION, ids=lambda row: f"{row['number']}-{row['option']}")
def test_the_option_exists_and_takes_the_values_of_both_sides(row) -> None:
    assert row["option"] in setting_names() | ARGUMENTS
    for side in ("paper_value", "code_value"):
        if row[side]:
            beside = {"scheme": "quantity"} if row["option"] == "fraction" else {}
            configure("smoke", **beside, **{row["option"]: value_of(row[side])})


@pytest.mark.parametrize(
    "row", [row for row in WITH_OPTION if row["option"] not in ARGUMENTS and row["default"] != "the profile's"],
    ids=lambda row: f"{row['number']}-{row['option']}",
)  # fmt: skip
def test_the_default_is_what_configure_gives(row) -> None:
    assert getattr(configure("smoke"), row["option"]) == value_of(row["default"])


def test_the_copy_is_the_callers() -> None:
    taken = discrepancies()
    taken["topic"] = ""
    assert (discrepancies()["topic"] != "").all()
