"""What goes wrong in a federation: silence, nonsense, doubles, deaths. The rest goes on, and the record says it."""

from dataclasses import replace

import pytest
import torch
from stored_bytes import promised_bytes

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError, aggregate
from fedcopl_lab._files import read_json
from fedcopl_lab.extras.federation import Answer, Journal, Letter, Loopback, collect, serve, split
from fedcopl_lab.store import Store


def only(kind, client, change, round_index=0):
    """Changes one client's answers to one kind of letter, in one round."""

    def meddle(letter, answer):
        hit = (letter.kind, answer.client, letter.round) == (kind, client, round_index)
        return change(answer) if hit else [answer]

    return meddle


def with_tensors(answer, change):
    return [replace(answer, tensors={name: change(value) for name, value in answer.tensors.items()})]


FAULTS = {
    "silence": (lambda a: [], "did not answer in time"),
    "not a number": (lambda a: with_tensors(a, lambda v: v * torch.nan), "values that are no numbers"),
    "another shape": (lambda a: with_tensors(a, lambda v: v[:-1]), "instead of torch.float32 (1, 2, 64)"),
    "another type": (lambda a: with_tensors(a, lambda v: v.double()), "torch.float64"),
    "another tensor": (lambda a: [replace(a, tensors={"text": torch.zeros(2)})], "sent ['text'] instead of ['visual']"),
    "an old round": (lambda a: [replace(a, round=a.round - 1)], "of round -1 instead of train of round 0"),
    "a refusal": (lambda a: [Answer(a.client, a.kind, a.round, refusal="disk full")], "refused: disk full"),
}


@pytest.mark.parametrize(
    "name",
    [name if name in ("silence", "not a number") else pytest.param(name, marks=pytest.mark.long) for name in FAULTS],
)
def test_the_mean_is_of_those_who_answered(small, federated, name):
    change, text = FAULTS[name]
    log, folders = federated(small(rounds=1), meddle=only("train", 1, change))
    row = log.records()[0]
    assert row["participants"] == [0, 1, 2]
    assert row["answered"] == [0, 2]
    assert [(fault["client"], fault["kind"]) for fault in row["faults"]] == [(1, "train")]
    assert text in row["faults"][0]["what"]
    sent = [Journal(folders[1 + k] / "journal").read("train", 0)["visual"] for k in (0, 2)]
    expected = aggregate(torch.stack(sent), torch.tensor(row["weights"]))
    assert torch.equal(log.load_state()["server.visual"], expected)
    with pytest.raises(FedCoPLError, match=r"client 1 .* not those of the run key"):
        collect(folders[0], folders[1:])


def test_a_second_answer_changes_nothing(small, federated):
    whole, _ = federated(small(), "whole")
    log, _ = federated(small(), "twice", only("train", 1, lambda a: [a, with_tensors(a, lambda v: v + 1)[0]]))
    assert torch.equal(log.load_state()["server.visual"], whole.load_state()["server.visual"])
    assert [fault["what"] for fault in log.records()[0]["faults"]] == ["answered twice; the first answer counts"]


def test_an_answer_that_comes_a_round_late_is_left_out(small, federated):
    held = []

    def late(letter, answer):
        if letter.kind == "train" and answer.client == 2 and letter.round == 0:
            held.append(answer)
            return []
        return [*held, answer] if letter.kind == "train" and answer.client == 2 else [answer]

    log, _ = federated(small(), meddle=late)
    first, second = log.records()
    assert first["answered"] == [0, 1]
    assert second["answered"] == [0, 1, 2]
    assert "answered train of round 0 instead of train of round 1" in second["faults"][0]["what"]


def test_who_misses_a_label_phase_sits_out_until_the_next(small, federated):
    config = small(rounds=3, refresh_every=2)
    log, _ = federated(config, meddle=only("score", 0, lambda a: []))
    rows = log.records()
    assert [row["participants"] for row in rows] == [[1, 2], [1, 2], [0, 1, 2]]
    assert rows[0]["n_selected"][0] == 0


def test_no_client_answers(small, federated):
    with pytest.raises(FedCoPLError, match=r"none of the clients \[0, 1, 2\] gave a usable answer to 'train'.*resume"):
        federated(small(), meddle=lambda letter, answer: [] if letter.kind == "train" else [answer])


def dying_after(answers):
    """The server dies after so many answers: the next client has done its work, and its answer is lost."""
    left = answers

    def meddle(letter, answer):
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        return [answer]

    return meddle


def test_no_client_tells_its_accuracy_and_the_rounds_still_stand(small, federated):
    log, folders = federated(small(rounds=1), meddle=lambda letter, a: [] if letter.kind == "evaluate" else [a])
    assert log.complete
    told = read_json(folders[0] / "closing.json")
    assert "none of the clients [0, 1, 2]" in told["error"]
    assert collect(folders[0], folders[1:]).complete


@pytest.mark.long
def test_clients_and_server_may_die_and_come_back_between_two_letters(tmp_path, small, opened, federated):
    config = small(labeller="CoPL", momentum_state="per_client")
    _, folders = federated(config, "whole")
    whole = promised_bytes(collect(folders[0], folders[1:], Store(tmp_path / "whole store")))
    folders = split(config, tmp_path / "broken")
    deaths = 0
    while deaths < 6:
        with pytest.raises(KeyboardInterrupt):
            serve(folders[0], Loopback(opened(config, tmp_path / "broken"), dying_after(deaths)), progress=False)
        deaths += 1
    serve(folders[0], Loopback(opened(config, tmp_path / "broken")), progress=False)
    assert promised_bytes(collect(folders[0], folders[1:], Store(tmp_path / "broken store"))) == whole


@pytest.fixture
def member(tmp_path, small, opened):
    """Client 0 of a federation that has not begun."""
    split(small(), tmp_path)
    return opened(small(), tmp_path)[0]


def test_a_letter_is_obeyed_once(tmp_path, small, opened, monkeypatch, member):
    letter = Letter("score", 0)
    first = member.answer(letter)
    again = opened(small(), tmp_path)[0]
    monkeypatch.setattr(type(again.half), "work", lambda self, letter: pytest.fail("done twice"))
    assert torch.equal(again.answer(letter).tensors["counts"], first.tensors["counts"])


def test_a_letter_of_an_old_round_is_refused(member):
    member.journal.write("train", 3, "ab", {"text": torch.zeros(1)})
    assert member.answer(Letter("score", 1)).refusal == "the letter is of round 1, this client is at 3 already"


def test_a_letter_with_nonsense_is_refused(member):
    bad = {"server.visual": torch.full((1, 2, 64), torch.inf)}
    assert "no numbers" in member.answer(Letter("train", 0, bad)).refusal
    assert "'recalibrate' means nothing to FedCoPL" in member.answer(Letter("recalibrate", 0)).refusal
    assert "missed" in member.answer(Letter("select", 0, {"quota": torch.ones(10, dtype=torch.long)})).refusal


def test_a_folder_without_terms_says_what_writes_them(tmp_path):
    with pytest.raises(FedCoPLError, match="fedcopl-lab federate split"):
        serve(tmp_path, Loopback([]), progress=False)


def test_clients_are_missing_when_files_are_collected(small, federated):
    _, folders = federated(small(rounds=1))
    with pytest.raises(FedCoPLError, match=r"clients \[2\] are missing; give all 3"):
        collect(folders[0], folders[1:3])


@pytest.mark.parametrize(
    ("kind", "change", "text"),
    [
        ("score", lambda a: with_tensors(a, lambda v: v - 1000), "sent counts with counts below 0"),
        ("select", lambda a: [replace(a, numbers={})], "sent selected=None instead of a number from 0 to"),
        ("select", lambda a: [replace(a, numbers={"selected": 10**12})], "sent selected=1000000000000 instead of"),
        ("select", lambda a: [replace(a, numbers={"selected": -1})], "sent selected=-1 instead of"),
    ],
)
def test_numbers_that_cannot_be_are_not_counted(small, federated, kind, change, text):
    log, _ = federated(small(rounds=1), meddle=only(kind, 1, change))
    row = log.records()[0]
    assert row["answered"] == [0, 2]
    assert [(fault["client"], fault["kind"]) for fault in row["faults"]] == [(1, kind)]
    assert text in row["faults"][0]["what"]


def test_a_last_test_without_numbers_does_not_keep_a_federation_open(small, federated):
    def silent_about_tests(letter, answer):
        return [replace(answer, numbers={}) if (letter.kind, answer.client) == ("evaluate", 1) else answer]

    log, folders = federated(small(rounds=1), meddle=silent_about_tests)
    assert log.complete
    assert read_json(folders[0] / "closing.json")["faults"][0]["client"] == 1


@pytest.mark.long
def test_a_label_phase_done_again_trains_again(tmp_path, small, opened):
    """Client 2 misses the scoring, the others train on labels of two clients' quota, and the server dies."""
    config = small(rounds=1)
    folders = split(config, tmp_path / "federation")

    class Dead(Exception):
        pass

    def without_client_2_until_the_end(letter, answer):
        if letter.kind == "train" and answer.client == 0:  # the last of them to answer
            raise Dead
        return [] if (letter.kind, answer.client) == ("score", 2) else [answer]

    with pytest.raises(Dead):
        serve(folders[0], Loopback(opened(config, tmp_path / "federation"), without_client_2_until_the_end), False)
    stale = Journal(folders[1] / "journal").read("train", 0)["visual"]
    serve(folders[0], Loopback(opened(config, tmp_path / "federation")), progress=False)
    assert not torch.equal(Journal(folders[1] / "journal").read("train", 0)["visual"], stale)
    local = lab.run(config, Store(tmp_path / "local"), progress=False)
    collected = collect(folders[0], folders[1:][::-1], Store(tmp_path / "collected"))
    assert promised_bytes(collected) == promised_bytes(local)


def test_a_folder_that_holds_another_federation_is_not_taken_for_this_one(tmp_path, small):
    split(small(rounds=1), tmp_path)
    split(small(rounds=1), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(FedCoPLError, match="holds the files of another federation; choose an empty folder"):
        split(small(rounds=1, lr=0.2), tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_two_servers_do_not_lead_one_federation(tmp_path, small, opened):
    config = small(rounds=1)
    folders = split(config, tmp_path)

    def meanwhile(letter, answer):
        with pytest.raises(FedCoPLError, match="another server leads the federation"):
            serve(folders[0], Loopback(opened(config, tmp_path)), progress=False)
        return [answer]

    assert serve(folders[0], Loopback(opened(config, tmp_path), meanwhile), progress=False).complete


def test_a_journal_that_could_not_do_a_round_again_is_refused(tmp_path):
    with pytest.raises(FedCoPLError, match="keep=1 leaves nothing"):
        Journal(tmp_path, keep=1)
