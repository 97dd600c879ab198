"""``partition``: a data set divided among clients as in FedCoPL or as in SAGE."""

from typing import TYPE_CHECKING, Any, TypedDict, cast

from fedcopl_lab._errors import FedCoPLError, check_choice
from fedcopl_lab.data._datasets import Dataset
from fedcopl_lab.data._fedcopl_partition import BothLabels, Drawn, draw_dirichlet, draw_quantity, iid_partition
from fedcopl_lab.data._federation import Federation
from fedcopl_lab.data._sage_partition import sage_partition
from fedcopl_lab.data._shard import FedCoPLScheme, Minimums, Mode, SageScheme, Scheme, Shard, images_by_class

if TYPE_CHECKING:
    from typing import Unpack

_MAX_REDRAWS = 1000


class PartitionOptions(TypedDict, total=False):
    """Further options of :func:`partition`."""

    fraction: int | float
    min_train: int | None
    min_test: int | None
    test_split: str | None
    class_order: str
    labelled_per_class: int | None


def partition(
    dataset: Dataset,
    scheme: Scheme,
    n_clients: int,
    beta: int | float | None = None,
    alpha: int | float | None = None,
    label_fraction: int | float | None = None,
    seed: int = 0,
    mode: Mode = "paper",
    **options: "Unpack[PartitionOptions]",
) -> Federation:
    """Divide a data set among clients: as SAGE does where ``label_fraction`` is given, else as FedCoPL does.

    Args:
        dataset: the data set.
        scheme: FedCoPL: ``"dirichlet"``, ``"quantity"`` or ``"iid"``. SAGE: ``"dirichlet"``,
            ``"pairwise_balanced"`` or ``"iid"``.
        n_clients: number of clients K.
        beta: FedCoPL's Dirichlet concentration, above 0; given for ``"dirichlet"`` and only there.
        alpha: SAGE's concentration, above 0; not with ``"iid"``.
        label_fraction: SAGE's share of labelled images, such as 0.1.
        seed: the partition's seed.
        mode: ``"paper"``, or ``"authors"`` for what the released code does, ``seed=0`` being its own.
        options: FedCoPL: ``fraction``, share of the classes that a client sees under ``"quantity"`` (0.2), and
            ``class_order`` there; ``test_split`` as in the scheme's own function; ``min_train`` and ``min_test``,
            fewest images of a client, 10 and 5, in mode ``"authors"`` what the released code checks: 10 under
            ``"dirichlet"``, else 1, and 0. SAGE: ``min_train``, fewest unlabelled images of a client (10), and
            ``labelled_per_class`` in place of the share ``label_fraction``, for which mode ``"authors"`` takes the
            manifest's labelled images per class.

    Returns:
        The :class:`Federation`.

    Raises:
        FedCoPLError: on bad arguments, on options of the other paper, or when no draw gives every client its minimum.

    >>> partition(load_dataset("digits"), "dirichlet", n_clients=5, beta=0.1)
    Federation(digits, dirichlet, beta=0.1, 5 clients, seed=0, mode=paper)

    Shown in notebooks ``00_quickstart`` and ``fedcopl_supp_fig3``.
    """
    given: dict[str, Any] = {"beta": beta, **options}
    if alpha is None and label_fraction is None:
        own = _without(given, ("labelled_per_class",), "without label_fraction")
        return _fedcopl(dataset, cast(FedCoPLScheme, scheme), n_clients, seed=seed, mode=mode, **own)
    if label_fraction is None:
        raise FedCoPLError(f"alpha={alpha} without label_fraction; give the share of labelled images, such as 0.1")
    others = ("beta", "fraction", "min_test", "test_split", "class_order")
    own = _without(given, others, "beside alpha and label_fraction, SAGE's options")
    return _sage(dataset, cast(SageScheme, scheme), n_clients, alpha, label_fraction, seed, mode, **own)


def _without(given: dict[str, Any], others: tuple[str, ...], where: str) -> dict[str, Any]:
    """The options of one paper; those of the other have to be None."""
    for name in others:
        if given.get(name) is not None:
            raise FedCoPLError(f"{name}={given[name]} has no meaning {where}; leave it out")
    return {name: value for name, value in given.items() if name not in others}


def _fedcopl(
    dataset: Dataset,
    scheme: FedCoPLScheme,
    n_clients: int,
    beta: int | float | None = None,
    fraction: int | float = 0.2,
    seed: int = 0,
    mode: Mode = "paper",
    **rest: Any,
) -> Federation:
    """Training and test images, both divided among FedCoPL's clients (experimental setup)."""
    labels = (dataset.train_labels, dataset.test_labels)
    drawn, redraws = fedcopl_shards(labels, scheme, n_clients, beta, fraction, seed, mode, **rest)
    train, test = dataset.train_indices.numpy(), dataset.test_indices.numpy()
    shards = tuple(Shard(train[shard.train], test[shard.test]) for shard in drawn)
    own = {"beta": None if beta is None else float(beta), "fraction": float(fraction) if scheme == "quantity" else None}
    return Federation(dataset, shards, scheme, n_clients, **own, seed=seed, mode=mode, redraws=redraws)


def fedcopl_shards(
    labels: BothLabels,
    scheme: FedCoPLScheme,
    n_clients: int,
    beta: int | float | None,
    fraction: int | float,
    seed: int,
    mode: Mode,
    *,
    min_train: int | None = None,
    min_test: int | None = None,
    test_split: str | None = None,
    class_order: str = "drawn",
) -> Drawn:
    """What each client of :func:`partition` gets of these training and test labels, and the draws thrown away."""
    _check_scheme(scheme, beta, test_split)
    check_choice("class_order", class_order, ("drawn", "by_number"))
    default_train = 10 if mode != "authors" or scheme == "dirichlet" else 1
    default_test = 0 if mode == "authors" else 5
    min_train = default_train if min_train is None else min_train
    min_test = default_test if min_test is None else min_test
    minimums = Minimums({"train": min_train, "test": min_test}, _MAX_REDRAWS)
    if scheme == "dirichlet":
        assert beta is not None
        return draw_dirichlet(labels, n_clients, beta, seed, mode, test_split or "own_masks", minimums)
    if scheme == "quantity":
        split = test_split or "independent"
        return draw_quantity(labels, n_clients, fraction, seed, mode, split, minimums, class_order)
    # an even split of enough images satisfies every minimum, up to the rounding of mode "authors"
    minimums.check(n_clients, *images_by_class(*labels, n_clients))
    return iid_partition(*labels, n_clients, seed, mode), 0


def _check_scheme(scheme: str, beta: int | float | None, test_split: str | None) -> None:
    check_choice("scheme", scheme, ("dirichlet", "quantity", "iid"))
    if scheme == "dirichlet" and beta is None:
        raise FedCoPLError("beta=None, but the scheme 'dirichlet' needs a number above 0; give beta=0.1")
    if scheme != "dirichlet" and beta is not None:
        raise FedCoPLError(f"beta={beta} has no meaning for the scheme {scheme!r}; leave it out or choose 'dirichlet'")
    if scheme == "iid" and test_split is not None:
        raise FedCoPLError(f"test_split={test_split!r} has no meaning for the scheme 'iid'; leave it out")


def _sage(
    dataset: Dataset,
    scheme: SageScheme,
    n_clients: int,
    alpha: int | float | None,
    label_fraction: int | float,
    seed: int = 0,
    mode: Mode = "paper",
    *,
    min_train: int | None = None,
    labelled_per_class: int | None = None,
) -> Federation:
    """Training images divided among SAGE's clients (supplement E); no client has test images."""
    if labelled_per_class is None and mode == "authors":
        labelled_per_class = dict(dataset.manifest.labelled_per_class).get(float(label_fraction))
    shards = sage_partition(
        dataset.train_labels,
        n_clients,
        alpha,
        label_fraction,
        seed,
        mode,
        scheme=scheme,
        labelled_per_class=labelled_per_class,
        min_unlabelled=10 if min_train is None else min_train,
    )
    positions = dataset.train_indices.numpy()
    mapped = tuple(Shard(positions[shard.train], shard.test, positions[shard.labelled]) for shard in shards)
    own = {"alpha": None if alpha is None else float(alpha), "label_fraction": float(label_fraction)}
    return Federation(
        dataset, mapped, scheme, n_clients, beta=None, fraction=None, seed=seed, mode=mode, redraws=0, **own
    )
