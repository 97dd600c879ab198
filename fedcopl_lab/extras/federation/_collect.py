"""From the files of a federation, server's and clients', to a stored run: for research, never over the wire."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcopl_lab._errors import FedCoPLError, StoreError
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.engine import begin, run_rounds, starting_state
from fedcopl_lab.extras.federation._federation_files import ClientImages, Terms
from fedcopl_lab.extras.federation._member import Journal, digest_of
from fedcopl_lab.methods import ClientHalf, Method, PromptMethod, RoundResult
from fedcopl_lab.methods.protocol import Answer, Exchange, Expected, Letter
from fedcopl_lab.store import Run, Store


def collect(server: Path | str, clients: Sequence[Path | str], store: Store | None = None) -> Run:
    """Make a federation's files a stored run, with the bytes that :func:`fedcopl_lab.run` would have stored.

    The rows of a stored run compare clients with each other and with true labels, which no machine of a real
    federation can; where all folders can be brought together, as in an experiment, it can be done afterwards.

    Args:
        server: the server's folder.
        clients: all clients' folders, their journals whole.
        store: where to put the run; None takes the default store.

    Returns:
        The complete run.

    Raises:
        FedCoPLError: a federation that is not finished, in which something went wrong (its numbers are not
            those of the run key), or whose clients did something else than its server asked.

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
            _store_rounds(terms, stored, log, journals)
    return stored


class FromJournals(Exchange):
    """Answers each letter with what the client, whose entries are in a journal, entered when it got that letter."""

    def __init__(self, clients: Mapping[int, ClientHalf], key: str) -> None:
        super().__init__()
        self.clients, self.key = clients, key

    def ask(self, letters: Mapping[int, Letter], expected: Expected) -> dict[int, Answer]:
        """See :class:`fedcopl_lab.methods.Exchange`."""
        answers = {}
        for client, letter in sorted(letters.items()):
            journal = self.clients[client].kept
            assert isinstance(journal, Journal)
            entry = journal.done(letter.kind, letter.round, digest_of(letter, self.key))
            if not entry:
                raise StoreError(
                    f"client {client} has no entry of {letter.kind!r} for what the clients' files make the server ask "
                    f"in round {letter.round + 1}; they are of different runs"
                )
            self.entries.setdefault(letter.kind, {})[client] = entry
            answers[client] = self.clients[client].reply(letter, entry)
        return answers


def _store_rounds(terms: Terms, stored: Run, log: Run, journals: Mapping[int, Journal]) -> None:
    method = begin(terms.config, stored)
    assert isinstance(method, Method)
    clients = {k: method.client(k, journal) for k, journal in journals.items()}

    def step(state: Any) -> tuple[Any, dict[str, Any]]:
        result = method.round(state, FromJournals(clients, terms.key))
        _check_labels(method, result)
        return result.state, result.row

    state = run_rounds(step, starting_state(method, stored, terms.config.label), stored, terms.config, progress=False)
    known, again = log.load_state(), state.to_tensors()
    for name in sorted(known.keys() & again.keys()):
        if known[name].numpy().tobytes() != again[name].numpy().tobytes():  # bytes: NaN stands for unseen clients
            raise StoreError(f"{name} of the server is not what the clients' files give; they are of different runs")
    stored.finish()


def _check_labels(method: Method, result: RoundResult) -> None:
    if isinstance(method, PromptMethod) and result.labels is not None:
        for client in method.wrongly_labelled(result.labels, result.state.round - 1):
            raise StoreError(
                f"client {client} trained on other pseudo-labels in round {result.state.round} than its scores give"
            )


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
    found = {ClientImages.read(Path(one)).client: Journal(Path(one) / "journal") for one in folders}
    missing = sorted(set(range(terms.config.n_clients)) - set(found))
    if missing:
        raise FedCoPLError(f"the folders of clients {missing} are missing; give all {terms.config.n_clients}")
    return dict(sorted(found.items()))
