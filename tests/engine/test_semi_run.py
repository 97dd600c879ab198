"""SAGE's runs: rows say what ``sage_row.toml`` promises, the log changes no number, a stored run predicts."""

import json
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import fedcopl_lab as lab
from fedcopl_lab.methods import open_method
from fedcopl_lab.store import Store

ROW_KEYS = tomllib.loads((Path(lab.__file__).parent / "methods/sage_row.toml").read_text("utf-8"))
SHORT = {
    "rounds": 3, "width": 0.25, "n_probe": 20, "steps_per_epoch": 3, "threshold": 0.5, "participation": 0.1,
    "n_clients": 20, "unlabelled_batch_size": 16, "labelled_per_class": None, "clients_per_forward": 1,
}  # fmt: skip


def config_of(method="SAGE", **changes):
    return lab.configure("smoke", method=method, **{**SHORT, **changes})


def keys_of(value, prefix=""):
    """All keys of a row with dots; per-client lists are leaves."""
    for key, inner in value.items():
        name = prefix + ("loss_*" if key.startswith("loss_") else key)
        if isinstance(inner, dict):
            yield from keys_of(inner, name + ".")
        else:
            yield name


def test_a_row_has_the_documented_keys_and_is_small(tmp_path):
    run = lab.run(config_of(), Store(tmp_path), progress=False)
    for row in run.records():
        assert set(keys_of(row)) == set(ROW_KEYS)
        assert len(json.dumps(row)) < 10_000
    plain = lab.run(config_of("FedAvg"), Store(tmp_path), progress=False).records()[-1]
    assert set(keys_of(plain)) < set(ROW_KEYS)
    assert "local" not in plain
    alone = lab.run(config_of("FixMatch-LPL", log_both=False), Store(tmp_path), progress=False).records()[-1]
    assert "local" in alone
    assert "global" not in alone
    assert len(run.clients) == 3 * 20
    assert run.clients["n_pool"].notna().sum() == 3 * 2


def test_the_log_of_the_global_model_changes_no_number(tmp_path):
    logged, bare = (
        lab.run(config_of("FixMatch-LPL", log_both=both), Store(tmp_path), progress=False) for both in (True, False)
    )
    assert all(torch.equal(v, bare.load_state()[n]) for n, v in logged.load_state().items())


@pytest.mark.parametrize("together", [1, 4])
def test_runs_in_two_threads_are_those_of_one_after_the_other(tmp_path, together):
    configs = [config_of(seed=seed, clients_per_forward=together) for seed in (0, 1)]
    with ThreadPoolExecutor(2) as pool:
        beside = list(pool.map(lambda config: lab.run(config, Store(tmp_path / "threads"), progress=False), configs))
    for config, run in zip(configs, beside, strict=True):
        assert run.records() == lab.run(config, Store(tmp_path / "alone"), progress=False).records()


def test_how_many_images_the_log_reads_changes_no_model(tmp_path):
    few, none = (lab.run(config_of(n_probe=n), Store(tmp_path), progress=False) for n in (20, 0))
    assert all(torch.equal(v, none.load_state()[n]) for n, v in few.load_state().items())
    assert "end_accuracy" in few.clients.columns
    assert "end_accuracy" not in none.clients.columns
    assert none.clients["n_pool"].notna().any()
    assert ["ensemble" in run.records()[0] for run in (few, none)] == [True, False]


def test_the_log_reads_fixed_images_of_a_large_pool_and_all_of_a_small_one():
    few, all_ = (open_method(config_of(n_probe=n)).setting for n in (20, 1000))
    pool, chosen = few.pool(3).tolist(), few.scored_pool(3).tolist()
    assert len(set(chosen)) == 20
    assert set(chosen) < set(pool)
    assert chosen != pool[:20]
    assert chosen == few.scored_pool(3).tolist()
    assert all_.scored_pool(3).tolist() == pool


@pytest.mark.parametrize("changes", [{}, {"bn": "local"}])
def test_a_stored_run_predicts_as_it_was_tested(tmp_path, changes):
    run = lab.run(config_of(**changes), Store(tmp_path), progress=False)
    dataset = lab.load_dataset("digits")
    images, labels = dataset.images[dataset.test_indices], dataset.test_labels
    absent = next(k for k in range(20) if all(k not in row["participants"] for row in run.records()))
    assert float((run.predict(images, absent) == labels).double().mean()) == run.result["accuracy"]
    took_part = run.records()[-1]["participants"][0]
    assert torch.equal(run.predict(images, took_part), run.predict(images, absent)) == (not changes)
    with pytest.raises(lab.FedCoPLError, match=r"images are uint8 1x3x9x9; .* takes uint8 nx3x8x8: resize them"):
        run.predict(torch.zeros(1, 3, 9, 9, dtype=torch.uint8))
    with pytest.raises(lab.FedCoPLError, match="client=20 does not exist; expected 0 to 19"):
        run.predict(images, 20)
    with pytest.raises(lab.FedCoPLError, match="images are a ndarray; give a tensor"):
        run.predict(images.numpy())
    assert run.predict(images[:0]).tolist() == []
    with pytest.raises(lab.FedCoPLError, match="trains a model, not prompts; load_state"):
        run.load_prompts()
