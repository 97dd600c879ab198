"""The two Flower apps: one for the machine that leads a federation, one for every client's machine."""

from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.engine.federated._letters import Answer
from fedcopl_lab.engine.federated._member import Member, open_member
from fedcopl_lab.engine.federated._serve import serve
from fedcopl_lab.engine.federated._shards import Terms, client_folder
from fedcopl_lab.engine.flower._carrier import HELLO, FlowerCarrier
from fedcopl_lab.engine.flower._need import need
from fedcopl_lab.engine.flower._records import answer_records, letter_of

MEMBERS_KEPT = 8
"""Clients that a process keeps open, when several run in one."""


def server_app(folder: Path | str | None = None) -> Any:
    """The ``ServerApp``: leads the federation whose terms are in a folder.

    Args:
        folder: the server's; None takes ``server-folder`` of Flower's run configuration. ``patience`` there
            is the number of seconds to wait for answers.

    Shown in notebook ``federation``.
    """
    app = need("flwr.serverapp").ServerApp()
    app.main()(partial(_lead, None if folder is None else str(folder)))
    return app


def client_app(folder: Path | str | None = None) -> Any:
    """The ``ClientApp``: answers for the client whose files are in a folder.

    Args:
        folder: of a simulation, with all clients' folders; None takes ``folder``, the one client's, of the
            node configuration that its SuperNode was started with.

    Shown in notebook ``federation``.
    """
    app = need("flwr.clientapp").ClientApp()
    answer = partial(_answer, None if folder is None else str(folder))
    for register in (app.query, app.train, app.evaluate):
        register()(answer)
    return app


def _lead(folder: str | None, grid: Any, context: Any) -> None:
    chosen = folder or context.run_config.get("server-folder")
    if not chosen:
        raise FedCoPLError("no folder for the server; give flwr run --run-config 'server-folder=\"/path/to/server\"'")
    terms = Terms.read(Path(str(chosen)))
    patience = float(context.run_config.get("patience", 600.0))
    serve(str(chosen), FlowerCarrier(grid, terms.key, terms.n_clients, patience), progress=False)


def _answer(folder: str | None, message: Any, context: Any) -> Any:
    app = need("flwr.app")
    member = _member(folder, context)
    if HELLO in message.content:
        head = app.ConfigRecord({"client": member.client if message.content[HELLO]["key"] == member.terms.key else -1})
        return app.Message(app.RecordDict({HELLO: head}), reply_to=message)
    try:
        answer = member.answer(letter_of(message.content, member.terms.key))
    except FedCoPLError as error:
        answer = Answer(member.client, "", -1, refusal=str(error))
    return app.Message(answer_records(answer), reply_to=message)


def _member(folder: str | None, context: Any) -> Member:
    config = context.node_config
    chosen = config.get("folder") or (folder and client_folder(folder, int(config["partition-id"])))
    if not chosen:
        raise FedCoPLError("no folder for this client; start the SuperNode with --node-config 'folder=\"/path\"'")
    return _opened(str(chosen))


@lru_cache(maxsize=MEMBERS_KEPT)
def _opened(folder: str) -> Member:
    return open_member(folder)
