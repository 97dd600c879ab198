"""Public names that load their module on first use, so that listing runs or drawing figures never loads torch."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, where: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package whose public names live in the given modules (PEP 562).

    Args:
        package: the package's ``__name__``.
        where: public name -> module, relative to the package; a name that is the module's own stands for the module.

    >>> load, names = lazy_names("fedcopl_lab", {"runs": ".store"})
    >>> names(), load("runs").__name__
    (['runs'], 'runs')
    """

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(where[name], package)
        return module if where[name].rpartition(".")[2] == name else getattr(module, name)

    return load, lambda: sorted(where)
