"""``fedcopl-lab verify``: one committed cell, computed again; and ``save``: files from the command line."""

import pytest

from fedcopl_lab import FedCoPLError, paper
from fedcopl_lab.cli import _verify, main

CELL = "fedcopl_main_table1 / Zero-shot CLIP / β = 0.1"


def test_a_cell_is_computed_again_and_agrees(capsys):
    assert main(["verify", CELL, "--seeds", "0", "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert "1 runs, seeds 0; they took" in told
    assert "numbers agree" in told


def test_a_difference_is_said_and_fails(capsys, monkeypatch):
    committed = paper.measured("smoke", "fedcopl_main_table1")
    off = committed.assign(value=committed["value"] + 0.05 * (-1.0) ** committed["seed"])  # the means agree
    monkeypatch.setattr(_verify, "measured", lambda profile, item: off)
    assert main(["verify", CELL, "--seeds", "0", "1", "--jobs", "1"]) == 1
    assert "outside the tolerance of 0.01; largest difference 0.05" in capsys.readouterr().out


def test_a_negative_tolerance_is_refused_before_anything_is_computed(capsys):
    with pytest.raises(SystemExit):
        main(["verify", CELL, "--tolerance", "-1"])
    assert "-1 is not valid; expected 0 or more" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "saying"),
    [
        ("fedcopl_main_table1 / FedCopl / β = 0.1", "did you mean"),
        ("fedcopl_main_table1", "there is no cell"),
        ("all", "write one cell as 'ITEM / ROW / COLUMN'"),
        ("fedcopl / a / b", "'fedcopl' names several tables and figures"),
        ("fedcopl_main_fig1 / a / b", "has no runs"),
        ("fedcopl_main_table99 / a / b", "unknown item"),
    ],
)
def test_an_unknown_cell_is_named(name, saying):
    with pytest.raises(FedCoPLError, match=saying):
        _verify.find_cell(name, "smoke")


def test_a_figure_is_saved_from_the_command_line(capsys, tmp_path):
    to = str(tmp_path / "six")
    assert main(["save", "fedcopl_main_table6", to, "--formats", "pdf", "tex", "--width", "single"]) == 0
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["six.caption.txt", "six.pdf", "six.tex"]
    assert capsys.readouterr().out.count("wrote") == 3
