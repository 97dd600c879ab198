"""Claims of any study from a folder: made-up numbers as a Flower strategy logs them."""

from pathlib import Path

import pandas as pd
import pytest

from fedcopl_lab import FedCoPLError
from fedcopl_lab.cli import main
from fedcopl_lab.paper import judge, read_study

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "example_study"


@pytest.fixture
def study(tmp_path) -> Path:
    """A study of two rows per seed and two rounds."""
    (tmp_path / "study.toml").write_text('settings = ["way"]\nmetrics = ["f1"]\nround = "round"\n')
    (tmp_path / "claims.csv").write_text("number,claim,read,own,other,rule\n1,A beats B,f1,way=A,way=B,difference\n")
    (tmp_path / "results").mkdir()
    rows = [(way, seed, at, 0.5 + 0.1 * (way == "A") * at + 0.01 * seed * (way == "A"))
            for way in "AB" for seed in range(3) for at in (2, 1)]  # fmt: skip
    pd.DataFrame(rows, columns=["way", "seed", "round", "f1"]).to_csv(tmp_path / "results" / "all.csv", index=False)
    return tmp_path


def test_the_last_round_counts_and_the_mean_of_the_last_stands_beside_it(study) -> None:
    _, claims, numbers = read_study(study)
    line = judge(claims, numbers).iloc[0]
    assert (line["verdict"], line["difference"]) == ("holds", pytest.approx(0.2 + 0.01))
    again = judge(claims.assign(read="f1_last5"), numbers).iloc[0]
    assert again["difference"] == pytest.approx(0.15 + 0.01)


def test_the_example_is_judged_with_the_effect_that_it_reports() -> None:
    title, claims, numbers = read_study(EXAMPLE)
    table = judge(claims, numbers).set_index("number")
    assert title == "A made-up study of two strategies"
    assert table["paper_effect"].tolist()[:2] == [3.0, 1.0]
    assert set(table["excludes_paper"]) <= {"yes", "no", ""}
    assert table.loc["1", "verdict"] == "holds"


def test_the_command_judges_a_study_by_its_path_and_from_inside(capsys, study, monkeypatch) -> None:
    monkeypatch.chdir(study)
    for place in (str(study), "."):
        assert main(["claims", "--study", place]) == 0
        assert f"{study.name}: 1 holds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda at: (at / "study.toml").unlink(), "is no study"),
        (lambda at: (at / "claims.csv").unlink(), "expected study.toml and the claims it names"),
        (lambda at: (at / "study.toml").write_text('metrics = "f1"'), "not valid in metrics, settings"),
        (lambda at: (at / "results" / "all.csv").unlink(), "has no results"),
        (lambda at: (at / "study.toml").write_text('settings = ["how"]\nmetrics = ["f1"]'), "lack the columns how"),
    ],
)
def test_what_is_no_study_is_said(study, spoil, message) -> None:
    spoil(study)
    with pytest.raises(FedCoPLError, match=message):
        read_study(study)


def test_runs_that_the_settings_do_not_tell_apart_are_refused(study) -> None:
    rows = pd.read_csv(study / "results" / "all.csv")
    rows.head(2).to_csv(study / "results" / "again.csv", index=False)
    with pytest.raises(FedCoPLError, match=r"several lines have way=A, seed=0, round=.; name more settings"):
        read_study(study)


@pytest.mark.parametrize(("column", "value"), [("round", "final"), ("round", ""), ("f1", "many")])
def test_a_round_or_a_metric_that_is_no_number_is_refused(study, column, value) -> None:
    rows = pd.read_csv(study / "results" / "all.csv")
    rows.tail(1).assign(**{"seed": 99, column: value}).to_csv(study / "results" / "other.csv", index=False)
    with pytest.raises(FedCoPLError, match=rf"no number as {column}; only a metric may be left empty"):
        read_study(study)


@pytest.mark.parametrize("content", [b"", "way\nvoilà".encode("latin-1")])
def test_a_result_file_that_is_no_table_is_named(study, content) -> None:
    (study / "results" / "other.csv").write_bytes(content)
    with pytest.raises(FedCoPLError, match=r"other\.csv has no results"):
        read_study(study)


def test_seeds_may_be_words_and_infinity_is_no_number(study) -> None:
    path = study / "results" / "all.csv"
    rows = pd.read_csv(path)
    rows.assign(seed=rows["seed"].map({0: 0, 1: 1, 2: "two"})).to_csv(path, index=False)
    _, claims, numbers = read_study(study)
    assert judge(claims, numbers)["n_seeds"].item() == 3
    rows.replace({"f1": {rows["f1"].iloc[0]: float("inf")}}).to_csv(path, index=False)
    _, claims, numbers = read_study(study)
    assert judge(claims, numbers)["verdict"].item() == "not tested"


def test_seeds_beside_words_are_numbers_still_and_a_missing_one_is_refused(study) -> None:
    path, other = study / "results" / "all.csv", study / "results" / "other.csv"
    rows = pd.read_csv(path)
    rows.assign(seed=rows["seed"].map({0: "a", 1: "b"})).to_csv(path, index=False)
    with pytest.raises(FedCoPLError, match="has no seed"):
        read_study(study)
    is_a = rows["way"] == "A"
    rows[is_a].to_csv(path, index=False)
    rows[~is_a].assign(seed=rows["seed"].map({0: "0.0", 1: "1", 2: "x"})).to_csv(other, index=False)
    rows[is_a & (rows["seed"] == 2)].assign(seed="x").to_csv(study / "results" / "third.csv", index=False)
    assert judge(*read_study(study)[1:])["n_seeds"].item() == 3
    rows[is_a].astype({"seed": float}).to_csv(other, index=False)  # the same runs again
    with pytest.raises(FedCoPLError, match="read each file once"):
        read_study(study)


@pytest.mark.parametrize("settings", ['["way", "way"]', '["way", "seed"]', '["way", "f1"]', '["value"]'])
def test_a_column_that_is_two_things_is_refused(study, settings) -> None:
    (study / "study.toml").write_text(f'settings = {settings}\nmetrics = ["f1"]\n')
    with pytest.raises(FedCoPLError, match="as a setting or seed and as something else, too"):
        read_study(study)


def test_a_metric_that_is_named_twice_or_is_the_round_is_read_once(study) -> None:
    plain = judge(*read_study(study)[1:])["statistic"].item()
    (study / "study.toml").write_text('settings = ["way"]\nmetrics = ["f1", "f1", "round"]\nround = "round"\n')
    assert judge(*read_study(study)[1:])["statistic"].item() == plain


def test_a_run_without_a_number_in_its_last_round_has_none(study) -> None:
    path = study / "results" / "all.csv"
    rows = pd.read_csv(path)
    rows.loc[(rows["way"] == "A") & (rows["round"] == 2), "f1"] = float("nan")
    rows.to_csv(path, index=False)
    _, claims, numbers = read_study(study)
    for read in ("f1", "f1_last5"):
        assert judge(claims.assign(read=read), numbers)["verdict"].tolist() == ["not tested"]


def test_a_run_that_ends_early_is_said_and_a_file_without_a_column_refused(study) -> None:
    path = study / "results" / "all.csv"
    rows = pd.read_csv(path)
    _, claims, numbers = read_study(study)
    assert "end in the same round" not in judge(claims, numbers)["note"].item()
    rows[(rows["way"] == "B") | (rows["seed"] > 0) | (rows["round"] < 2)].to_csv(path, index=False)
    _, claims, numbers = read_study(study)
    note = judge(claims, numbers)["note"].item()
    assert "do not end in the same round: 1 of them in round 1, 5 of them in round 2." in note
    (study / "study.toml").write_text((study / "study.toml").read_text() + 'results = "results/**/*.csv"\n')
    (study / "results" / "more").mkdir()
    rows.assign(seed=rows["seed"] + 3).to_csv(study / "results" / "more" / "all.csv", index=False)  # the same name
    assert judge(*read_study(study)[1:])["n_seeds"].item() == 6
    rows.rename(columns={"f1": "F1"}).to_csv(study / "results" / "other.csv", index=False)
    with pytest.raises(FedCoPLError, match=r"other\.csv lack the columns f1"):
        read_study(study)


@pytest.mark.parametrize("rivals", ["way=B | way=C", "way=C | way=B"])
def test_a_rival_without_numbers_leaves_a_lead_untested_in_any_order(study, rivals) -> None:
    rows = pd.read_csv(study / "results" / "all.csv")
    other = rows[rows["way"] == "B"].assign(way="C", f1=float("nan"))
    other.to_csv(study / "results" / "c.csv", index=False)
    _, claims, numbers = read_study(study)
    line = judge(claims.assign(other=f"best of {rivals}"), numbers).iloc[0]
    assert (line["verdict"], "C without a number" in line["note"]) == ("not tested", True)
