"""A few of everything that ``make stress`` does, each part in a process of its own."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="forks and reads /proc")
@pytest.mark.parametrize(
    "part", ["determinism", "kills", "faults", "fuzz", pytest.param("ray", marks=pytest.mark.cluster)]
)
def test_a_few_of_everything(part, tmp_path):
    if part == "ray":
        pytest.importorskip("ray", reason="the extra cluster is not installed")
    table = tmp_path / "found.csv"
    arguments = [sys.executable, str(HERE), "--short", "--parts", part, "--out", str(table)]
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1])}
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=900, env=environment)
    assert ended.returncode == 0, f"{ended.stdout[-3000:]}{ended.stderr[-2000:]}"
    with open(table, encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    counted = [row for row in found if row["expected"]]
    assert counted
    assert all(row["passed"] == "yes" for row in counted)
