"""The widget bench moves every explorer once and says what it did."""

import json

import pandas as pd
import pytest

import fedcopl_lab as lab
from fedcopl_lab.cli import main
from fedcopl_lab.extras.bench import bench_widgets, draw_widget_bench


def test_the_command_writes_its_table_and_picture(tmp_path, capsys):
    sizes = ["--clients", "2", "--classes", "3", "--images", "20", "--moves", "2"]
    assert main(["bench", "widgets", *sizes, "--out", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "ours_bench_widgets.csv")
    assert table["widget"].tolist() == ["thresholds", "allocation", "kappa", "partition", "rounds"]
    assert (table["seconds"] > 0).all()
    assert (table["worst"] >= table["seconds"]).all()
    assert (tmp_path / "ours_bench_widgets.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "ours_bench_widgets.json").read_text())["command"] == "fedcopl-lab bench widgets"
    assert "a new figure" in capsys.readouterr().out


def test_bad_sizes_and_tables_are_refused():
    with pytest.raises(lab.FedCoPLError, match="clients=1; expected 2 or more"):
        next(bench_widgets(clients=1))
    with pytest.raises(lab.FedCoPLError, match="lacks"):
        draw_widget_bench(pd.DataFrame({"widget": ["x"]}))
