"""Runs: the same seed gives the same bytes, also when resumed; tests/stress kills them and asks for one at a time."""

import math
import shutil

import pytest
import torch
from stored_bytes import promised_bytes

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.store import Store

SHORT = {"dataset": "digits:600", "rounds": 3, "local_epochs": 1, "refresh_every": 2}
SAGE = {
    "method": "SAGE", "rounds": 3, "width": 0.25, "n_probe": 20, "steps_per_epoch": 3, "threshold": 0.5,
    "participation": 0.2,
}  # fmt: skip
LONG = pytest.mark.long


@pytest.fixture(scope="module")
def short_run(tmp_path_factory):
    """One run that tests only read."""
    return lab.run(lab.configure("smoke", **SHORT), Store(tmp_path_factory.mktemp("runs")), progress=False)


@pytest.fixture
def copied(short_run, store):
    """The same run in the test's own store, to be damaged."""
    shutil.copytree(short_run.path, store.root / short_run.key)
    return store.run(short_run.key)


def short(changes):
    """A run of either paper."""
    return {**({} if changes.get("method") == "SAGE" else SHORT), **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"method": "zero-shot", "rounds": 0},
        {"mode": "authors"},
        SAGE,
        *(
            pytest.param(changes, marks=LONG)
            for changes in (
                {"method": "PromptFL"},
                {"momentum_state": "per_client", "participation": 0.5},
                {"allocation": "none", "aggregate": "none", "relabel_with": "local"},
                {"filter_scope": "global", "unseen_class": "authors_quota", "lr_schedule": "run", "candidates": "any"},
                {"scheme": "quantity", "refresh_every": 0, "weight_by": "selected", "lr_schedule": "round"},
                {"scheme": "iid", "aggregate": "text", "q_conf": None},
            )
        ),
    ],
)
def test_same_seed_same_bytes_and_another_seed_others(tmp_path, changes):
    config = lab.configure("smoke", **short(changes))
    torch.manual_seed(123)
    first = lab.run(config, Store(tmp_path / "a"), progress=False)
    torch.manual_seed(456)  # a global seed must not matter
    second = lab.run(config, Store(tmp_path / "b"), progress=False)
    assert first.complete
    assert promised_bytes(first) == promised_bytes(second)
    assert len(first.rows) == max(config.rounds, 1)
    other = lab.run(lab.configure("smoke", **short(changes), seed=1), Store(tmp_path / "a"), progress=False)
    assert other.key != first.key
    measured = "loss_supervised" if changes is SAGE else "accuracy"
    assert other.rows[measured].tolist() != first.rows[measured].tolist()


def test_a_stored_run_is_returned_and_not_computed_again(store, copied):
    before = {p: p.stat().st_mtime_ns for p in copied.path.rglob("*") if p.is_file()}
    again = lab.run(copied.config, store, progress=False)
    assert again.key == copied.key
    assert {p: p.stat().st_mtime_ns for p in again.path.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    ("changes", "stop_after"),
    [
        ({"momentum_state": "per_client"}, 1),
        (SAGE | {"bn": "local"}, 2),
        *(
            pytest.param(changes, after, marks=LONG)
            for changes in ({}, {"mode": "authors"}, {"momentum_state": "per_client"})
            for after in (1, 2)
        ),
        *(pytest.param(SAGE | changes, 2, marks=LONG) for changes in ({}, {"mode": "authors"})),
    ],
)
def test_interrupted_and_resumed_equals_uninterrupted(tmp_path, power_cut, changes, stop_after):
    config = lab.configure("smoke", **short(changes))
    whole = lab.run(config, Store(tmp_path / "whole"), progress=False)
    broken = Store(tmp_path / "broken")
    power_cut(config, broken, stop_after)
    assert promised_bytes(lab.run(config, broken, progress=False)) == promised_bytes(whole)


def test_thread_count_of_the_caller_is_left_alone(store):
    before = torch.get_num_threads()
    lab.run(lab.configure("smoke", method="zero-shot", threads=before + 1), store, progress=False)
    assert torch.get_num_threads() == before


def test_split_prompts_and_predictions_of_a_stored_run(short_run):
    digits, run = lab.load_dataset(SHORT["dataset"]), short_run
    shards = run.split["shards"]
    everyone = sorted(i for shard in shards for part in ("train", "test") for i in shard[part])
    assert everyone == list(range(len(digits)))
    prompts = run.load_prompts()
    assert prompts["text"].shape[0] == prompts["visual"].shape[0] == 5
    assert prompts["server_visual"].shape == prompts["visual"].shape[1:]
    assert "server_text" not in prompts
    instructions = torch.backends.cpu.get_cpu_capability()
    assert run.environment["hardware"].endswith(f", {instructions}"), "rounding depends on them"
    for client, shard in enumerate(shards):
        predicted = run.predict(digits.images[shard["test"]], client)
        accuracy = float((predicted == digits.labels[shard["test"]]).double().mean())
        assert accuracy == run.clients.query("round == 3 and client == @client")["accuracy"].item()
    test = digits.test_indices
    right = [float((run.predict(digits.images[test], k) == digits.labels[test]).double().mean()) for k in range(5)]
    assert run.result["accuracy_global"] == pytest.approx(sum(right) / 5, abs=1e-12)
    with pytest.raises(FedCoPLError, match="client=5"):
        run.predict(digits.images[:1], 5)
    assert run.predict(digits.images[:0]).tolist() == []


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "FedOTP"},
        *(pytest.param(changes, marks=LONG) for changes in ({"method": "pFedPrompt"}, {"modalities": "text"})),
        pytest.param({"modalities": "visual"}, marks=LONG),
    ],
)
def test_every_trainer_predicts_from_its_store(store, changes):
    digits = lab.load_dataset(SHORT["dataset"])
    run = lab.run(lab.configure("smoke", **{**SHORT, "rounds": 1, "shots": 2, **changes}), store, progress=False)
    shard = run.split["shards"][1]["test"]
    accuracy = float((run.predict(digits.images[shard], 1) == digits.labels[shard]).double().mean())
    assert accuracy == run.clients.query("client == 1")["accuracy"].item()
    assert ("text_local" in run.load_prompts()) == (changes.get("method") == "FedOTP")


def test_labels_are_made_at_the_rounds_that_the_schedule_names(store, short_run):
    assert list(short_run.label_phases) == [1, 3]
    for refresh, rounds in {0: [1], 1: [1, 2, 3]}.items():
        run = lab.run(lab.configure("smoke", **{**SHORT, "refresh_every": refresh}), store, progress=False)
        assert list(run.label_phases) == rounds


def test_label_counts_of_a_phase_add_up(short_run):
    phase = short_run.label_phases[1]
    train = [shard["train"] for shard in short_run.split["shards"]]
    assert [sum(counts) for counts in phase["true"]] == [len(part) for part in train]
    for chosen, right, quota in zip(phase["selected"], phase["selected_correct"], phase["quota"], strict=True):
        assert all(r <= s <= q for r, s, q in zip(right, chosen, quota, strict=True))
    assert lab.allocate(torch.tensor(phase["filtered"])).quota.tolist() == phase["quota"]


def test_participation_draws_the_stated_number_of_clients(store):
    run = lab.run(lab.configure("smoke", **SHORT, participation=0.5), store, progress=False)
    drawn = [row["participants"] for row in run.records()]
    assert [len(d) for d in drawn] == [2, 2, 2]
    assert len({tuple(d) for d in drawn}) > 1


def test_bytes_sent_follow_from_the_shapes(short_run):
    visual = 4 * 3 * 5 * 64 * 5  # float32, layers x vectors x width, clients
    counts = 8 * 5 * 10  # int64, clients x classes
    assert short_run.rows["bytes_up"].tolist() == [visual + counts, visual, visual + counts]


def test_bad_input_leaves_the_store_as_it_was(store):
    for changes in ({"n_clients": 50}, {"dataset": "cifar11"}, {"clip": "huge"}, {"device": "cuda:99"}):
        with pytest.raises(FedCoPLError):
            lab.run(lab.configure("smoke", **{**SHORT, **changes}), store, progress=False)
    assert not [run for run in store.runs() if run.rounds_done()]


def test_a_resumed_run_reads_its_stored_split_and_draws_none(store, copied, monkeypatch):
    config, run = copied.config, copied
    before = promised_bytes(run)
    (run.path / "result.json").unlink()
    (run.path / "rounds" / "0003.json").unlink()
    state = run.path / "state-0003.safetensors"
    state.unlink()  # as if it had stopped in round 3 with nothing of it stored

    import fedcopl_lab.methods._prompt_setting as setting

    def draws(*_, **__):
        raise AssertionError("a resumed run must not draw its split again")

    monkeypatch.setattr(setting, "partition", draws)
    with pytest.raises(FedCoPLError, match="state-0002"):
        lab.run(config, store, progress=False)
    state.write_bytes(before["state-0003.safetensors"])
    (run.path / "rounds" / "0003.json").write_bytes(before["rounds/0003.json"])
    assert promised_bytes(lab.run(config, store, progress=False)) == before


def test_a_run_goes_on_from_the_round_before_a_damaged_state(store, short_run, monkeypatch):
    config, whole = short_run.config, promised_bytes(short_run)
    with monkeypatch.context() as patch:
        patch.setattr("fedcopl_lab.store.Run.finish", lambda run: None)
        run = lab.run(config, store, progress=False)
    state = run.path / "state-0003.safetensors"
    content = bytearray(state.read_bytes())
    content[-1] ^= 1
    state.write_bytes(content)
    with pytest.warns(UserWarning, match=r"state-0003.*Going on after round 2 instead"):
        assert promised_bytes(lab.run(config, store, progress=False)) == whole


def test_a_lost_row_is_named_before_anything_is_computed(store, short_run, monkeypatch):
    shutil.copytree(short_run.path, own := store.run(short_run.key).path)
    (own / "result.json").unlink()
    (own / "rounds" / "0001.json").unlink()
    monkeypatch.setattr("fedcopl_lab.engine._run.run_rounds", lambda *_: pytest.fail("computed"))
    with pytest.raises(FedCoPLError, match="lacks the row of round 1; remove its run folder"):
        lab.run(short_run.config, store, progress=False)


@LONG
@pytest.mark.parametrize("changes", [{"momentum_state": "per_client"}, {"participation": 0.7, "method": "PromptFL"}])
def test_clients_in_one_forward_pass_give_the_same_run_up_to_rounding(tmp_path, changes):
    """Rounding may flip single predictions later on, so the prompts of the first round are compared."""
    runs = [
        lab.run(
            lab.configure("smoke", **{**SHORT, **changes, "rounds": 1, "clients_per_forward": together}),
            Store(tmp_path / str(together)), progress=False,
        )
        for together in (1, 2, 5)
    ]  # fmt: skip
    assert len({run.key for run in runs}) == 3
    for other in runs[1:]:
        for name, value in runs[0].load_prompts().items():
            assert torch.allclose(other.load_prompts()[name], value, atol=1e-4), name


def test_bf16_training_is_a_run_of_its_own(store, short_run):
    others = [lab.configure("smoke", **SHORT, precision=precision) for precision in ("tf32", "bf16")]
    runs = [short_run, *(lab.run(config, store, progress=False) for config in others)]
    assert len({run.key for run in runs}) == 3
    prompts = [run.load_prompts()["text"] for run in runs]
    assert torch.equal(prompts[0], prompts[1]), "TF32 is a switch of CUDA only"
    assert not torch.equal(prompts[0], prompts[2])
    visual = [run.load_prompts()["visual"] for run in runs]
    assert (visual[0] - visual[2]).abs().max() < 0.1
    assert runs[2].result["accuracy"] == pytest.approx(runs[0].result["accuracy"], abs=0.03)


def test_a_stride_tests_fewer_images_before_the_last_round_and_changes_nothing_else(short_run, store):
    run = lab.run(lab.configure("smoke", **SHORT, test_stride=10), store, progress=False)
    assert run.key != short_run.key
    for row, all_tested in zip(run.records(), short_run.records(), strict=True):
        n_test, everyone = row["clients"]["n_test"], all_tested["clients"]["n_test"]
        last = row["round"] == SHORT["rounds"]
        assert n_test == [n if last else math.ceil(n / 10) for n in everyone]
        assert last == (row == all_tested)
        assert row["loss_last_epoch"] == all_tested["loss_last_epoch"]
    assert all(torch.equal(run.load_state()[name], value) for name, value in short_run.load_state().items())
