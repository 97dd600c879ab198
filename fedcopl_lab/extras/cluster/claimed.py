"""One run, computed by whichever worker gets to it first."""

import time
from pathlib import Path

from fedcopl_lab._identity import key_of
from fedcopl_lab.config import RunConfig
from fedcopl_lab.engine import run
from fedcopl_lab.extras.cluster.leases import PATIENCE, lease
from fedcopl_lab.store import Run, Store

LOOK_EVERY = 0.5


def run_claimed(config: RunConfig, root: Path, patience: float = PATIENCE) -> Run:
    """Run a configuration unless another worker of the same store does; then wait for it.

    A worker that dies leaves its run to the one that waits, which goes on after the last stored round.

    Args:
        config: from :func:`fedcopl_lab.configure`.
        root: the store's folder, perhaps on a disk that several machines share.
        patience: seconds of silence after which another worker's run is taken over.
    """
    store = Store(root)
    stored = store.run(key_of(config))
    while not stored.complete:
        with lease(store.root, stored.key, patience) as mine:
            if mine:
                return run(config, store, progress=False)
        time.sleep(LOOK_EVERY)
    return stored
