"""One door to a run's configuration: profile, method, mode, and what the caller changes."""

import dataclasses
import os
from typing import Any, cast, get_args

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config._checks import did_you_mean, pick
from fedcopl_lab.config._presets import AUTHORS_MODE, METHODS, NATIVE_MODE, PROFILES, Mode
from fedcopl_lab.config._prompting import PromptConfig, PromptMethodName
from fedcopl_lab.config._run import RunConfig


def configure(
    profile: str | None = None, *, method: str = "FedCoPL", mode: str = "paper", **changes: Any
) -> PromptConfig:
    """A complete run configuration: the profile, then the method's preset, then the mode, then your changes.

    Args:
        profile: ``"smoke"`` or ``"paper"``; None takes ``$FEDCOPL_LAB_PROFILE`` or ``"smoke"``.
        method: ``"zero-shot"``, ``"PromptFL"``, ``"PromptProx"``, ``"pFedPrompt"``, ``"FedOTP"`` or ``"FedCoPL"``.
        mode: ``"paper"``, one setting for all methods as its Table 1 compares them; ``"authors"`` for the
            released code's behaviour (:data:`AUTHORS_MODE`); ``"native"`` for each baseline's own defaults
            (:data:`NATIVE_MODE`).
        changes: any field of :class:`PromptConfig`.

    Raises:
        FedCoPLError: an unknown profile, method or field, or a value outside its range.

    >>> configure("smoke", method="PromptFL", labeller="CoPL").aggregate
    'both'

    Shown in notebook ``00_quickstart``.
    """
    name = profile or os.environ.get("FEDCOPL_LAB_PROFILE") or "smoke"
    known = setting_names()
    for field in changes:
        if field not in known:
            raise FedCoPLError(f"unknown setting {field!r}{did_you_mean(field, known)}")
    preset = {**pick(PROFILES, name, "profile"), **pick(METHODS, method, "method")}
    if mode not in get_args(Mode):
        raise FedCoPLError(f"mode={mode!r} is unknown; choose one of {', '.join(get_args(Mode))}")
    if mode == "authors":
        preset.update(AUTHORS_MODE)
    if mode == "native":
        preset.update(NATIVE_MODE[method])
    if changes.get("scheme", "dirichlet") != "dirichlet":
        preset["beta"] = None
    if changes.get("scheme") == "quantity":
        preset["fraction"] = 0.2
    preset.update(changes)
    return PromptConfig(profile=name, method=cast(PromptMethodName, method), **preset)


def config_from(settings: dict[str, Any]) -> RunConfig:
    """The configuration that :meth:`RunConfig.as_dict` wrote."""
    return PromptConfig(**settings)


def setting_names() -> set[str]:
    """Every setting that some run has."""
    return {field.name for field in dataclasses.fields(PromptConfig)}
