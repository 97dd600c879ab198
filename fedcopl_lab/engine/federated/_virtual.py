"""Federations of many thousand clients in one process: a client exists only while it answers a letter."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config import PromptConfig
from fedcopl_lab.data import Shard, load_manifest
from fedcopl_lab.engine.federated._journal import Journal
from fedcopl_lab.engine.federated._letters import Answer, Letter
from fedcopl_lab.engine.federated._prompt_member import PromptMember
from fedcopl_lab.engine.federated._shards import OwnImages, Terms, client_folder
from fedcopl_lab.engine.federated._supported import check_federable
from fedcopl_lab.methods import Setting
from fedcopl_lab.models._glyphs import draw_glyphs
from fedcopl_lab.seeding import torch_generator

KEPT_ROUNDS = 1
"""Entries of each kind that a virtual client's journal keeps."""


def virtual_terms(config: PromptConfig, folder: Path | str, n_train: int = 12, n_test: int = 4) -> Terms:
    """The terms of a federation whose clients draw their images, written for its server.

    Args:
        config: a run on ``"digits"``; ``n_clients`` may be many thousand.
        folder: the server's goes to ``server/`` inside it.
        n_train: training images of each client.
        n_test: test images of each client.

    Raises:
        FedCoPLError: another data set than the digits.
    """
    check_federable(config)
    if config.dataset != "digits":
        raise FedCoPLError(f"virtual clients draw printed digits, not {config.dataset}; set dataset='digits'")
    known = load_manifest("digits")
    terms = Terms(
        config=config,
        key=f"virtual-{n_train}-{n_test}-{config.n_clients}-{config.seed}",
        class_names=tuple(known.classes),
        template=known.template,
        image_shape=(3, known.image_size, known.image_size),
        n_images=n_train + n_test,
        n_train=n_train * config.n_clients,
    )
    terms.write(Path(folder) / "server")
    return terms


def drawn_images(terms: Terms, client: int, n_test: int) -> OwnImages:
    """The images of a virtual client: printed digits drawn from (seed, client) and from nothing else."""
    glyphs = draw_glyphs(terms.n_images, torch_generator(terms.config.seed, "virtual images", client))
    n_train = terms.n_images - n_test
    order = np.arange(terms.n_images)
    labels = torch.where(torch.arange(terms.n_images) < n_train, -1, glyphs.labels)
    return OwnImages(client, Shard(order[:n_train], order[n_train:]), torch.from_numpy(order), glyphs.pixels, labels)


class VirtualClients:
    """Carries letters to clients that are made when a letter arrives, and forgotten when they have answered.

    What a client keeps is in its journal on the disk; its images are drawn again each time; the frozen model
    is open once for all.

    Args:
        terms: from :func:`virtual_terms`.
        folder: where the clients' journals go.
        n_test: test images of each client.
    """

    def __init__(self, terms: Terms, folder: Path | str, n_test: int = 4) -> None:
        self.terms, self.folder, self.n_test = terms, Path(folder), n_test
        setting = terms.setting()
        assert isinstance(setting, Setting)
        self.beside = setting

    def member(self, client: int) -> PromptMember:
        """One of the clients, made anew."""
        images = drawn_images(self.terms, client, self.n_test)
        thousands = self.folder / f"{client // 1000:04d}"  # folders of a million entries are slow
        journal = Journal(client_folder(thousands, client), KEPT_ROUNDS)
        return PromptMember(self.terms, images, journal, self.beside)

    def exchange(self, letters: Mapping[int, Letter]) -> Iterator[Answer]:
        """See :class:`fedcopl_lab.engine.federated.Carrier`."""
        for client, letter in letters.items():
            yield self.member(client).answer(letter)

    def measured(self) -> dict[str, int]:
        """Nothing: there is no wire."""
        return {}
