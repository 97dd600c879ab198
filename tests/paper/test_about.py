"""Every claim stands beside an item, and every item with claims exists."""

from fedcopl_lab.paper import CLAIMS_ABOUT, ITEMS, claims_about, judged_claims


def test_every_claim_is_about_some_item_of_its_paper() -> None:
    paper_of = judged_claims().set_index("number")["paper"].to_dict()
    assert {number for numbers in CLAIMS_ABOUT.values() for number in numbers} == set(paper_of)
    for item_id, numbers in CLAIMS_ABOUT.items():
        assert list(numbers) == sorted(set(numbers))
        assert {paper_of[number] for number in numbers} == {item_id.split("_")[0]}


def test_every_item_named_exists_and_others_have_no_claims() -> None:
    assert set(CLAIMS_ABOUT) <= {item.id for item in ITEMS}
    assert any(not claims_about(item) for item in ITEMS)
