"""The report's sections on claims: every claim is there, read by words and signs, never by colour alone."""

import math

import pandas as pd
import pytest
from test_report_files import Page

from fedcopl_lab import FedCoPLError
from fedcopl_lab.paper import VERDICTS, discrepancies, find_items, judged_claims, seeds_for
from fedcopl_lab.report import claim_text, many_tests, seeds_needed, write_report
from fedcopl_lab.report._claims import SYMBOLS, claim_tables, gate_lines
from fedcopl_lab.report._page import render


def claims_section(verdicts: pd.DataFrame | None, elsewhere: dict[str, pd.DataFrame] | None = None) -> str:
    tables = [] if verdicts is None else claim_tables(verdicts, elsewhere)
    told = discrepancies().to_dict("records")
    return render("claims.html.j2", claims=tables, gates=gate_lines("smoke"), discrepancies=told)


@pytest.fixture
def made_up_verdicts() -> pd.DataFrame:
    """Three judged claims and the rest untested; nothing here was measured."""
    table = judged_claims()[["number", "claim"]].assign(
        verdict="not tested", statistic="", n_seeds=0, cells=0, k_of_m=0, difference=math.nan, low=math.nan,
        high=math.nan, unit="points", runs="", note="No run.", p=math.nan, spread=math.nan, image_error=0.0,
        paper_effect=math.nan, excludes_paper="",
    )  # fmt: skip
    for place, verdict in enumerate(("holds", "does not hold", "within noise")):
        table.loc[place, ["verdict", "statistic", "note"]] = [verdict, f"+{place}.5 points [0.1, 9.9]", "A <note>."]
    return table


def test_counts_and_tables_cover_every_claim_of_each_paper(made_up_verdicts) -> None:
    fedcopl, sage = claim_tables(made_up_verdicts)
    assert (fedcopl["name"], sage["name"]) == ("FedCoPL", "SAGE")
    assert fedcopl["counts"] == list(zip(VERDICTS, (1, 1, 1, 0, 42), strict=True))
    assert sage["counts"] == list(zip(VERDICTS, (0, 0, 0, 0, 38), strict=True))
    numbers = [line["number"] for table in (fedcopl, sage) for line in table["judged"] + table["untested"]]
    assert sorted(numbers) == list(range(1, 84))


def test_the_page_says_verdicts_in_words_beside_a_sign(made_up_verdicts) -> None:
    page = Page(claims_section(made_up_verdicts))
    for verdict, sign in SYMBOLS.items():
        assert f"{sign} {verdict}" in page.text
    assert "+1.5 points [0.1, 9.9]" in page.text
    assert "A <note>." in page.text, "markup in a note stays text"
    for claim in judged_claims()["claim"]:
        assert " ".join(claim.split()) in page.text


def test_verdicts_of_another_profile_stand_under_the_first_and_say_whose_they_are(made_up_verdicts) -> None:
    other = made_up_verdicts.assign(verdict="not tested")
    other.loc[[0, 5], ["verdict", "statistic", "n_seeds"]] = ["within noise", "+7.7 points [-1.0, 16.4]", 3]
    fedcopl, _ = claim_tables(made_up_verdicts, {"mini": other})
    assert {line["number"] for line in fedcopl["judged"]} == {1, 2, 3, 6}
    assert dict(fedcopl["counts"])["not tested"] == 42, "the counts are the page's own profile's"
    page = Page(claims_section(made_up_verdicts, {"mini": other}))
    assert page.text.count("mini: ≈ within noise, +7.7 points [-1.0, 16.4] ; 3 seeds") == 2
    assert "mini:" not in Page(claims_section(made_up_verdicts)).text


def test_paper_and_code_stand_side_by_side_also_without_verdicts() -> None:
    page = Page(claims_section(None))
    assert "What holds" not in page.text
    for row in discrepancies().to_dict("records"):
        assert f"{row['number']}. {row['topic']}" in page.text


@pytest.mark.usefixtures("words_only")
def test_the_report_takes_the_verdicts_and_links_to_them(all_numbers, all_runs, made_up_verdicts, tmp_path) -> None:
    name = "fedcopl_main_fig1"
    pages = [
        Page(write_report(tmp_path / str(i), find_items([name]), all_numbers[name], all_runs.head(0), "smoke", given)
             .read_text(encoding="utf-8"))
        for i, given in enumerate((None, made_up_verdicts))
    ]  # fmt: skip
    targets = [{attrs["href"][1:] for attrs in page.all("a")} for page in pages]
    assert targets[1] - targets[0] == {"what-holds"} | {f"claim-{number}" for number in range(1, 46)}
    for page, linked in zip(pages, targets, strict=True):
        assert linked <= {attrs.get("id") for _, attrs in page.tags}


def test_a_table_that_is_no_verdicts_is_refused(made_up_verdicts) -> None:
    with pytest.raises(FedCoPLError, match="the verdicts lack the columns note; pass what verdicts\\(\\) gives"):
        claim_tables(made_up_verdicts.drop(columns="note"))


def test_text_for_a_notebook_has_the_claims_asked_for_in_that_order(made_up_verdicts) -> None:
    second, first = claim_text(made_up_verdicts, [6, 1]).split("\n\n")
    assert second.startswith("6. CPL's labels are more accurate than FPL's (supp. Table 3)\n   – not tested\n")
    assert "measured:" not in second
    assert "printed: 18 of 18 cells" in second
    assert "   ✓ holds\n" in first
    assert "measured: +0.5 points [0.1, 9.9]; 0 seeds" in first
    assert first.endswith("A <note>.")
    assert max(map(len, first.splitlines())) <= 110


def test_the_papers_effect_and_the_seeds_needed_stand_beside_a_claim(made_up_verdicts) -> None:
    table = made_up_verdicts.copy()
    table.loc[0, ["spread", "paper_effect", "excludes_paper"]] = [2.4, -2.4, "yes"]
    told = " ".join(claim_text(table, [1]).split())
    assert "paper's effect -2.4 points, left out by the interval; 7 seeds for an interval narrower than 2.4" in told
    assert seeds_needed(1, verdicts=table) == seeds_needed(1, effect=2.4, verdicts=table) == 7
    assert seeds_needed(table["number"].iloc[0], verdicts=table) == 7, "a number of numpy's"
    table.loc[13, "spread"] = 1.0
    assert seeds_needed(14, verdicts=table) == seeds_for(1.0, 2.0), "a claim of no difference takes its margin"
    with pytest.raises(FedCoPLError, match=r"effect=0\.0 is not valid"):
        seeds_needed(1, effect=0, verdicts=table)
    for claim, message in ((2, "claim 2 has no spread"), (99, "claim 99 has no spread"), ([1.0], "two seeds or more")):
        with pytest.raises(FedCoPLError, match=message):
            seeds_needed(claim, verdicts=table)


def test_one_line_counts_what_stays_when_all_claims_are_counted(made_up_verdicts) -> None:
    table = made_up_verdicts.assign(low=0.0, high=1.0)
    table.loc[[0, 1, 2], "p"] = [0.001, 0.03, 0.6]
    said = "Of 3 tested differences 2 are significant at 5 % each, 2 after Benjamini-Hochberg, 1 after Holm."
    assert many_tests(table) == said
    assert said in Page(claims_section(table)).text
    assert many_tests(made_up_verdicts) == ""


def test_a_claim_without_a_verdict_is_refused(made_up_verdicts) -> None:
    with pytest.raises(FedCoPLError, match="there is no verdict on claim 2, 99; these have one: 1, 3"):
        claim_text(made_up_verdicts.query("number in [1, 3]"), [99, 1, 2])
