"""Public names that load their module on first use, so that listing runs or drawing figures never loads torch."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, where: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package whose public names live in the given modules (PEP 562).

    Args:
        package: the package's ``__name__``.
        where: module, relative to the package -> its public names, with spaces between them; a name that is the
            module's own stands for the module.

    >>> load, names = lazy_names("fedcopl_lab", {".store": "Run runs"})
    >>> names(), load("runs").__name__
    (['Run', 'runs'], 'runs')
    """
    of = {name: module for module, names in where.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(of[name], package)
        return module if of[name].rpartition(".")[2] == name else getattr(module, name)

    return load, lambda: sorted(of)
