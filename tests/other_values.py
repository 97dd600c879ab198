"""Another valid value for every setting of a configuration than it has."""

from typing import Literal, get_args, get_origin, get_type_hints

from fedcopl_lab import PromptConfig
from fedcopl_lab.config import PromptSettings, SageSettings

CHOSEN = {
    PromptConfig: {"method": "PromptFL", "scheme": "iid", "labeller": "FPL", "count_noise": "half"},
    None: {"method": "FixMatch-LPL"},
}
"""Where another value needs further ones beside it, or where there is none to derive."""


def types_of(kind):
    """Flat name of every setting of that kind of configuration, profile and method apart -> its type."""
    types = get_type_hints(PromptSettings if kind is PromptConfig else SageSettings)
    return {name: one for name, one in types.items() if name not in ("mode", "unread")}


def literal_choices(annotation):
    arms = [annotation, *get_args(annotation)]
    return next((get_args(arm) for arm in arms if get_origin(arm) is Literal), ())


def other_values(kind, values):
    """Setting -> another value than the given one."""
    found = {"profile": "other"}
    for name, annotation in types_of(kind).items():
        value, choices = values[name], literal_choices(annotation)
        if choices:
            found[name] = next(choice for choice in choices if choice != value)
        elif isinstance(value, bool):
            found[name] = not value
        elif value is None:
            found[name] = 9 if int in get_args(annotation) else 0.5
        else:
            found[name] = {int: lambda v: v + 1, float: lambda v: v / 2, str: lambda v: f"{v}x"}[type(value)](value)
    return found | CHOSEN.get(kind, CHOSEN[None])
