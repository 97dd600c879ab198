"""Methods from outside the package, as configurations know them; ``fedcopl_lab.methods.register`` enters them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Registered:
    """What a configuration needs to know of a registered method."""

    like: str  # the method of this package whose settings it has
    version: int = 1  # of its code; part of the run key
    preset: Mapping[str, Any] = field(default_factory=dict)  # settings that it changes in a profile
    module: str = ""  # the module that registered it, which worker processes import; empty where that is not known
    known_here: bool = True  # False: a stored run names it, and which settings it reads is not known


REGISTERED: dict[str, Registered] = {}
"""Registered methods by name."""


def settings_like(method: str) -> str:
    """The method of this package whose settings a method has: itself, unless it was registered.

    >>> settings_like("FedOTP")
    'FedOTP'
    """
    return REGISTERED[method].like if method in REGISTERED else method
