"""A federation in Flower's simulation: the same apps, clients in Ray processes on this machine."""

import tempfile
from pathlib import Path

from fedcopl_lab._identity import key_of
from fedcopl_lab.config import RunConfig
from fedcopl_lab.engine import check_device
from fedcopl_lab.extras.federation._collect import collect
from fedcopl_lab.extras.federation._federation_files import split
from fedcopl_lab.extras.federation.flower._apps import client_app, server_app
from fedcopl_lab.extras.federation.flower._need import need
from fedcopl_lab.store import Run, Store


def simulate(
    config: RunConfig, store: Store | None = None, folder: Path | str | None = None, processes: int = 2
) -> Run:
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

    >>> simulate(lab.configure("smoke", clients_per_forward=1)).complete
    True

    Shown in notebook ``federation``.
    """
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
