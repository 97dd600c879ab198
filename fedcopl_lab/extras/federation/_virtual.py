"""Federations of many thousand clients in one process: a client exists only while it answers a letter."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._identity import key_of
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.data import Shard, load_manifest
from fedcopl_lab.engine import peak_bytes
from fedcopl_lab.extras.embedded.glyphs import draw_glyphs
from fedcopl_lab.extras.federation._federation_files import ClientImages, Terms, check_federable, client_folder
from fedcopl_lab.extras.federation._member import Journal, Member
from fedcopl_lab.extras.federation._serve import serve
from fedcopl_lab.methods import PromptSetting
from fedcopl_lab.methods.protocol import Answer, Letter
from fedcopl_lab.seeding import torch_generator

KEPT_ROUNDS = 2
"""Entries of each kind that a virtual client's journal keeps."""


def virtual_terms(config: PromptConfig, folder: Path | str, n_train: int = 12, n_test: int = 4) -> Terms:
    """The terms of a federation whose clients draw so many images each, written to ``server/`` in a folder.

    Raises:
        FedCoPLError: another data set than the digits.
    """
    check_federable(config)
    if config.dataset != "digits":
        raise FedCoPLError(f"virtual clients draw printed digits, not {config.dataset}; set dataset='digits'")
    known = load_manifest("digits")
    terms = Terms(
        config=config,
        key=f"virtual-{n_train}-{n_test}-{key_of(config)}",
        class_names=tuple(known.classes),
        template=known.template,
        image_shape=(3, *known.image_size),
        n_images=n_train + n_test,
        n_train=n_train * config.n_clients,
    )
    terms.write(Path(folder) / "server")
    return terms


def drawn_images(terms: Terms, client: int, n_test: int) -> ClientImages:
    """The images of a virtual client: printed digits drawn from (seed, client) and from nothing else."""
    glyphs = draw_glyphs(terms.n_images, torch_generator(terms.config.seed, "virtual images", client))
    n_train = terms.n_images - n_test
    order = np.arange(terms.n_images)
    labels = torch.where(torch.arange(terms.n_images) < n_train, -1, glyphs.labels)
    return ClientImages(client, Shard(order[:n_train], order[n_train:]), torch.from_numpy(order), glyphs.pixels, labels)


class VirtualClients:
    """Carries letters to clients that are made when a letter arrives, and forgotten when they have answered.

    What a client keeps is in its journal on the disk, in ``folder``; its images are drawn again each time; the frozen
    model is open once for all. ``terms`` come from :func:`virtual_terms`.
    """

    def __init__(self, terms: Terms, folder: Path | str, n_test: int = 4) -> None:
        self.terms, self.folder, self.n_test = terms, Path(folder), n_test
        setting = terms.setting()
        assert isinstance(setting, PromptSetting)
        self.open_setting = setting
        self.times: dict[str, tuple[int, float]] = {}
        """Kind of letter -> letters answered, and seconds that it took in all."""

    def member(self, client: int) -> Member:
        """One of the clients, made again."""
        images = drawn_images(self.terms, client, self.n_test)
        thousands = self.folder / f"{client // 1000:04d}"  # folders of a million entries are slow
        journal = Journal(client_folder(thousands, client), KEPT_ROUNDS)
        return Member(self.terms, images, journal, self.open_setting)

    def exchange(self, letters: Mapping[int, Letter]) -> Iterator[Answer]:
        """See :class:`fedcopl_lab.extras.federation.Carrier`."""
        for client, letter in letters.items():
            start = time.perf_counter()
            answer = self.member(client).answer(letter)
            number, seconds = self.times.get(letter.kind, (0, 0.0))
            self.times[letter.kind] = number + 1, seconds + time.perf_counter() - start
            yield answer

    def measured(self) -> dict[str, int]:
        """Nothing: there is no wire."""
        return {}


def measure_virtual(config: PromptConfig, folder: Path | str, progress: bool = True) -> dict[str, Any]:
    """Run a federation of virtual clients and say what it took.

    Args:
        config: a run on ``"digits"``; ``n_clients`` may be many thousand.
        folder: where the server's files and the clients' journals go.
        progress: show a bar over the rounds.

    Returns:
        Clients and participants; peak memory in bytes; number of letters by kind and milliseconds a client; bytes of
        tensors up and down in each round; what the journals take on the disk.
    """
    folder = Path(folder)
    clients = VirtualClients(virtual_terms(config, folder), folder / "clients")
    log = serve(folder / "server", clients, progress)
    journals = [path.stat().st_size for path in (folder / "clients").rglob("*.safetensors")]
    rows = log.records()
    return {
        "clients": config.n_clients,
        "participants": [len(row["participants"]) for row in rows],
        "peak_bytes": peak_bytes(),
        "letters": {
            kind: {"number": number, "ms_per_client": round(1000 * seconds / number, 2)}
            for kind, (number, seconds) in clients.times.items()
        },
        "bytes_up": [row["bytes_up"] for row in rows],
        "bytes_down": [row["bytes_down"] for row in rows],
        "seconds": round(log.seconds, 1),
        "journal_files": len(journals),
        "journal_bytes": sum(journals),
    }
