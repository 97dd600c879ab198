"""The partition explorer: who gets which images, under the schemes of both papers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import Federation, load_dataset, partition
from fedcopl_lab.data import heterogeneity as measure
from fedcopl_lab.report.looks import FAINT, ORANGE, QUIET, Picture, light_grid, style
from fedcopl_lab.widgets import _controls as controls
from fedcopl_lab.widgets._bubbles import Bubbles
from fedcopl_lab.widgets._canvas import every_few, fixed_figure, nice_top, panel
from fedcopl_lab.widgets._explorer import Explorer, Shown

SCHEMES = {
    "Dirichlet β (FedCoPL)": "dirichlet",
    "quantity s (FedCoPL)": "quantity",
    "even, IID (FedCoPL)": "iid",
    "Dirichlet α (SAGE)": "sage dirichlet",
    "pairs of clients α (SAGE)": "sage pairwise_balanced",
    "even, IID (SAGE)": "sage iid",
}
"""What the control calls the schemes, and their names in :class:`PartitionParams`."""
_MODES = (("paper", "paper"), ("authors (released code)", "authors"))
_LABELLED = 0.1  # SAGE's share of labelled images


@dataclass(frozen=True)
class PartitionParams:
    """What the partition explorer shows.

    Attributes:
        dataset: what is divided.
        scheme: ``"dirichlet"``, ``"quantity"``, ``"iid"``, or SAGE's ``"sage dirichlet"``,
            ``"sage pairwise_balanced"``, ``"sage iid"``.
        n_clients: number of clients K.
        beta: FedCoPL's Dirichlet concentration, above 0; read by ``"dirichlet"`` only.
        fraction: share s of the classes that a client sees; read by ``"quantity"`` only.
        alpha: SAGE's Dirichlet concentration, above 0; read by SAGE's first two schemes only.
        seed: the partition's seed.
        mode: ``"paper"`` or ``"authors"``.
    """

    dataset: str = "digits"
    scheme: str = "dirichlet"
    n_clients: int = 5
    beta: float = 0.1
    fraction: float = 0.2
    alpha: float = 0.1
    seed: int = 0
    mode: Any = "paper"


def draw_partition(params: PartitionParams | None = None) -> Picture:
    """Images of every class on every client, the clients' sizes, and how different the clients are.

    FedCoPL Sec. 4.1 and supplement Fig. 3; SAGE supplement E and Fig. 16.

    Args:
        params: scheme, number of clients, concentration and seed; None takes the defaults.

    Returns:
        A figure of three panels.

    Raises:
        FedCoPLError: an unknown scheme, or no division that gives every client enough images.

    >>> draw_partition(PartitionParams(beta=1.0))

    Shown in notebook ``explore``.
    """
    scene = PartitionScene()
    scene.show(params or PartitionParams())
    return scene.figure


def explore_partition(datasets: Sequence[str] = ("digits",), **start: Any) -> Explorer[PartitionParams]:
    """The partition explorer: :func:`draw_partition` with its controls.

    Args:
        datasets: names of data sets to choose among.
        start: fields of :class:`PartitionParams` to begin with.

    Returns:
        The explorer; display it.

    >>> explore_partition(scheme="quantity")

    Shown in notebook ``explore``.
    """
    if not datasets:
        raise FedCoPLError("there is no data set to divide; name at least one, such as 'digits'")
    params = PartitionParams(**{"dataset": datasets[0]} | start)
    moving = {
        "scheme": controls.choice("scheme", params.scheme, SCHEMES.items(), "how the images are divided"),
        "n_clients": controls.whole("clients K", params.n_clients, 2, 20, "number of clients"),
        "beta": controls.log_slider(
            "β", params.beta, -2, 2, 0.1, "FedCoPL: the smaller, the fewer classes on a client"
        ),
        "fraction": controls.slider("s", params.fraction, 0.1, 1, 0.1, "share of the classes that a client sees", 1),
        "alpha": controls.log_slider("α", params.alpha, -2, 2, 0.1, "SAGE: the smaller, the fewer classes on a client"),
        "seed": controls.whole("seed", params.seed, 0, 50, "another draw"),
        "mode": controls.choice("mode", params.mode, _MODES, "as the paper says, or as the released code does"),
        "dataset": controls.choice("data set", params.dataset, datasets, "what is divided"),
    }

    def adapt(now: PartitionParams) -> None:
        read_by = {"beta": now.scheme == "dirichlet", "fraction": now.scheme == "quantity",
                   "alpha": now.scheme in ("sage dirichlet", "sage pairwise_balanced")}  # fmt: skip
        for name, is_read in read_by.items():
            moving[name].disabled = not is_read

    return Explorer("partition", PartitionScene(), params, moving, adapt=adapt)


def federation_of(params: PartitionParams) -> Federation:
    """The division that these parameters describe.

    Args:
        params: parameters; those that the scheme does not read are left out.

    Raises:
        FedCoPLError: as :func:`lab.partition`, and for an unknown scheme.
    """
    if params.scheme not in SCHEMES.values():
        raise FedCoPLError(f"scheme={params.scheme!r} is unknown; choose one of {', '.join(SCHEMES.values())}")
    dataset = load_dataset(params.dataset)
    own: dict[str, Any] = {"seed": params.seed, "mode": params.mode}
    if params.scheme.startswith("sage "):
        scheme: Any = params.scheme.removeprefix("sage ")
        alpha = None if scheme == "iid" else params.alpha
        return partition(dataset, scheme, params.n_clients, alpha=alpha, label_fraction=_LABELLED, **own)
    if params.scheme == "dirichlet":
        return partition(dataset, "dirichlet", params.n_clients, beta=params.beta, **own)
    if params.scheme == "quantity":
        return partition(dataset, "quantity", params.n_clients, fraction=params.fraction, **own)
    return partition(dataset, "iid", params.n_clients, **own)


class PartitionScene:
    """The figure of the partition explorer, changed in place."""

    def __init__(self) -> None:
        with style():
            self.figure = fixed_figure(5.2)
        self._names: tuple[str, ...] = ()

    def show(self, params: PartitionParams, previous: PartitionParams | None = None) -> Shown:
        """Show this division."""
        federation = federation_of(params)
        is_sage = params.scheme.startswith("sage ")
        train = federation.class_counts("unlabelled" if is_sage else "train")
        other = federation.class_counts("labelled" if is_sage else "test")
        told = _told(federation, train, other, is_sage)
        with style():
            if tuple(federation.dataset.class_names) != self._names:
                self._build(tuple(federation.dataset.class_names))
            self._update(train, other, is_sage)
        return told

    def _build(self, names: tuple[str, ...]) -> None:
        self.figure.clear()
        self._names = names
        self._train = Bubbles(panel(self.figure, (0.05, 0.365, 0.445, 0.58), ""), names)
        self._other = Bubbles(panel(self.figure, (0.55, 0.365, 0.445, 0.58), ""), names)
        axes = panel(self.figure, (0.05, 0.095, 0.945, 0.165), "Images of each client")
        light_grid(axes)
        axes.tick_params(length=0)
        axes.set_xlabel("client", labelpad=2)
        self._sizes = axes
        self._many: list[Any] = []
        self._few: list[Any] = []

    def _update(self, train: Any, other: Any, is_sage: bool) -> None:
        first, second = ("unlabelled images", "labelled images") if is_sage else ("training images", "test images")
        self._train.title.set_text(f"{first.capitalize()}, largest disc {train.max()}")
        self._other.title.set_text(f"{second.capitalize()}, largest disc {other.max()}")
        self._train.show(train, float(train.max()))
        self._other.show(other, float(other.max()))
        axes, clients = self._sizes, len(train)
        while len(self._many) < clients:
            at = len(self._many)
            self._many.append(axes.bar([at - 0.2], [0], 0.36, facecolor=FAINT, edgecolor=QUIET, linewidth=0.7)[0])
            self._few.append(axes.bar([at + 0.2], [0], 0.36, facecolor=ORANGE, edgecolor=ORANGE, linewidth=0.7)[0])
        for bars, sizes in ((self._many, train.sum(axis=1)), (self._few, other.sum(axis=1))):
            for client, bar in enumerate(bars):
                bar.set_height(float(sizes[client]) if client < clients else 0.0)
                bar.set_visible(client < clients)
        self._sizes.set_title(f"Images of each client: {first} (grey) and {second} (orange)", loc="left", pad=5)
        axes.set_xlim(-0.6, clients - 0.4)
        axes.set_ylim(0, nice_top(float(np.max(train.sum(axis=1)))))
        axes.set_xticks(every_few(clients, 20))


def _told(federation: Federation, train: Any, other: Any, is_sage: bool) -> Shown:
    found = measure(train, other)
    beside = "labelled and unlabelled" if is_sage else "training and test"
    text = (
        f"{federation.n_clients} clients. Distance of a client's class mix from the whole: {found.total_variation:.3f} "
        f"(total variation, 0 to 1), between its own {beside} images {found.train_test_variation:.3f}; "
        f"{found.classes_per_client:.1f} classes per client; smallest client {found.smallest_train} + "
        f"{found.smallest_test} images."
    )
    note = ""
    if federation.redraws:
        note = f"{federation.redraws} draws were thrown away because a client had too few images."
    return Shown(text, {
        "total_variation": found.total_variation, "own_variation": found.train_test_variation,
        "classes_per_client": found.classes_per_client, "smallest": (found.smallest_train, found.smallest_test),
        "sizes": train.sum(axis=1).tolist(), "redraws": federation.redraws,
    }, note)  # fmt: skip
