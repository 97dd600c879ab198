"""What is written to disk: complete, the same bytes twice, honest about its origin, and safe to open."""

import json
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from fedcopl_lab import FedCoPLError
from fedcopl_lab.paper import ITEMS, claims, find_items
from fedcopl_lab.report import _page, draw, save_item, write_report
from fedcopl_lab.report._page_tables import measured_table, printed_tables
from fedcopl_lab.report.looks import file_bytes

VOID = {"meta", "link", "img", "br", "hr", "input", "source"}


class Page(HTMLParser):
    """Collects tags and text, and fails on tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.words, self.open = [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


KINDS = [*{item.drawing: item for item in reversed(ITEMS)}.values()]


@pytest.mark.parametrize("item", KINDS, ids=lambda item: item.id)
def test_every_kind_of_item_has_its_files(item, all_numbers, all_runs, tmp_path) -> None:
    paths = save_item(item, all_numbers[item.id], all_runs, tmp_path / "a" / "b")
    expected = {"pdf", "png", "json", "caption.txt"} | ({"csv"} if item.reads != "nothing" else set())
    expected |= {"tex"} if item.reads in ("final", "first") else set()
    assert {path.name for path in paths} == {f"{item.id}.{suffix}" for suffix in expected}


def test_provenance_names_runs_seeds_and_command(all_numbers, all_runs, tmp_path) -> None:
    save_item("fedcopl_main_table6", all_numbers["fedcopl_main_table6"], all_runs, tmp_path)
    origin = json.loads((tmp_path / "fedcopl_main_table6.json").read_text())
    assert origin["command"] == "fedcopl-lab reproduce --items fedcopl_main_table6"
    assert origin["seeds"] == [0, 1, 2]
    assert origin["n_runs"] == 12 == len(origin["run_keys"])
    assert origin["profile"] == "smoke"
    assert origin["dataset"] == ["digits"]


def test_numbers_without_their_runs_are_refused(all_numbers, all_runs, tmp_path) -> None:
    numbers = all_numbers["fedcopl_main_table6"]
    with pytest.raises(FedCoPLError, match="12 runs behind fedcopl_main_table6 are not in the run table"):
        save_item("fedcopl_main_table6", numbers, all_runs.head(0), tmp_path)
    with pytest.raises(FedCoPLError, match="the runs lack the columns hardware"):
        save_item("fedcopl_main_table6", numbers, all_runs.drop(columns="hardware"), tmp_path)
    assert not list(tmp_path.iterdir())


SHOWN = find_items(["fedcopl_main_table1", "fedcopl_main_table4", "fedcopl_supp_table1", "fedcopl_supp_table2",
                    "fedcopl_main_fig2", "fedcopl_main_fig3", "sage_supp_eq18"])  # fmt: skip
"""Tables of one and of three models, of counts, and pictures with runs and without."""


@pytest.fixture(scope="module")
def full_report(all_numbers, all_runs, tmp_path_factory):
    return write_report(tmp_path_factory.mktemp("report"), SHOWN, all_numbers, all_runs, "smoke")


def test_the_report_is_one_well_formed_file_that_needs_nothing_else(full_report) -> None:
    path, html = full_report, full_report.read_text(encoding="utf-8")
    page = Page(html)
    assert path.name == "report.html"
    assert page.all("script") == [{"type": "application/json", "id": "cells"}, {}], "its own, in the file"
    outside = [value for _, attrs in page.tags for name, value in attrs.items() if name in ("src", "href")]
    assert all(value.startswith(("data:", "#")) for value in outside)
    assert "http" not in re.sub(r"base64,[^\"]*", "", html)
    assert all(len(attrs["alt"]) > 20 for attrs in page.all("img"))
    assert len(page.all("img")) == len(SHOWN)
    targets = {attrs["href"][1:] for attrs in page.all("a")}
    assert targets == {item.id for item in SHOWN} | {"paper-and-code", "run-in-mini", "contents"}
    assert targets <= {attrs.get("id") for _, attrs in page.tags}


def test_times_of_runs_change_no_tracked_file(all_numbers, all_runs, tmp_path) -> None:
    name = "fedcopl_main_table6"
    for folder, runs in (("a", all_runs), ("b", all_runs.assign(seconds=all_runs["seconds"] + 7.7))):
        save_item(name, all_numbers[name], runs, tmp_path / folder)
        write_report(tmp_path / folder, find_items([name]), all_numbers, runs)
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / part).iterdir()} for part in "ab")
    assert len(first) == 7
    assert first == second


def test_an_item_is_drawn_once_however_often_the_page_is_written(tmp_path, all_numbers, all_runs, monkeypatch) -> None:
    drawn, entry, names = [], _page._drawn_entry, ["fedcopl_main_table6", "fedcopl_supp_table1"]
    monkeypatch.setattr(_page, "_drawn", {})
    monkeypatch.setattr(_page, "_drawn_entry", lambda item, *rest: drawn.append(item.id) or entry(item, *rest))
    for number, shown in enumerate((names[:1], names[::-1], names[::-1])):
        runs = all_runs.sample(frac=1.0, random_state=number).reset_index(drop=True)
        write_report(tmp_path, find_items(shown), {name: all_numbers[name] for name in shown}, runs)
    assert sorted(drawn) == sorted(names)


def test_headings_step_down_one_at_a_time(full_report) -> None:
    page = Page(full_report.read_text(encoding="utf-8"))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_report_is_honest_about_what_it_shows(full_report) -> None:
    text = Page(full_report.read_text(encoding="utf-8")).text
    assert "These are smoke numbers." in text
    assert "No accuracy with OpenAI's CLIP was measured" in text
    assert "Measured here: smoke: handwritten digits, tiny CLIP; mean ± std, 3 seeds" in text
    for model in ("ViT-B/32", "ViT-B/16", "RN50"):
        assert f"Printed in the paper: accuracy (%), {model}" in text
    assert "Not run in this profile: K = 50: no draw of 1,001" in text
    assert "fedcopl-lab reproduce --items fedcopl_main_table1" in text
    for item in SHOWN:
        assert item.question in text
        for sentence in item.differs:
            assert sentence in text


@pytest.mark.usefixtures("words_only")
def test_places_of_the_first_screen_follow_the_numbers(made_up, all_runs, tmp_path) -> None:
    (item,) = find_items(["fedcopl_main_table1"])
    numbers = made_up(item.id)
    accuracy = numbers["metric"] == "accuracy"
    paper = claims("fedcopl", "main Table 1", dataset="Average", beta=0.1)
    order = paper.sort_values("value_number")
    rows = ["FedCoPL" if m == "FedCoPL" else "Zero-shot CLIP" if m == "zero-shot" else f"{m} + {labels}"
            for m, labels in zip(order["method"], order["labeller"], strict=True)]  # fmt: skip
    level = {row: 0.60 + 0.02 * place for place, row in enumerate(rows)}
    numbers.loc[accuracy, "value"] = numbers.loc[accuracy, "series"].map(level)
    text = Page(write_report(tmp_path, [item], numbers, all_runs).read_text(encoding="utf-8")).text
    assert f"FedCoPL is 2.0 points ahead of the best other row ({rows[-2]})" in text
    assert "The order of the rows is the same." in text
    assert "FedCoPL 78.0 ± 0.0 1 72.5 1" in text  # the paper's average of its six sets: 72.49
    numbers.loc[accuracy & (numbers["series"] == "FedCoPL"), "value"] = 0.6
    text = Page(write_report(tmp_path, [item], numbers, all_runs).read_text(encoding="utf-8")).text
    assert "16.0 points behind" in text
    assert "The order of the rows is not the same." in text
    # a row whose only seed is an easy one has the highest mean, and no better place at that seed
    numbers.loc[accuracy, "value"] = numbers.loc[accuracy, "series"].map(level) + 0.05 * numbers.loc[accuracy, "seed"]
    few = numbers[(numbers["series"] != rows[-2]) | (numbers["seed"] == 2)]
    text = Page(write_report(tmp_path, [item], few, all_runs).read_text(encoding="utf-8")).text
    assert "FedCoPL 83.0 ± 5.0 1 72.5 1" in text
    assert f"{rows[-2]} 86.0 2 " in text


@pytest.mark.usefixtures("words_only")
def test_markup_in_a_name_stays_text(made_up, all_runs, tmp_path) -> None:
    numbers = made_up("fedcopl_main_table6")
    evil = "<script>alert(1)</script>"
    numbers.loc[numbers["series"] == "neither", "series"] = evil
    runs = all_runs.assign(hardware='"><img src=x onerror=alert(1)>')
    html = write_report(tmp_path, find_items(["fedcopl_main_table6"]), numbers, runs).read_text(encoding="utf-8")
    page = Page(html)
    assert len(page.all("script")) == 2
    assert len(page.all("img")) == 1
    assert evil in page.text


def test_files_that_lie_beside_the_page_can_be_taken_from_it(all_numbers, all_runs, tmp_path) -> None:
    name = "fedcopl_main_table6"
    paths = save_item(name, all_numbers[name], all_runs, tmp_path)
    page = Page(write_report(tmp_path, find_items([name]), all_numbers, all_runs).read_text(encoding="utf-8"))
    assert {attrs["href"] for attrs in page.all("a") if "download" in attrs} == {path.name for path in paths}


def test_every_measured_number_says_where_it_comes_from(all_numbers, all_runs, full_report) -> None:
    html = full_report.read_text(encoding="utf-8")
    known = json.loads(re.search(r'id="cells">(.*?)</script>', html, flags=re.S)[1])
    shown = [attrs["data-cell"] for attrs in Page(html).all("button") if "data-cell" in attrs]
    there = {name for cells in known["cells"].values() for name in cells}
    assert len(shown) > 200
    assert {cell for cell in shown if not cell.endswith(" / manifest")} <= there
    numbers = all_numbers["fedcopl_main_table1"].query("series == 'FedCoPL' and column == 'β = 0.05'")
    cell = known["cells"]["fedcopl_main_table1"]["FedCoPL / β = 0.05"]
    assert set(cell["runs"]) == set(numbers["key"])
    assert cell["config"] == "fedcopl-lab run --profile smoke --method FedCoPL --set beta=0.05"
    seed, machine = known["runs"][cell["runs"][0]]
    assert seed == 0
    assert known["machines"][machine] == ["a machine, 1 thread(s)", "numpy=2.0"]


@pytest.mark.usefixtures("words_only")
def test_a_lead_within_noise_is_not_told_as_one(made_up, all_runs, tmp_path) -> None:
    (item,) = find_items(["fedcopl_main_table1"])
    numbers = made_up(item.id)
    numbers["value"] = 0.5 + 0.1 * numbers["seed"]
    own = numbers["series"] == "FedCoPL"
    for change in (0.01, 0.0):
        own_numbers = numbers.assign(value=numbers["value"] + own * (0.05 + change * (numbers["seed"] - 1) * 9))
        html = write_report(tmp_path, [item], own_numbers, all_runs).read_text(encoding="utf-8")
        card = Page(html[(start := html.index('class="card"') - 5) : html.index("</p>", start) + 4] + "</div>")
        assert ("within noise" in card.text) == bool(change)
        assert ("points ahead of</strong>" in html) == (not change)


@pytest.mark.usefixtures("words_only")
def test_another_profile_is_named_and_has_no_smoke_banner(all_numbers, all_runs, tmp_path) -> None:
    name = "fedcopl_main_table6"
    numbers = {name: all_numbers[name].assign(profile="paper")}
    text = Page(write_report(tmp_path, find_items([name]), numbers, all_runs, "paper").read_text("utf-8")).text
    assert "These are smoke numbers" not in text
    assert "profile paper" in text
    assert "--profile paper" in text


def test_every_printed_number_stands_in_the_report_with_what_was_run(all_numbers) -> None:
    for item in ITEMS:
        known = claims(item.id.split("_")[0], item.source) if item.source in set(claims()["item"]) else None
        tables = printed_tables(item, all_numbers[item.id])
        if known is None:
            assert not tables
            continue
        cells = [cell for one in tables for _, cells in one.rows for cell in cells]
        shown = Counter(float(cell.replace(",", "")) for cell in cells if cell != "–")
        assert shown == Counter(known["value_number"].dropna())
        for one in tables:
            assert sum(span for _, span in one.status) == len(one.columns)
            expected = "counted above" if item.reads == "manifests" else "not run in this profile"
            assert {state for state, _ in one.status} == {expected}


def test_a_printed_column_that_was_run_says_so(made_up) -> None:
    (item,) = find_items(["fedcopl_main_table1"])
    numbers = made_up(item.id, seeds=(0,), profile="paper")
    (whole,) = printed_tables(item, numbers)
    assert whole.status == [("measured above", 2)] * 7
    some = numbers[~((numbers["column"] == "CUB, β = 0.05") | (numbers["column"] == "DTD, β = 0.1"))]
    some = some[(some["column"] != "UCF101, β = 0.1") | (some["series"] != "FedCoPL")]
    (part,) = printed_tables(item, some)
    states = [state for state, span in part.status for _ in range(span)]
    run, missing, partly = "measured above", "not run in this profile", "partly measured above"
    assert states == [missing, run, run, run, run, missing, partly, run, run, run, run, run, partly, partly]


def test_a_table_with_many_holes_is_listed_line_by_line(all_numbers) -> None:
    numbers = all_numbers["fedcopl_ours_uploads"]
    listed = measured_table(find_items(["fedcopl_ours_uploads"])[0], numbers, ["upload_distance", "accuracy"])
    assert listed.columns == ["distance of the upload from the true class shares", "accuracy, mean over clients (%)"]
    assert [name for name, _ in listed.rows][:5] == [
        "counts as they are, no ε",
        "each count × (1 ± 0.5), no ε",
        "all counts equal, no ε",
        "clients shuffled, no ε",
        "Laplace noise, 0.1",
    ]
    assert len(listed.rows) == 14


def test_an_empty_report_is_refused(all_numbers, all_runs, tmp_path) -> None:
    with pytest.raises(FedCoPLError, match="no item to report"):
        write_report(tmp_path, [], all_numbers, all_runs)


def test_an_edge_on_half_a_pixel_lands_on_the_same_side_each_time(all_numbers) -> None:
    item = find_items(["fedcopl_supp_table5"])[0]
    assert len({file_bytes(draw(item, all_numbers[item.id]), "png") for _ in range(12)}) == 1
