"""What is written to disk: complete, the same bytes twice, honest about its origin, and safe to open."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from fedcopl_lab import FedCoPLError
from fedcopl_lab.paper.items import ITEMS, find_items
from fedcopl_lab.report import save_item, write_report

VOID = {"meta", "link", "img", "br", "hr", "input"}


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


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.id)
def test_every_item_has_its_files_and_they_come_out_the_same(item, all_numbers, all_runs, tmp_path) -> None:
    paths = save_item(item, all_numbers[item.id], all_runs, tmp_path / "a" / "b")
    expected = {"pdf", "png", "json"} | ({"csv"} if item.reads != "nothing" else set())
    expected |= {"tex"} if item.reads == "final" else set()
    assert {path.name for path in paths} == {f"{item.id}.{suffix}" for suffix in expected}
    again = save_item(item.id, all_numbers[item.id], all_runs, tmp_path / "again")
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]


def test_provenance_names_runs_seeds_and_command(all_numbers, all_runs, tmp_path) -> None:
    save_item("fedcopl_main_table6", all_numbers["fedcopl_main_table6"], all_runs, tmp_path)
    origin = json.loads((tmp_path / "fedcopl_main_table6.json").read_text())
    assert origin["command"] == "fedcopl-lab reproduce --items fedcopl_main_table6"
    assert origin["seeds"] == [0, 1, 2]
    assert origin["n_runs"] == 12 == len(origin["run_keys"])
    assert origin["total_run_seconds"] == 18.0
    assert origin["profile"] == "smoke"
    assert origin["dataset"] == ["digits"]


def test_numbers_without_their_runs_are_refused(all_numbers, all_runs, tmp_path) -> None:
    numbers = all_numbers["fedcopl_main_table6"]
    with pytest.raises(FedCoPLError, match="12 runs behind fedcopl_main_table6 are not in the run table"):
        save_item("fedcopl_main_table6", numbers, all_runs.head(0), tmp_path)
    with pytest.raises(FedCoPLError, match="the runs lack the columns seconds"):
        save_item("fedcopl_main_table6", numbers, all_runs.drop(columns="seconds"), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def full_report(all_numbers, all_runs, tmp_path_factory):
    return write_report(tmp_path_factory.mktemp("report"), ITEMS, all_numbers, all_runs, "smoke")


def test_the_report_is_one_well_formed_file_that_needs_nothing_else(
    full_report, all_numbers, all_runs, tmp_path
) -> None:
    path, html = full_report, full_report.read_text(encoding="utf-8")
    page = Page(html)
    assert path.name == "report.html"
    assert not page.all("script")
    outside = [value for _, attrs in page.tags for name, value in attrs.items() if name in ("src", "href")]
    assert all(value.startswith(("data:", "#")) for value in outside)
    assert "http" not in re.sub(r"base64,[^\"]*", "", html)
    assert all(len(attrs["alt"]) > 20 for attrs in page.all("img"))
    assert len(page.all("img")) == len(ITEMS)
    targets = {attrs["href"][1:] for attrs in page.all("a")}
    assert targets == {item.id for item in ITEMS} | {"paper-and-code"}
    assert targets <= {attrs.get("id") for _, attrs in page.tags}
    again = write_report(tmp_path / "again", ITEMS, all_numbers, all_runs, "smoke")
    assert again.read_bytes() == path.read_bytes()


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
    assert "Printed in the paper: accuracy (%), CLIP ViT-B/32" in text
    assert "fedcopl-lab reproduce --items fedcopl_main_table1" in text
    for item in ITEMS:
        assert item.question in text
        for sentence in item.differs:
            assert sentence in text


def test_places_of_the_first_screen_follow_the_numbers(made_up, all_runs, tmp_path) -> None:
    (item,) = find_items(["fedcopl_main_table1"])
    numbers = made_up(item.id)
    level = {"Zero-shot CLIP": 0.7, "PromptFL + FPL": 0.72, "PromptFL + CoPL": 0.74, "FedCoPL": 0.78}
    accuracy = numbers["metric"] == "accuracy"
    numbers.loc[accuracy, "value"] = numbers.loc[accuracy, "series"].map(level)
    text = Page(write_report(tmp_path, [item], numbers, all_runs).read_text(encoding="utf-8")).text
    assert "FedCoPL is 4.0 points ahead of the best other row (PromptFL + CoPL)" in text
    assert "The order of the rows is the same." in text
    assert "FedCoPL 78.0 ± 0.0 1 72.3 1" in text  # the paper's mean over its five common sets: 72.28
    numbers.loc[accuracy & (numbers["series"] == "FedCoPL"), "value"] = 0.6
    text = Page(write_report(tmp_path, [item], numbers, all_runs).read_text(encoding="utf-8")).text
    assert "14.0 points behind" in text
    assert "The order of the rows is not the same." in text


def test_markup_in_a_name_stays_text(made_up, all_runs, tmp_path) -> None:
    numbers = made_up("fedcopl_main_table6")
    evil = "<script>alert(1)</script>"
    numbers.loc[numbers["series"] == "neither", "series"] = evil
    runs = all_runs.assign(hardware='"><img src=x onerror=alert(1)>')
    html = write_report(tmp_path, find_items(["fedcopl_main_table6"]), numbers, runs).read_text(encoding="utf-8")
    page = Page(html)
    assert not page.all("script")
    assert len(page.all("img")) == 1
    assert evil in page.text


def test_a_report_of_the_overview_alone_needs_no_runs(all_numbers, all_runs, tmp_path) -> None:
    items = find_items(["fedcopl_main_fig1"])
    path = write_report(tmp_path, items, {"fedcopl_main_fig1": all_numbers["fedcopl_main_fig1"]}, all_runs.head(0))
    Page(path.read_text(encoding="utf-8"))


def test_another_profile_is_named_and_has_no_smoke_banner(all_numbers, all_runs, tmp_path) -> None:
    name = "fedcopl_main_table6"
    text = Page(write_report(tmp_path, find_items([name]), all_numbers, all_runs, "paper").read_text("utf-8")).text
    assert "These are smoke numbers" not in text
    assert "profile paper" in text
    assert "--profile paper" in text


def test_an_empty_report_is_refused(all_numbers, all_runs, tmp_path) -> None:
    with pytest.raises(FedCoPLError, match="no item to report"):
        write_report(tmp_path, [], all_numbers, all_runs)


def test_report_and_paper_never_load_torch() -> None:
    code = "import fedcopl_lab.report, fedcopl_lab.paper, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
