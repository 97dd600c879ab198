"""Gates: computed from tidy rows, applied where runs come from, told with their numbers; all rows are made up."""

import math

import numpy as np
import pandas as pd
import pytest
from made_up_runs import jitter, rounds
from sage_rows import sage_row

from fedcopl_lab import FedCoPLError
from fedcopl_lab._identity import key_of
from fedcopl_lab.config import PromptConfig, configure
from fedcopl_lab.paper import (
    TIDY_COLUMNS,
    TidyRows,
    _verdicts,
    gate_rows,
    gates,
    judge,
    judged_claims,
    measured,
    verdicts,
    where_reached,
)
from fedcopl_lab.paper._gates import GATE_COLUMNS, failed_gates, place_of
from fedcopl_lab.store import Store

START, TRUE_LABELS = "Prompted, before training", "PromptFL + TRUE LABELS"
SKEWS = ("β = 0.1", "β = 0.05", "quantity")


def tidy(item, series, column, values, metric="accuracy", dataset="digits"):
    """Rows of one cell: one value per seed, or a list over rounds per seed."""
    return pd.DataFrame(
        [
            {"item": item, "series": series, "column": column, "metric": metric, "x": x, "seed": seed, "value": value,
             "dataset": dataset}
            for seed, over in enumerate(values)
            for x, value in enumerate(np.atleast_1d(over))
        ],
        columns=TIDY_COLUMNS,
    )  # fmt: skip


def gate_b(**gains):
    cells = [tidy("fedcopl_ours_gates", START, skew, [0.70, 0.72]) for skew in SKEWS]
    cells += [tidy("fedcopl_ours_gates", TRUE_LABELS, skew, [0.70 + gain, 0.72 + gain]) for skew, gain in gains.items()]
    return gates("smoke", pd.concat(cells))


def test_gains_are_paired_over_seeds_and_each_split_has_its_own_state() -> None:
    table = gate_b(**{"β = 0.1": 0.1, "β = 0.05": 0.05}).query("gate == 'B'").set_index("split")
    assert set(table.reset_index().columns) == set(GATE_COLUMNS)
    others = dict.fromkeys(["quantity", "IID", "β = 0.5", "β = 0.1, tiny-p1", "β = 0.1, tiny-rn"], "not measured")
    assert table["state"].to_dict() == {"β = 0.1": "passed", "β = 0.05": "failed"} | others
    assert table.loc["β = 0.1", "value"] == pytest.approx(10.0)
    assert (table.loc["β = 0.1", "n_seeds"], table.loc["quantity", "n_seeds"]) == (2, 0)
    assert math.isnan(table.loc["quantity", "value"])


def test_the_same_run_in_several_items_counts_once_and_only_common_seeds_pair() -> None:
    rows = pd.concat([
        tidy("fedcopl_ours_gates", START, "β = 0.1", [0.5, 0.6]),
        tidy("fedcopl_main_table1", "Zero-shot CLIP", "β = 0.1", [0.5, 0.6]),
        tidy("fedcopl_ours_controls", TRUE_LABELS, "β = 0.1", [0.7, 0.9, 0.1]),
    ])  # fmt: skip
    line = gates("smoke", rows).query("gate == 'B' and split == 'β = 0.1'").iloc[0]
    assert (line["value"], line["n_seeds"], line["state"]) == (pytest.approx(25.0), 2, "passed")


def test_late_means_over_rounds_are_the_slow_ones_and_a_stored_summary_comes_first() -> None:
    shares = np.random.default_rng(0).uniform(0.0, 1.0, (3, 20))
    rows = tidy("sage_main_fig7", "SAGE", "α = 0.1", shares, "share_cpg")

    def read(rows: pd.DataFrame) -> float:
        table = gates("smoke", rows).query("split == 'α = 0.1' and quantity == 'views above τ in the last third'")
        return float(table["value"].item())

    assert read(rows) == pytest.approx(sum(100 * sum(own[-6:]) / 6 for own in shares) / 3)
    assert read(pd.concat([rows, tidy("sage_ours_gates", "SAGE", "α = 0.1", [0.4, 0.5], "share_cpg")])) == 45.0


def test_the_mean_of_the_last_rounds_comes_before_the_last_round() -> None:
    cells = [("FedAvg", 0.5), ("FedAvg-SL", 0.7)]
    rows = [tidy("sage_ours_gates", name, "α = 1", [value]) for name, value in cells]
    rows += [
        tidy("sage_ours_gates", name, "α = 1", [value - 0.1 * (name == "FedAvg")], "accuracy_last5")
        for name, value in cells
    ]
    table = gates("smoke", pd.concat(rows)).query("split == 'α = 1' and quantity == 'gain with all labels'")
    assert table["value"].item() == pytest.approx(30.0)


def test_gate_c_reads_the_labellers_on_the_real_clip_and_what_is_printed() -> None:
    table = gates("smoke").query("gate == 'C'")
    assert set(table["split"]) == {"β = 0.1", "β = 0.05"}
    assert (table["scope"] == "all").all()
    assert (table["n_seeds"] == 3).all()


def test_a_profile_without_numbers_has_every_gate_unmeasured_but_the_one_on_the_real_clip() -> None:
    table = gates("paper")
    assert set(table.query("gate != 'C'")["state"]) == {"not measured"}
    assert {"cifar100", "svhn"} <= set(table["dataset"])
    with pytest.raises(FedCoPLError, match="did you mean 'smoke'"):
        gates("smok")


def test_every_claim_names_gates_that_exist() -> None:
    known = set(gates("smoke", measured("smoke"))["gate"]) | {"A"}
    assert set("".join(judged_claims()["gates"])) <= known


def test_places_are_data_set_and_split_and_another_encoder_is_another_place() -> None:
    assert place_of(configure("smoke", scheme="quantity")) == ("digits", "quantity")
    assert place_of(configure("smoke", method="SAGE", alpha=0.5)) == ("digits", "α = 0.5")
    assert place_of(configure("smoke", method="SAGE", alpha=0.1, scheme="dirichlet"))[1] == "Dirichlet, α = 0.1"
    assert place_of(configure("smoke", scheme="iid", clip="tiny-rn")) == ("digits", "IID, tiny-rn")


def test_a_failed_gate_is_told_with_place_number_and_limit() -> None:
    table = gate_b(**{"β = 0.1": 0.1, "β = 0.05": 0.0123})
    said = failed_gates(table, "B", [("digits", skew) for skew in (*SKEWS, "IID", "IID, tiny-rn")])
    assert said == {
        ("digits", "β = 0.05"): ["Gate B at digits, β = 0.05: gain with true labels 1.23 points (at least 8 needed)."],
        ("digits", "quantity"): ["Gate B at digits, quantity: gain with true labels not measured."],
        ("digits", "IID"): ["Gate B at digits, IID: gain with true labels not measured."],
        ("digits", "IID, tiny-rn"): ["Gate B is not measured at IID, tiny-rn."],
    }
    assert failed_gates(table, "", [("digits", "IID")]) == {}


def everywhere(config):
    """FedCoPL is five points ahead under each skew."""
    if not isinstance(config, PromptConfig) or config.scheme == "iid":
        return None
    return rounds([60.0, 70.0 + 5 * (config.method == "FedCoPL") + jitter(config)])


@pytest.fixture
def gated(evidence_of, monkeypatch):
    """Gates -> what verdicts say of a claim in a world that is stored."""

    def judged(table, number, world=everywhere):
        runs = evidence_of(world)
        monkeypatch.setattr(_verdicts, "gates", lambda profile, rows: table)
        return verdicts("smoke", runs.store, numbers=[number]).iloc[0]

    return judged


def passing_c(table):
    return table.assign(state=table["state"].where(table["gate"] != "C", "passed"))


def test_a_claim_is_judged_in_the_splits_that_pass_alone(gated) -> None:
    line = gated(passing_c(gate_b(**dict.fromkeys(SKEWS, 0.1))), 12)
    assert (line["verdict"], line["cells"]) == ("holds", 2)
    assert "ate" not in line["note"].replace("label skews", "")
    line = gated(passing_c(gate_b(**{"β = 0.1": 0.1, "β = 0.05": 0.01})), 12)
    assert (line["verdict"], line["cells"]) == ("holds", 1)
    assert "Omitted, as the regime is not reached there: β = 0.05." in line["note"]
    assert "gain with true labels 1 points (at least 8 needed)." in line["note"]


def test_where_no_split_passes_the_regime_is_not_reached_and_the_numbers_stay(gated) -> None:
    line = gated(passing_c(gate_b(**dict.fromkeys(SKEWS, 0.01))), 12)
    assert line["verdict"] == "regime not reached"
    assert line["statistic"].startswith("+5.0 points [")
    assert "Gate B at digits, β = 0.1: gain with true labels 1 points (at least 8 needed)." in line["note"]
    assert line["runs"]
    passing = gate_b(**dict.fromkeys(SKEWS, 0.1))
    line = gated(passing.assign(state=passing["state"].where(passing["gate"] != "C", "failed")), 12)
    assert line["verdict"] == "regime not reached", "gate C decides for all places"


def test_claims_without_gates_or_without_runs_stay_as_they_are(gated) -> None:
    failing = gate_b(**dict.fromkeys(SKEWS, 0.0))
    assert gated(failing, 43)["verdict"] != "regime not reached"
    assert gated(failing, 12, lambda config: None)["verdict"] == "not tested"


def test_sages_gate_goes_by_alpha(gated) -> None:
    def world(config):
        return None if isinstance(config, PromptConfig) else [
            sage_row(n, 0.5 + 0.1 * (config.method == "SAGE") + jitter(config, 0.001)) for n in range(1, 7)
        ]  # fmt: skip

    table = gates("smoke").query("gate == 'D'")
    passed = table.assign(state="passed")
    assert gated(passed, 69, world)["cells"] == 3
    only = passed.assign(state=passed["state"].where(passed["split"] != "α = 1", "failed"))
    assert gated(only, 69, world)["cells"] == 2
    assert gated(table.assign(state="not measured"), 69, world)["verdict"] == "regime not reached"


def test_tables_of_other_experiments_have_no_gates() -> None:
    rows = pd.DataFrame({"seed": [0, 1, 2], "metric": "accuracy", "value": [0.1, 0.2, 0.15]})
    claims = pd.DataFrame([{"number": 1, "claim": "c", "read": "accuracy", "rule": "difference", "gates": "ABCD"}])
    assert judge(claims, TidyRows(rows))["verdict"].item() != "regime not reached"


def test_verdicts_of_a_store_take_its_gate_rows_and_the_committed_ones(tmp_path) -> None:
    assert (verdicts("smoke", Store(tmp_path), numbers=[12])["verdict"] == "not tested").all()


def test_gates_of_runs_with_other_settings_are_not_read_from_the_committed_ones(tmp_path) -> None:
    store = Store(tmp_path)
    assert len(gate_rows("smoke", store))
    assert gate_rows("smoke", store, lr=1e-6).empty
    rows = gate_rows("smoke", store, rounds=2)
    assert set(rows["series"]) <= {"Zero-shot CLIP", START}  # without rounds
    assert set(verdicts("smoke", store, numbers=[1, 12], rounds=2)["verdict"]) == {"not tested"}


def test_a_committed_verdict_whose_regime_is_not_reached_says_so_and_others_stay() -> None:
    one, two = (key_of(configure("smoke", method="FedCoPL", beta=beta)) for beta in (0.1, 0.05))
    numbers = pd.concat(
        tidy("fedcopl_ours_gates", row, split, [value] * 3)
        for split, gained in (("β = 0.1", 0.7), ("β = 0.05", 0.51))
        for row, value in ((START, 0.5), (TRUE_LABELS, gained))
    )
    told = {"number": 12, "verdict": "holds", "note": "Before."}
    verdicts = pd.DataFrame([told | {"runs": keys} for keys in (one, two, f"{one} {two}")])
    verdicts.loc[len(verdicts)] = {"number": 12, "verdict": "not tested", "note": "", "runs": ""}
    found = where_reached(verdicts, numbers.assign(profile="smoke"), "smoke")
    assert found["verdict"].tolist() == ["holds", "regime not reached", "holds", "not tested"]
    assert found["note"][1].startswith("Before. Gate B at digits, β = 0.05: gain with true labels 1 points")
    assert where_reached(found, numbers.assign(profile="smoke"), "smoke").equals(found)


def test_a_place_whose_runs_gave_no_number_does_not_speak_for_a_claim(evidence_of) -> None:
    runs = evidence_of(lambda c: None if (c.method, c.alpha) == ("FixMatch-LPL", 0.5) else [sage_row(1)])
    runs._gates = pd.DataFrame(columns=GATE_COLUMNS)
    pairs = {f"α = {alpha}": ({"method": "SAGE", "alpha": alpha}, {"method": "FixMatch-LPL", "alpha": alpha})
             for alpha in (0.1, 0.5, 1.0)}  # fmt: skip
    runs.gaps(runs.read("accuracy"), pairs)
    assert runs.left_out == ["α = 0.5"]
    assert list(runs.failed_gates("D")) == [("digits", "α = 0.1"), ("digits", "α = 1")]
