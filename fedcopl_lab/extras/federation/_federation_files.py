"""The files of a federation: what all must know of the run, and each client's own images."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedcopl_lab._errors import FedCoPLError, StoreError
from fedcopl_lab._files import read_json, read_tensors, tensor_bytes, to_json, write_atomic
from fedcopl_lab._identity import key_of
from fedcopl_lab.config import PromptConfig, RunConfig, SageConfig, config_from
from fedcopl_lab.data import ChannelStatistics, Dataset, Federation, Shard, load_manifest
from fedcopl_lab.methods import PromptServer, PromptSetting, SageServer, SemiSetting, open_method

UNKNOWN = -1
"""The class of an image whose label the client does not know."""

_TERMS, _CLIENT, _IMAGES = "federation.json", "client.json", "images.safetensors"


@dataclass(frozen=True, repr=False)
class ClientImages:
    """What one client holds."""

    client: int  # its number
    shard: Shard  # its training, test and labelled positions in the whole data set
    positions: Tensor  # of ``pixels``, rising, [n]
    pixels: Tensor  # uint8, [n, 3, h, w]
    labels: Tensor  # the classes that the client knows, else UNKNOWN, [n]

    def write(self, folder: Path) -> None:
        """Put them into a folder."""
        parts = {name: part.tolist() for name, part in self.shard.parts.items()}
        write_atomic(folder / _CLIENT, to_json({"client": self.client, **parts}))
        tensors = {"positions": self.positions, "pixels": self.pixels.contiguous(), "labels": self.labels}
        write_atomic(folder / _IMAGES, tensor_bytes(tensors))

    def renumbered(self) -> "ClientImages":
        """The same images at positions 0, 1, 2, …, which say nothing about the whole data set."""
        new = {name: np.searchsorted(self.positions.numpy(), part) for name, part in self.shard.parts.items()}
        return replace(self, shard=Shard(**new), positions=torch.arange(len(self.positions)))

    @classmethod
    def read(cls, folder: Path) -> "ClientImages":
        """Those of a folder."""
        parts = read_json(folder / _CLIENT)
        client = parts.pop("client")
        return cls(client=client, shard=Shard.of(parts), **read_tensors(folder / _IMAGES))

    def __repr__(self) -> str:
        return f"ClientImages(client {self.client}: {self.shard})"


@dataclass(frozen=True, repr=False)
class Terms:
    """What the server and every client know of a run."""

    config: RunConfig  # the run
    key: str  # its run key
    class_names: tuple[str, ...]  # of the data set
    template: str  # of the data set, for zero-shot scores
    image_shape: tuple[int, ...]  # of one image, (3, h, w)
    n_images: int  # length of the data set that positions point into
    n_train: int  # training images of all clients
    # (mean, deviation) of training and of test images, three channels each; SAGE only
    statistics: tuple[tuple[Sequence[float], Sequence[float]], ...] = ()
    # clients place their images where they are in the whole data set, for the bytes of one process
    aligned: bool = True
    secret_noise: bool = False  # clients draw the noise on their counts from their own machine's randomness

    def write(self, folder: Path) -> None:
        """Put them into a folder.

        Raises:
            FedCoPLError: it holds those of another federation, whose log and journals would pass for this one's.
        """
        path, text = folder / _TERMS, to_json({**dataclasses.asdict(self), "config": self.config.as_dict()})
        if path.is_file() and path.read_text(encoding="utf-8") != text:
            raise FedCoPLError(f"{folder} holds the files of another federation; choose an empty folder")
        write_atomic(path, text)

    @classmethod
    def read(cls, folder: Path) -> "Terms":
        """Those of a folder.

        Raises:
            FedCoPLError: no such file.
        """
        path = folder / _TERMS
        if not path.is_file():
            raise FedCoPLError(f"{folder} holds no {_TERMS}; write it with `fedcopl-lab federate split`")
        values = dict(read_json(path))
        values["config"] = config_from(values["config"])
        for name in ("class_names", "image_shape"):
            values[name] = tuple(values[name])
        values["statistics"] = tuple(tuple(pair) for pair in values["statistics"])
        return cls(**values)

    def __repr__(self) -> str:
        return f"Terms({self.config.label}, {self.config.n_clients} clients)"

    def setting(
        self, images: ClientImages | None = None, open_setting: PromptSetting | None = None
    ) -> PromptSetting | SemiSetting:
        """The run's surroundings for a client with its own images, or for the server, which has none.

        The frozen model of ``open_setting``, a setting of the same run in this process, is not opened again.

        Under ``aligned`` the images lie at their positions in the whole data set, between empty ones: frozen
        features then come out of batches of the same shapes as in one process, and so do the same bytes.
        """
        dataset = self._dataset(images)
        none = np.zeros(0, dtype=np.int64)
        sage = isinstance(self.config, SageConfig)
        shards = [Shard(none, none, none if sage else None)] * self.config.n_clients
        if images is not None:
            shards[images.client] = images.shard
        federation = Federation(dataset, tuple(shards), "iid", self.config.n_clients, None, None, 0, "paper", 0)
        if isinstance(self.config, PromptConfig):
            if open_setting is not None:
                return open_setting.holding(dataset, federation)
            return PromptSetting.of_part(self.config, dataset, federation)
        assert isinstance(self.config, SageConfig)
        device = self.config.device
        training, testing = (
            ChannelStatistics(*(torch.tensor(part, device=device) for part in pair)) for pair in self.statistics
        )
        return SemiSetting(
            self.config, dataset, federation, dataset.images.to(device), dataset.labels.to(device), training, testing
        )

    def server(self) -> PromptServer | SageServer:
        """The server half, which holds no image."""
        setting = self.setting()
        if isinstance(setting, PromptSetting):
            return PromptServer(setting, self.n_train, self.n_images)
        return SageServer(setting, n_images=self.n_images)

    def _dataset(self, images: ClientImages | None) -> Dataset:
        n = 0 if images is None else self.n_images if self.aligned else len(images.positions)
        pixels = torch.zeros(n, *self.image_shape, dtype=torch.uint8)
        labels = torch.full((n,), UNKNOWN)
        nothing = torch.zeros(0, dtype=torch.long)
        train, test = nothing, nothing
        if images is not None:
            pixels[images.positions], labels[images.positions] = images.pixels, images.labels
            train, test = (torch.from_numpy(part.copy()) for part in (images.shard.train, images.shard.test))
        name = self.config.dataset
        return Dataset(
            name, pixels, labels, self.class_names, self.template, train, test, "one client's part", _manifest_of(name)
        )


def split(config: RunConfig, folder: Path | str, aligned: bool = True, secret_noise: bool = False) -> list[Path]:
    """Write the files of a federation: one folder for the server, one for each client.

    The server's holds no image. A client's holds its own images, with the labels that it may know: of its
    test images in FedCoPL, of its labelled ones in SAGE.

    Args:
        config: the run, from :func:`fedcopl_lab.configure`.
        folder: where to write ``server/`` and ``client-0000/``, ``client-0001/``, …
        aligned: have clients compute as one process would, byte by byte, which makes each go through as many
            images as the whole data set has; False: through its own ones, with the same numbers up to rounding.
        secret_noise: with ``count_noise``: noise from no known seed, as privacy needs it. Such a run cannot be
            repeated.

    Returns:
        The server's folder, then the clients'.

    Raises:
        FedCoPLError: a setting that needs several clients in one place, or data that are not there.

    >>> split(lab.configure("smoke", clients_per_forward=1), "federation")[0].name
    'server'

    Shown in notebook ``federation``.
    """
    check_federable(config)
    _manifest_of(config.dataset)
    if secret_noise and getattr(config, "count_noise", "none") == "none":
        raise FedCoPLError("secret_noise=True without noise; set count_noise='laplace' and epsilon")
    folder = Path(folder)
    method = open_method(config)
    federation, dataset = method.federation, method.federation.dataset
    sage = method.setting if isinstance(method.setting, SemiSetting) else None
    normalising = () if sage is None else (sage.training, sage.testing)
    terms = Terms(
        config=config,
        key=key_of(config),
        class_names=tuple(dataset.class_names),
        template=dataset.template,
        image_shape=tuple(dataset.images.shape[1:]),
        n_images=len(dataset),
        n_train=sum(len(shard.train) for shard in federation.shards),
        statistics=tuple((part.mean.tolist(), part.std.tolist()) for part in normalising),
        aligned=aligned,
        secret_noise=secret_noise,
    )
    folders = [folder / "server", *(client_folder(folder, k) for k in range(config.n_clients))]
    for one in folders:
        terms.write(one)
    for k, one in enumerate(folders[1:]):
        own = _own_images(dataset, federation, k, config)
        (own if aligned else own.renumbered()).write(one)
        one.chmod(0o700)  # other accounts of the machine shall not read it
    return folders


def check_federable(config: RunConfig) -> None:
    """Refuse what a federation of separate machines cannot do.

    Raises:
        FedCoPLError: names the setting, and a value that can.
    """
    wanted: dict[str, tuple[object, ...]] = {"momentum_state": ("reset", "per_client"), "clients_per_forward": (1,)}
    if isinstance(config, PromptConfig):
        if config.method == "zero-shot":
            raise FedCoPLError("zero-shot CLIP sends nothing; run it with lab.run")
        wanted |= {
            "labeller": ("CoPL", "FPL", "UPL", "CPL"),
            "filter_scope": ("client",),
            "label_scope": ("client",),
            **({"candidate_scope": ("client",)} if config.labeller == "CPL" else {}),
            "count_noise": ("none", "laplace", "gaussian"),
        }
    else:
        wanted["momentum_state"] = ("reset",)
    for name, values in wanted.items():
        if getattr(config, name) not in values:
            raise FedCoPLError(
                f"{name}={getattr(config, name)!r} needs several clients in one place; "
                f"a federation of separate machines takes {' or '.join(map(repr, values))}"
            )


def client_folder(folder: Path | str, client: int) -> Path:
    """Where :func:`split` puts a client's files."""
    return Path(folder) / f"client-{client:04d}"


def _own_images(dataset: Dataset, federation: Federation, client: int, config: RunConfig) -> ClientImages:
    shard = federation.shards[client]
    positions = torch.from_numpy(np.union1d(shard.train, shard.test))
    known = shard.test
    if isinstance(config, SageConfig):
        known = shard.train if config.method == "FedAvg-SL" else shard.labelled  # type: ignore[assignment]
    labels = torch.where(torch.isin(positions, torch.from_numpy(known.copy())), dataset.labels[positions], UNKNOWN)
    return ClientImages(client, shard, positions, dataset.images[positions].clone(), labels)


@lru_cache
def _manifest_of(name: str) -> Any:
    try:
        return load_manifest(name.split(":")[0])
    except FedCoPLError as error:
        raise StoreError(f"{name!r} has no manifest ({error}); federate a data set that has one") from error
