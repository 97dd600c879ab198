"""The report's HTML templates, all rendered by the same rules."""

from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from fedcopl_lab.report._words import is_own

SYMBOLS = {"holds": "✓", "does not hold": "✗", "within noise": "≈", "not tested": "–"}
"""Verdict -> the sign before it, so that colour is never needed to read it."""


def render(template: str, **page: Any) -> str:
    """A template of this folder as HTML; every value is escaped, and a name that is missing is an error."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=FunctionLoader(_source)
    )
    environment.globals |= {"symbols": SYMBOLS, "is_own": is_own}
    return environment.get_template(template).render(page)


def _source(name: str) -> str:
    return resources.files("fedcopl_lab.report").joinpath(name).read_text(encoding="utf-8")
