"""From the files of a federation, server's and clients', to a stored run: for research, never over the wire."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError, StoreError
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.engine._local import begin
from fedcopl_lab.extras.federation._journal import Journal
from fedcopl_lab.extras.federation._semi_member import EXTRA, MODEL, grouped, losses_of, memory_of, noted_of
from fedcopl_lab.extras.federation._shards import OwnImages, Terms
from fedcopl_lab.methods import FederationState, LabelPhase, PromptMethod, SemiMethod, SemiState
from fedcopl_lab.methods._local_task import ClientUpdate
from fedcopl_lab.methods._semi import exact_convolutions
from fedcopl_lab.steps import LocalUpdate, PseudoLabels, model_scores
from fedcopl_lab.store import Run, Store


def collect(server: Path | str, clients: Sequence[Path | str], store: Store | None = None) -> Run:
    """Make a federation's files a stored run, with the bytes that :func:`fedcopl_lab.run` would have stored.

    The rows of a stored run compare clients with each other and with true labels, which nobody in a real
    federation can; whoever has all folders, as in an experiment, can do it afterwards.

    Args:
        server: the server's folder.
        clients: all clients' folders, their journals whole.
        store: where to put the run; None takes the default store.

    Returns:
        The complete run.

    Raises:
        FedCoPLError: a federation that is not finished, in which something went wrong (its numbers are not
            those of the run key), or whose clients say something else than its server.

    >>> run = collect("federation/server", sorted(Path("federation").glob("client-*")))

    Shown in notebook ``federation``.
    """
    server = Path(server)
    terms, log = Terms.read(server), Run(server / "log")
    if not terms.aligned or terms.secret_noise:
        raise FedCoPLError(
            f"{server} was split with aligned={terms.aligned} and secret_noise={terms.secret_noise}: its numbers are "
            f"not those of the run key to the last byte; read them in {log.path}"
        )
    _check_whole(log)
    journals = _journals(terms, clients)
    store = store or Store()
    with store.locked(terms.key) as stored, torch_threads(terms.config.threads):
        if not stored.complete:
            method = begin(terms.config, stored)
            rounds = _PromptRounds if isinstance(method, PromptMethod) else _SemiRounds
            _store_rounds(rounds(method, journals), stored, log)  # type: ignore[arg-type]
    return stored


def _check_whole(log: Run) -> None:
    if not log.complete:
        raise FedCoPLError(f"{log.path.parent} holds {log.rounds_done()} rounds of an unfinished federation; resume it")
    for row in log.records():
        if row["secure"]:
            raise FedCoPLError(
                "secure aggregation rounds what clients send: these are not the run key's numbers; "
                f"read them in {log.path}"
            )
        if row["faults"]:
            fault = row["faults"][0]
            raise FedCoPLError(
                f"in round {row['round']} client {fault['client']} {fault['what']}: the numbers are not those of the "
                f"run key, so that they cannot be stored under it; read them in {log.path}"
            )


def _journals(terms: Terms, folders: Sequence[Path | str]) -> dict[int, Journal]:
    found = {OwnImages.read(Path(one)).client: Journal(Path(one) / "journal") for one in folders}
    missing = sorted(set(range(terms.n_clients)) - set(found))
    if missing:
        raise FedCoPLError(f"the folders of clients {missing} are missing; give all {terms.n_clients}")
    return dict(sorted(found.items()))


class _PromptRounds:
    def __init__(self, method: PromptMethod, journals: dict[int, Journal]) -> None:
        self.method, self.journals = method, journals

    def replay(self, state: FederationState, answered: list[int]) -> tuple[FederationState, dict[str, Any]]:
        phase: LabelPhase | None = None
        if self.method.labels_are_due(state.round):
            phase = self._phase(state.round)
            state = replace(state, labels=phase.labels, quota=phase.quota)
        updates = {k: self._update(k, state.round) for k in answered}
        return self.method.close_round(state, phase, updates, self.method.kept_momentum(state, updates))

    def shared(self, state: FederationState) -> dict[str, Tensor]:
        return {f"server.{part}": value.cpu() for part, value in state.server.items()}

    def _phase(self, round_index: int) -> LabelPhase:
        logits = [journal.read("score", round_index)["logits"] for journal in self.journals.values()]
        phase = self.method.phase_of(logits, round_index)
        kind = "select" if self.method.config.labeller == "CoPL" else "score"
        for k, journal in self.journals.items():
            own, again = journal.read(kind, round_index), phase.labels[k]
            if not _same(PseudoLabels(own["indices"], own["labels"], own.get("candidates")), again):
                raise StoreError(
                    f"client {k} trained on other pseudo-labels in round {round_index + 1} than its scores give"
                )
        return phase

    def _update(self, client: int, round_index: int) -> LocalUpdate:
        entry = self.journals[client].read("train", round_index)
        return LocalUpdate(
            text=entry["text"],
            visual=entry["visual"],
            text_local=entry.get("text_local"),
            momentum=grouped(entry, "momentum."),
            epoch_losses=tuple(entry["epoch_losses"].tolist()),
            n_samples=int(entry["n_samples"]),
            n_steps=int(entry["n_steps"]),
        )


class _SemiRounds:
    def __init__(self, method: SemiMethod, journals: dict[int, Journal]) -> None:
        self.method, self.journals = method, journals

    def replay(self, state: SemiState, answered: list[int]) -> tuple[SemiState, dict[str, Any]]:
        with exact_convolutions(self.method.config.precision):
            messages = self.method.recipe.message(self.method.setting, state, answered)
            updates = {k: self._update(k, state.round) for k in answered}
            return self.method.close_round(state, messages, updates, {})

    def shared(self, state: SemiState) -> dict[str, Tensor]:
        return {f"model/{name}": value.cpu() for name, value in state.model.items()}

    def _update(self, client: int, round_index: int) -> ClientUpdate:
        entry, setting = self.journals[client].read("train", round_index), self.method.setting
        model = grouped(entry, MODEL)
        probes = setting.images[setting.probes]
        return ClientUpdate(
            model=model,
            sent=grouped(entry, EXTRA),
            memory=memory_of(entry),
            momentum={},
            losses=losses_of(entry),
            n_steps=int(entry["n_steps"]),
            start_scores=entry["start_scores"],
            end_scores=entry["end_scores"],
            probe_scores=model_scores(setting.placed_model(model), probes, setting.testing),
            noted=noted_of(entry),
        )


def _store_rounds(rounds: _PromptRounds | _SemiRounds, stored: Run, log: Run) -> None:
    state: Any = rounds.method.initial_state()
    if stored.rounds_done():
        state = rounds.method.restored_state(stored.load_state())
    for record in log.records()[state.round :]:
        state, row = rounds.replay(state, record["answered"])
        stored.commit(row, state.to_tensors(), 0.0)
    known = log.load_state()
    for name, value in rounds.shared(state).items():
        if name in known and not torch.equal(known[name], value):
            raise StoreError(f"{name} of the server is not what the clients' files give; they are of different runs")
    stored.finish()


def _same(one: PseudoLabels, other: PseudoLabels) -> bool:
    return torch.equal(one.indices, other.indices) and torch.equal(one.labels, other.labels)
