"""One door to a run's configuration: profile, method, mode, and what the caller changes."""

import dataclasses
import os
from typing import Any, cast, get_args, overload

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.config._checks import did_you_mean, pick
from fedcopl_lab.config._presets import AUTHORS_MODE, METHODS, NATIVE_MODE, PROFILES, Mode
from fedcopl_lab.config._prompting import PromptConfig, PromptMethodName
from fedcopl_lab.config._run import RunConfig
from fedcopl_lab.config._sage import (
    PAPER_ROUNDS,
    SAGE_AUTHORS_MODE,
    SAGE_METHODS,
    SAGE_PROFILES,
    SageConfig,
    SageMethodName,
)


@overload
def configure(profile: str | None = ..., *, method: SageMethodName, mode: str = ..., **changes: Any) -> SageConfig: ...
@overload
def configure(
    profile: str | None = ..., *, method: PromptMethodName = ..., mode: str = ..., **changes: Any
) -> PromptConfig: ...
@overload
def configure(profile: str | None = ..., *, method: str, mode: str = ..., **changes: Any) -> Any: ...
def configure(profile: str | None = None, *, method: str = "FedCoPL", mode: str = "paper", **changes: Any) -> Any:
    """A complete run configuration: the profile, then the method's preset, then the mode, then your changes.

    Args:
        profile: ``"smoke"``, ``"mini"`` or ``"paper"``; None takes ``$FEDCOPL_LAB_PROFILE`` or ``"smoke"``.
        method: a method of FedCoPL's tables (:data:`METHODS`) or of SAGE's (:data:`SAGE_METHODS`).
        mode: ``"paper"``, one setting for all methods as the papers' tables compare them; ``"authors"`` for the
            released code's behaviour (:data:`AUTHORS_MODE`, :data:`SAGE_AUTHORS_MODE`); ``"native"`` for each FedCoPL
            baseline's own defaults (:data:`NATIVE_MODE`).
        changes: any field of :class:`PromptConfig`, or of :class:`SageConfig` for SAGE's methods.

    Raises:
        FedCoPLError: an unknown profile, method or field, or a value outside its range.

    >>> configure("smoke", method="PromptFL", labeller="CoPL").aggregate
    'both'
    >>> configure("smoke", method="SAGE").threshold
    0.95

    Shown in notebook ``00_quickstart``.
    """
    pick({**METHODS, **SAGE_METHODS}, method, "method")
    if mode not in get_args(Mode):
        raise FedCoPLError(f"mode={mode!r} is unknown; choose one of {', '.join(get_args(Mode))}")
    name = profile or os.environ.get("FEDCOPL_LAB_PROFILE") or "smoke"
    if method in SAGE_METHODS:
        return _configure_sage(name, cast(SageMethodName, method), mode, changes)
    return _configure_prompting(name, cast(PromptMethodName, method), mode, changes)


def profile_name(profile: str | None = None) -> str:
    """The name of a profile that either paper has; None takes ``$FEDCOPL_LAB_PROFILE`` or ``"smoke"``.

    >>> profile_name("smoke")
    'smoke'
    """
    name = profile or os.environ.get("FEDCOPL_LAB_PROFILE") or "smoke"
    pick({**PROFILES, **SAGE_PROFILES}, name, "profile")
    return name


def config_from(settings: dict[str, Any]) -> RunConfig:
    """The configuration that :meth:`RunConfig.as_dict` wrote."""
    kind = SageConfig if settings.get("method") in SAGE_METHODS else PromptConfig
    return kind(**settings)


def setting_names(kind: type[RunConfig] | None = None) -> set[str]:
    """Every setting of that kind of run; None: of any kind."""
    kinds = (PromptConfig, SageConfig) if kind is None else (kind,)
    return {field.name for one in kinds for field in dataclasses.fields(one)}


def _configure_prompting(name: str, method: PromptMethodName, mode: str, changes: dict[str, Any]) -> PromptConfig:
    _check_names(changes, PromptConfig, method)
    preset = {**pick(PROFILES, name, "profile"), **METHODS[method]}
    if mode == "authors":
        preset.update(AUTHORS_MODE)
    if mode == "native":
        preset.update(NATIVE_MODE[method])
    if changes.get("scheme", "dirichlet") != "dirichlet":
        preset["beta"] = None
    if changes.get("scheme") == "quantity":
        preset["fraction"] = 0.2
    preset.update(changes)
    if preset.get("momentum_state") == "shared":  # one buffer goes from client to client: no two at a time
        preset["clients_per_forward"] = changes.get("clients_per_forward", 1)
    return PromptConfig(profile=name, method=method, **preset)


def _configure_sage(name: str, method: SageMethodName, mode: str, changes: dict[str, Any]) -> SageConfig:
    _check_names(changes, SageConfig, method)
    preset = {**pick(SAGE_PROFILES, name, "profile"), **SAGE_METHODS[method]}
    if name == "paper" and changes.get("dataset") in PAPER_ROUNDS:
        preset["rounds"] = PAPER_ROUNDS[changes["dataset"]]
    if mode == "authors":
        preset.update(SAGE_AUTHORS_MODE)
    if changes.get("scheme") == "iid":
        preset["alpha"] = None
    preset.update(changes)
    return SageConfig(profile=name, method=method, **preset)


def _check_names(changes: dict[str, Any], kind: type[RunConfig], method: str) -> None:
    known = setting_names(kind)
    for field in changes:
        if field not in known:
            other = f" of {method}, though of other methods" if field in setting_names() else ""
            raise FedCoPLError(f"unknown setting {field!r}{other}{did_you_mean(field, known)}")
