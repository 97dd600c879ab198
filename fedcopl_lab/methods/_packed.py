"""Vectors that travel between clients and server: only the entries that are not 0, when that is shorter."""

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor

_DENSE, _VALUES, _POSITIONS = "dense", "values", "positions"


def packed(vector: Float[Tensor, "n"], name: str) -> dict[str, Tensor]:
    """A vector as named tensors, dense or as float32 values with int32 positions, whichever has fewer bytes.

    >>> sorted(packed(torch.tensor([0.0, 0.0, 5.0]), "psi"))
    ['psi/positions', 'psi/values']
    """
    positions = vector.nonzero().squeeze(1).int()
    if positions.nbytes + positions.numel() * vector.element_size() >= vector.nbytes:
        return {f"{name}/{_DENSE}": vector.clone()}
    return {f"{name}/{_VALUES}": vector[positions.long()], f"{name}/{_POSITIONS}": positions}


def holds(tensors: Mapping[str, Tensor], name: str) -> bool:
    """Whether a vector of that name was packed."""
    return f"{name}/{_DENSE}" in tensors or f"{name}/{_VALUES}" in tensors


def unpacked(tensors: Mapping[str, Tensor], name: str, size: int) -> Float[Tensor, "size"]:
    """The vector that :func:`packed` took apart, [size].

    >>> unpacked(packed(torch.tensor([0.0, 0.0, 5.0]), "psi"), "psi", 3)
    tensor([0., 0., 5.])
    """
    if f"{name}/{_DENSE}" in tensors:
        return tensors[f"{name}/{_DENSE}"]
    values = tensors[f"{name}/{_VALUES}"]
    vector = values.new_zeros(size)
    vector[tensors[f"{name}/{_POSITIONS}"].long()] = values
    return vector


def renamed(tensors: Mapping[str, Tensor], old: str, new: str) -> dict[str, Tensor]:
    """The packed vector of one name under another."""
    start = f"{old}/"
    return {f"{new}/{name.removeprefix(start)}": value for name, value in tensors.items() if name.startswith(start)}
