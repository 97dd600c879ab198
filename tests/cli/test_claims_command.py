"""``fedcopl-lab claims``: a table for people, a table for Markdown, never an error for lack of runs."""

import re

import pandas as pd
import pytest

from fedcopl_lab.cli import _claims, main
from fedcopl_lab.paper import verdicts


@pytest.fixture
def committed(monkeypatch) -> pd.DataFrame:
    """One claim judged, the others not; made up."""
    table = verdicts("smoke", numbers=[1, 50])
    table.loc[0, ["verdict", "statistic", "note"]] = ["does not hold", "-1.0 points [-2.0, -0.1]", "a | b"]
    monkeypatch.setattr(_claims, "measured_claims", lambda profile: table)
    return table


def test_without_runs_every_claim_is_listed_as_not_tested(capsys):
    assert main(["claims", "--stored"]) == 0
    shown = capsys.readouterr().out
    assert "profile smoke, judged on the runs stored here" in shown
    assert "FedCoPL: 45 not tested" in shown
    assert "SAGE: 38 not tested" in shown
    assert "\033" not in shown, "colour is for terminals"
    assert len(re.findall(r"^ *\d+  not tested", shown, flags=re.M)) == 83


def test_committed_verdicts_come_first(capsys, committed):
    assert main(["claims"]) == 0
    shown = capsys.readouterr().out
    assert "profile smoke, committed verdicts" in shown
    assert "FedCoPL: 1 does not hold" in shown
    assert "-1.0 points [-2.0, -0.1]" in " ".join(shown.split())


def test_a_terminal_gets_colour_and_the_word(capsys, committed, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert main(["claims", "--paper", "fedcopl"]) == 0
    assert "\033[31mdoes not hold" in capsys.readouterr().out


def test_an_unknown_profile_is_one_line(capsys):
    assert main(["claims", "--profile", "smok"]) == 2
    assert "did you mean 'smoke'" in capsys.readouterr().err


@pytest.mark.parametrize("option", [[], ["--stored"]])
def test_gates_are_listed_with_place_number_and_limit(capsys, option):
    assert main(["claims", "--gates", *option]) == 0
    shown = capsys.readouterr().out
    assert ("stored runs, committed ones for the rest" in shown) == bool(option)
    assert re.search(r"^C  \w+ +β = 0\.1: CoPL minus CPL on the real CLIP \d.*at least 0\), n = 3$", shown, flags=re.M)
    assert re.search(r"^D  .*digits, α = 0\.1: mean λ on confident views \d[\d.]* \(at", shown, flags=re.M)


def test_gates_of_one_paper(capsys):
    for paper, wanted in (("fedcopl", "ABC"), ("sage", "D")):
        assert main(["claims", "--gates", "--paper", paper]) == 0
        assert {line[0] for line in capsys.readouterr().out.splitlines()[1:]} == set(wanted)
