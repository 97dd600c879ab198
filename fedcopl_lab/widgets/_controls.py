"""Labelled controls of one look; all work with the keyboard."""

from collections.abc import Iterable
from typing import Any

import ipywidgets

_WIDE = ipywidgets.Layout
_LABEL = {"description_width": "130px"}


def slider(
    label: str, value: int | float, low: int | float, high: int | float, step: int | float, tip: str, digits: int = 2
) -> Any:
    """A number that moves by the arrow keys."""
    return ipywidgets.FloatSlider(
        value=value, min=low, max=high, step=step, description=label, tooltip=tip, readout_format=f".{digits}f",
        continuous_update=True, style=_LABEL, layout=_WIDE(width="410px"),
    )  # fmt: skip


def log_slider(label: str, value: int | float, low: int | float, high: int | float, step: int | float, tip: str) -> Any:
    """A positive number that moves by equal factors; ``low``, ``high`` and ``step`` are powers of ten."""
    return ipywidgets.FloatLogSlider(
        value=value, base=10, min=low, max=high, step=step, description=label, tooltip=tip, readout_format=".3g",
        continuous_update=True, style=_LABEL, layout=_WIDE(width="410px"),
    )  # fmt: skip


def whole(label: str, value: int, low: int, high: int, tip: str) -> Any:
    """A whole number that moves by the arrow keys."""
    return ipywidgets.IntSlider(
        value=value, min=low, max=high, description=label, tooltip=tip, continuous_update=True, style=_LABEL,
        layout=_WIDE(width="410px"),
    )  # fmt: skip


def choice(label: str, value: Any, options: Iterable[Any], tip: str) -> Any:
    """One of a few; options are values, or pairs of a label and a value."""
    return ipywidgets.Dropdown(
        options=list(options), value=value, description=label, tooltip=tip, style=_LABEL, layout=_WIDE(width="410px")
    )
