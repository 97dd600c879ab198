"""The two Flower apps, for the machine that leads a federation and for every client's, and their simulation here.

A client's app runs in a new process for every message, so that torch is loaded only when there is something to
compute.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import read_json
from fedcopl_lab.extras.federation.flower import HELLO, need

if TYPE_CHECKING:
    from fedcopl_lab.config import RunConfig
    from fedcopl_lab.extras.federation._member import Member
    from fedcopl_lab.store import Run, Store


def server_app(folder: Path | str | None = None, secure: bool = False) -> Any:
    """The ``ServerApp``: leads the federation whose terms are in a folder.

    Args:
        folder: the server's; None takes ``server-folder`` of Flower's run configuration. ``patience`` there
            is the number of seconds to wait for answers.
        secure: learn means only, by SecAgg+; ``secure`` of the run configuration does the same.

    Shown in notebook ``federation``.
    """
    app = need("flwr.serverapp").ServerApp()
    app.main()(partial(_lead, None if folder is None else str(folder), secure))
    return app


def client_app(folder: Path | str | None = None, secure: bool = False) -> Any:
    """The ``ClientApp``: answers for the client whose files are in a folder.

    Args:
        folder: of a simulation, with all clients' folders, which ``clients-folder`` of the run configuration may
            name too; None takes ``folder`` of the node configuration that the SuperNode was started with: the one
            client's, or one that holds its folders of several federations by the name that ``federation`` of the
            run configuration gives.
        secure: send masked prompts only, by SecAgg+; ``secure`` of the run configuration does the same.

    Shown in notebook ``federation``.
    """
    app = need("flwr.clientapp").ClientApp()
    home = None if folder is None else str(folder)
    app.query()(partial(_answer, home, False))
    app.evaluate()(partial(_answer, home, False))
    app.train(mods=[partial(_masked, secure)])(partial(_answer, home, secure))
    return app


def simulate(
    config: "RunConfig", store: "Store | None" = None, folder: Path | str | None = None, processes: int = 2
) -> "Run":
    """Run a configuration as a federation of clients in Flower's simulation, and store it.

    Args:
        config: from :func:`fedcopl_lab.configure`, with ``clients_per_forward=1``.
        store: where to keep the run; None takes the default store. A stored run is not computed again.
        folder: where server and clients keep their files; None takes a temporary one, which goes afterwards.
        processes: clients that work at the same time.

    Returns:
        The complete run, with the bytes that :func:`fedcopl_lab.run` stores.

    Raises:
        FedCoPLError: the extra is missing, or the configuration needs several clients in one place.

    Shown in notebook ``federation``.
    """
    from fedcopl_lab._identity import key_of
    from fedcopl_lab.engine import check_device
    from fedcopl_lab.extras.federation import collect, split
    from fedcopl_lab.store import Store

    check_device(config.device)
    store = store or Store()
    stored = store.run(key_of(config))
    if stored.complete:
        return stored
    with tempfile.TemporaryDirectory() as temporary:
        folders = split(config, folder or temporary)
        home = folders[0].parent
        need("ray")
        need("flwr.simulation").run_simulation(
            server_app(folders[0]),
            client_app(home),
            num_supernodes=config.n_clients,
            backend_config={
                "client_resources": {"num_cpus": 1, "num_gpus": 1 / processes if config.device != "cpu" else 0.0},
                "init_args": {"num_cpus": processes, "include_dashboard": False},
            },
        )
        return collect(folders[0], folders[1:], store)


def _lead(folder: str | None, secure: bool, grid: Any, context: Any) -> None:
    from fedcopl_lab.config import PromptConfig
    from fedcopl_lab.extras.federation._federation_files import Terms
    from fedcopl_lab.extras.federation._serve import serve
    from fedcopl_lab.extras.federation.flower._carrier import FlowerCarrier
    from fedcopl_lab.extras.federation.flower._secure import SecureCarrier

    chosen = folder or context.run_config.get("server-folder")
    if not chosen:
        raise FedCoPLError("no folder for the server; give flwr run --run-config 'server-folder=\"/path/to/server\"'")
    terms = Terms.read(Path(str(chosen)))
    patience = float(context.run_config.get("patience", 600.0))
    carrier = FlowerCarrier
    if _is_secure(secure, context):
        if not isinstance(terms.config, PromptConfig) or not terms.config.shared:
            raise FedCoPLError(f"secure aggregation sums prompts; {terms.config.label} sends none that are summed")
        carrier = SecureCarrier
    _end_with_starter()
    serve(str(chosen), carrier(grid, terms.key, patience), progress=False)


def _end_with_starter() -> None:
    """End with the SuperLink: Flower's process for the app outlives it and would keep the next one from leading."""
    if Path(sys.argv[0]).name != "flwr-serverapp":
        return  # a simulation, in the user's own process
    starter = os.getppid()

    def watch() -> None:
        while os.getppid() == starter:
            time.sleep(0.5)
        os._exit(1)  # stored rounds stay

    threading.Thread(target=watch, daemon=True, name="starter").start()


def _is_secure(secure: bool, context: Any) -> bool:
    return secure or bool(context.run_config.get("secure", False))


def _masked(secure: bool, message: Any, context: Any, call_next: Callable[[Any, Any], Any]) -> Any:
    """Flower's SecAgg+ around the training, where it is asked for."""
    if not _is_secure(secure, context):
        return call_next(message, context)
    return need("flwr.client.mod").secaggplus_mod(message, context, call_next)


def _answer(home: str | None, secure: bool, message: Any, context: Any) -> Any:
    app = need("flwr.app")
    folder = _folder(home, context)
    if HELLO in message.content:
        return app.Message(
            app.RecordDict({HELLO: app.ConfigRecord({"client": _client_of(message, folder)})}), reply_to=message
        )
    from fedcopl_lab.extras.federation.flower._carrier import answer_records, letter_of
    from fedcopl_lab.extras.federation.flower._secure import secure_answer
    from fedcopl_lab.methods.protocol import Answer

    member = _opened(folder)
    try:
        answer = member.answer(letter_of(message.content, member.terms.key))
    except FedCoPLError as error:
        answer = Answer(member.client, "", -1, refusal=str(error))
    if answer.kind == "train" and _is_secure(secure, context):
        return secure_answer(answer, message)
    return app.Message(answer_records(answer), reply_to=message)


def _client_of(message: Any, folder: str) -> int:
    """The number of the client whose files are here, -1 where they are of another run."""
    same = read_json(Path(folder) / "federation.json")["key"] == message.content[HELLO]["key"]
    return int(read_json(Path(folder) / "client.json")["client"]) if same else -1


def _folder(home: str | None, context: Any) -> str:
    config = context.node_config
    if config.get("folder"):
        return str(Path(str(config["folder"])) / str(context.run_config.get("federation", "")))
    home = home or str(context.run_config.get("clients-folder", ""))
    if not home:
        raise FedCoPLError(
            "no folder for this client; start the SuperNode with --node-config 'folder=\"/path\"', or, in a "
            "simulation, flwr run with --run-config 'clients-folder=\"/path\"'"
        )
    from fedcopl_lab.extras.federation._federation_files import client_folder

    return str(client_folder(home, int(config["partition-id"])))


@lru_cache(maxsize=8)  # clients that a process keeps open, when several run in one
def _opened(folder: str) -> "Member":
    from fedcopl_lab.extras.federation import open_member

    return open_member(folder)
