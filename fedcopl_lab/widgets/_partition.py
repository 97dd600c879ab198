"""The partition explorer: who gets which images, under the schemes of both papers."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedcopl_lab._errors import FedCoPLError, check_choice
from fedcopl_lab.data import Federation, heterogeneity, load_dataset, partition
from fedcopl_lab.report.looks import FAINT, ORANGE, QUIET, Picture, every_few
from fedcopl_lab.widgets._explorer import Explorer, dropdown, int_slider, log_slider, slider
from fedcopl_lab.widgets._panels import Bubbles, nice_top, panel, set_heights
from fedcopl_lab.widgets._redraw import Readout, Scene

SCHEMES = {
    "Dirichlet β (FedCoPL)": "dirichlet", "quantity s (FedCoPL)": "quantity", "even, IID (FedCoPL)": "iid",
    "Dirichlet α (SAGE)": "sage dirichlet", "pairs of clients α (SAGE)": "sage pairwise_balanced",
    "even, IID (SAGE)": "sage iid",
}  # fmt: skip
"""What the control calls the schemes, and their names in :class:`PartitionParams`."""
_READ_BY = {
    "beta": ("dirichlet",),
    "fraction": ("quantity",),
    "alpha": ("sage dirichlet", "sage pairwise_balanced"),
    "label_fraction": ("sage dirichlet", "sage pairwise_balanced", "sage iid"),
}
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

    >>> figure = draw_partition(PartitionParams(beta=1.0))

    Shown in notebook ``explore``.
    """
    return PartitionScene().draw(params or PartitionParams())


def explore_partition(datasets: Sequence[str] = ("digits",), **start: Any) -> Explorer[PartitionParams]:
    """The partition explorer: :func:`draw_partition` with its controls.

    Args:
        datasets: names of data sets to choose among.
        start: fields of :class:`PartitionParams` to begin with.

    >>> explore_partition(scheme="quantity", n_clients=4, fraction=0.5).numbers["classes_per_client"]
    5.0

    Shown in notebook ``explore``.
    """
    if not datasets:
        raise FedCoPLError("there is no data set to divide; name at least one, such as 'digits'")
    params = PartitionParams(**{"dataset": datasets[0]} | start)
    fewer = "the smaller, the fewer classes on a client"
    moving = {
        "scheme": dropdown("scheme", params.scheme, SCHEMES.items(), "how the images are divided"),
        "n_clients": int_slider("clients K", params.n_clients, 2, 20, "number of clients"),
        "beta": log_slider("β", params.beta, -2, 2, 0.1, f"FedCoPL: {fewer}"),
        "fraction": slider("s", params.fraction, 0.1, 1, 0.1, "share of the classes that a client sees", 1),
        "alpha": log_slider("α", params.alpha, -2, 2, 0.1, f"SAGE: {fewer}"),
        "seed": int_slider("seed", params.seed, 0, 50, "another draw"),
        "mode": dropdown("mode", params.mode, _MODES, "as the paper says, or as the released code does"),
        "dataset": dropdown("data set", params.dataset, datasets, "what is divided"),
    }

    def adapt(now: PartitionParams) -> None:
        for name in ("beta", "fraction", "alpha"):
            moving[name].disabled = now.scheme not in _READ_BY[name]

    return Explorer("partition", PartitionScene(), params, moving, adapt=adapt)


def federation_of(params: PartitionParams) -> Federation:
    """The division that these parameters describe; those that the scheme does not read are left out."""
    check_choice("scheme", params.scheme, SCHEMES.values())
    settings = {"beta": params.beta, "fraction": params.fraction, "alpha": params.alpha, "label_fraction": _LABELLED}
    read: dict[str, Any] = {name: value for name, value in settings.items() if params.scheme in _READ_BY[name]}
    scheme: Any = params.scheme.removeprefix("sage ")
    dataset = load_dataset(params.dataset)
    return partition(dataset, scheme, params.n_clients, seed=params.seed, mode=params.mode, **read)


class PartitionScene(Scene[PartitionParams]):
    """The figure of the partition explorer, changed in place."""

    height = 5.2

    def _compute(self, params: PartitionParams, previous: PartitionParams | None) -> SimpleNamespace:
        federation = federation_of(params)
        is_sage = params.scheme.startswith("sage ")
        train = federation.class_counts("unlabelled" if is_sage else "train")
        other = federation.class_counts("labelled" if is_sage else "test")
        return SimpleNamespace(
            built_for=(federation.dataset.class_names, len(train)),
            parts=("unlabelled images", "labelled images") if is_sage else ("training images", "test images"),
            pair="labelled and unlabelled" if is_sage else "training and test",
            train=train, other=other, skew=heterogeneity(train, other), redraws=federation.redraws,
        )  # fmt: skip

    def _build(self, values: SimpleNamespace) -> None:
        names, clients = values.built_for
        boxes = (0.05, 0.365, 0.445, 0.58), (0.55, 0.365, 0.445, 0.58)
        self._bubbles = [Bubbles(panel(self.figure, box, grid=""), names) for box in boxes]
        self._sizes = panel(self.figure, (0.05, 0.095, 0.945, 0.165), "Images of each client")
        self._sizes.tick_params(length=0)
        self._sizes.set_xlabel("client", labelpad=2)
        self._sizes.set(xlim=(-0.6, clients - 0.4), xticks=every_few(clients, 20))
        at = np.arange(clients)
        self._bars = [self._sizes.bar(at + side, 0.0 * at, 0.36, facecolor=face, edgecolor=edge, linewidth=0.7)
                      for side, face, edge in ((-0.2, FAINT, QUIET), (0.2, ORANGE, ORANGE))]  # fmt: skip

    def _update(self, values: SimpleNamespace) -> None:
        first, second = values.parts
        both = zip(values.parts, (values.train, values.other), self._bubbles, self._bars, strict=True)
        for images, counts, bubbles, bars in both:
            bubbles.title.set_text(f"{images.capitalize()}, largest disc {counts.max()}")
            bubbles.show(counts, float(counts.max()))
            set_heights(bars, counts.sum(axis=1))
        self._sizes.set_title(f"Images of each client: {first} (grey) and {second} (orange)", loc="left", pad=5)
        self._sizes.set_ylim(0, nice_top(float(values.train.sum(axis=1).max())))

    def _describe(self, values: SimpleNamespace) -> Readout:
        skew, redraws = values.skew, values.redraws
        text = (
            f"{len(values.train)} clients. Distance of a client's class mix from the whole: {skew.total_variation:.3f} "
            f"(total variation, 0 to 1), between its own {values.pair} images {skew.train_test_variation:.3f}; "
            f"{skew.classes_per_client:.1f} classes per client; smallest client {skew.smallest_train} + "
            f"{skew.smallest_test} images."
        )
        note = f"{redraws} draws were thrown away because a client had too few images." if redraws else ""
        numbers = {
            "total_variation": skew.total_variation, "own_variation": skew.train_test_variation,
            "classes_per_client": skew.classes_per_client, "smallest": (skew.smallest_train, skew.smallest_test),
            "sizes": values.train.sum(axis=1).tolist(), "redraws": redraws,
        }  # fmt: skip
        return Readout(text, numbers, note)
