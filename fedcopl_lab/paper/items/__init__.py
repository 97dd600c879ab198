"""Every table and figure that can be made: a TOML file per paper says what each shows, a module which runs it needs."""

import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from fedcopl_lab._errors import FedCoPLError, did_you_mean
from fedcopl_lab.paper.items._fedcopl_columns import PAPER_SETS
from fedcopl_lab.paper.items._fedcopl_runs import FEDCOPL_CELLS, NOT_RUN
from fedcopl_lab.paper.items._item import SEEDS, Cell, Drawing, Item, NotRun, Reads, ways_on_cards
from fedcopl_lab.paper.items._sage_runs import SAGE_CELLS, SAGE_SETS, targets

_CELLS = FEDCOPL_CELLS | SAGE_CELLS
_TEXTS = [
    tomllib.loads((resources.files("fedcopl_lab.paper.items") / name).read_text(encoding="utf-8"))
    for name in ("fedcopl.toml", "sage.toml")
]
_SENTENCES: list[dict[str, str]] = [texts["sentences"] for texts in _TEXTS]
_OF_PROFILE: dict[str, dict[str, tuple[str, ...]]] = {
    "mini": {one["smoke"]: (one["mini"],) for one in _SENTENCES},
    "paper": {one["smoke"]: () for one in _SENTENCES},
}
"""Profile -> what its items say instead of a sentence about smoke."""

__all__ = ["ITEMS", "PAPER_SETS", "SAGE_SETS", "SEEDS", "Cell", "Drawing",
           "Item", "NotRun", "Reads", "differences", "find_items", "has_runs", "targets",
           "ways_on_cards"]  # fmt: skip


def _item(name: str, told: dict[str, Any], sentences: dict[str, str]) -> Item:
    """An item from its entry in a TOML file."""
    fields: dict[str, Any] = {"reads": "final", "drawing": "dots"} | told
    fields |= {field: tuple(value) for field, value in told.items() if isinstance(value, list)}
    fields["metrics"] = tuple(told.get("metrics", "").split())
    fields["differs"] = tuple(sentences.get(one, one) for one in told["differs"])
    fields["not_run"] = lambda profile: NOT_RUN.get(name, {}).get(profile, ())
    return Item(id=name, cells=_CELLS[name], **fields)


ITEMS: tuple[Item, ...] = tuple(
    _item(name, told, texts["sentences"]) for texts in _TEXTS for name, told in texts["items"].items()
)
_GROUPS: dict[str, tuple[Item, ...]] = {
    "paper": tuple(item for item in ITEMS if not item.beyond),
    "beyond": tuple(item for item in ITEMS if item.beyond),
    "fedcopl": tuple(item for item in ITEMS if item.id.startswith("fedcopl_")),
    "sage": tuple(item for item in ITEMS if item.id.startswith("sage_")),
    "all": ITEMS,
}
"""Names for several items at once; ``paper`` is what the papers show and the default."""
_BY_SOURCE = {item.source.lower(): (item,) for item in reversed(_GROUPS["paper"])}  # FedCoPL's where both have one
_NAMED = _BY_SOURCE | {item.id: (item,) for item in ITEMS} | _GROUPS


def differences(item: Item, profile: str) -> tuple[str, ...]:
    """What differs from the paper's item in that profile, one sentence each; ``item.differs`` is smoke's.

    >>> len(differences(find_items(["main Table 2"])[0], "paper"))
    4
    """
    instead = _OF_PROFILE.get(profile, {})
    return tuple(said for sentence in item.differs for said in instead.get(sentence, (sentence,)))


def has_runs(item: Item, profile: str) -> bool:
    """Whether a profile can make the item: it has cells there, or needs no runs at all.

    >>> has_runs(find_items(["main Table 4"])[0], "mini")
    False
    """
    return item.reads in ("manifests", "nothing") or bool(item.cells(profile))


def find_items(names: Sequence[str] | None = None) -> tuple[Item, ...]:
    """The items of these ids, sources or groups; without names those of the papers.

    Args:
        names: such as ``"fedcopl_main_table1"``, ``"main Table 1"`` (FedCoPL's where both papers have one), or a
            group: ``"paper"``, ``"beyond"`` (ours), ``"fedcopl"``, ``"sage"``, ``"all"``.

    Raises:
        FedCoPLError: an unknown name, with the known ones.

    >>> find_items(["main Table 1"])[0].id
    'fedcopl_main_table1'
    """
    found: dict[Item, None] = {}
    for name in map(str.lower, names or ("paper",)):
        if name not in _NAMED:
            known = ", ".join([*_GROUPS, *(item.id for item in ITEMS)])
            raise FedCoPLError(f"unknown item {name!r}{did_you_mean(name, _NAMED)}; known: {known}")
        found |= dict.fromkeys(_NAMED[name])
    return tuple(found)
