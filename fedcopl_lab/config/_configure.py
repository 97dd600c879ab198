"""One door to a run's configuration: profile, method, mode, and what the caller changes."""

import inspect
import os
from collections.abc import Mapping
from typing import Any, Unpack, get_args, overload

from fedcopl_lab._errors import FedCoPLError, check_choice, check_known, did_you_mean, pick
from fedcopl_lab.config import _presets as presets
from fedcopl_lab.config._prompt_config import PromptConfig, PromptMethodName
from fedcopl_lab.config._registered import REGISTERED, Registered, settings_like
from fedcopl_lab.config._run_config import RunConfig, current_names, flat_defaults, from_flat, from_stored, is_read
from fedcopl_lab.config._sage_config import SAGE_METHODS, TOGETHER, SageConfig, SageMethodName
from fedcopl_lab.config._settings import Mode, PromptSettings, SageSettings, Unread


@overload
def configure(profile: str | None = ..., *, method: SageMethodName, **settings: Unpack[SageSettings]) -> SageConfig: ...
@overload
def configure(
    profile: str | None = ..., *, method: PromptMethodName = ..., **settings: Unpack[PromptSettings]
) -> PromptConfig: ...
@overload
def configure(profile: str | None = ..., *, method: str, **settings: Any) -> Any: ...
def configure(
    profile: str | None = None,
    *,
    method: str = "FedCoPL",
    mode: str = "paper",
    unread: Unread = "refuse",
    **settings: Any,
) -> Any:
    """A complete run configuration: the profile, then the method's preset, then the mode, then your settings.

    Args:
        profile: ``"smoke"``, ``"mini"`` or ``"paper"``; None takes ``$FEDCOPL_LAB_PROFILE`` or ``"smoke"``.
        method: a method of FedCoPL's tables (:data:`METHODS`), of SAGE's (:data:`SAGE_METHODS`), or one that
            :func:`fedcopl_lab.methods.register` entered.
        mode: ``"paper"``, one setting for all methods as the papers' tables compare them; ``"authors"`` for the
            released code's behaviour (:data:`AUTHORS_MODE`, :data:`SAGE_AUTHORS_MODE`); ``"native"`` for each FedCoPL
            baseline's own defaults (:data:`NATIVE_MODE`).
        unread: what to do with a setting of the other paper or one that the method does not read: ``"refuse"`` or
            ``"drop"`` it, so that one dictionary serves a sweep over methods. An unknown name is always refused.
        settings: any field of :class:`PromptConfig`, or of :class:`SageConfig` for SAGE's methods; a baseline's own
            by flat name, such as ``fedmatch_helpers=3``.

    Raises:
        FedCoPLError: an unknown profile, method or setting, one that would change nothing in the method (a labeller's
            are taken beside any labeller, so that one sweep can compare them), or a value outside its range.

    >>> configure("smoke", method="PromptFL", labeller="CoPL").aggregate
    'both'
    >>> configs = [configure("smoke", method=name, kappa=5.0, unread="drop") for name in ("FixMatch-LPL", "SAGE")]
    >>> [config.kappa for config in configs]
    [13.86..., 5.0]

    Shown in notebook ``00_quickstart``.
    """
    check_known(method, (*presets.METHODS, *SAGE_METHODS, *REGISTERED), "method")
    check_choice("mode", mode, get_args(Mode))
    check_choice("unread", unread, get_args(Unread))
    name = profile or os.environ.get("FEDCOPL_LAB_PROFILE") or "smoke"
    like = settings_like(method)
    if method in REGISTERED:
        settings = {**REGISTERED[method].preset, **settings}
    if like in SAGE_METHODS:
        alone = {"clients_per_forward": 1} if method in REGISTERED else {}  # its hooks may want one client at a time
        changes = alone | _known_settings(settings, SageConfig, like, unread)
        return from_flat(SageConfig, {"profile": name, "method": method, **_sage_preset(name, like, mode, changes)})
    changes = _known_settings(settings, PromptConfig, like, unread)
    return from_flat(PromptConfig, {"profile": name, "method": method, **_prompt_preset(name, like, mode, changes)})


def profile_name(profile: str | None = None) -> str:
    """The name of a profile that either paper has; None takes ``$FEDCOPL_LAB_PROFILE`` or ``"smoke"``.

    >>> profile_name("smoke")
    'smoke'
    """
    name = profile or os.environ.get("FEDCOPL_LAB_PROFILE") or "smoke"
    check_known(name, {**presets.PROFILES, **presets.SAGE_PROFILES}, "profile")
    return name


def config_from(settings: Mapping[str, Any]) -> RunConfig:
    """The configuration that :meth:`RunConfig.as_dict` wrote; that of a method which is not registered can be read."""
    method = settings.get("method")
    if isinstance(method, str) and method not in (*presets.METHODS, *SAGE_METHODS, *REGISTERED):
        REGISTERED[method] = Registered(like="FedCoPL" if "clip" in settings else "SAGE", known_here=False)
    return from_stored(SageConfig if settings_like(str(method)) in SAGE_METHODS else PromptConfig, settings)


def check_registered(method: str) -> None:
    """Refuse a method that only a stored run, or another process, knows."""
    here = method in REGISTERED and REGISTERED[method].known_here
    if not here and method not in (*presets.METHODS, *SAGE_METHODS):
        raise FedCoPLError(
            f"method={method!r} is not registered in this process; import the module that calls "
            "lab.methods.register (--plugin MODULE on the command line), or pass jobs=1 to lab.sweep in a notebook"
        )


def setting_names(kind: type[RunConfig] | None = None) -> set[str]:
    """The flat names of every setting of that kind of run; None: of any kind."""
    return {name for one in ((PromptConfig, SageConfig) if kind is None else (kind,)) for name in flat_defaults(one)}


def _prompt_preset(name: str, method: str, mode: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    preset = {**pick(presets.PROFILES, name, "profile"), **presets.METHODS[method]}
    if name == "paper" and str(changes.get("dataset")) in presets.PAPER_CLIENTS:
        preset["n_clients"] = presets.PAPER_CLIENTS[changes["dataset"]]
    preset |= {"authors": presets.AUTHORS_MODE, "native": presets.NATIVE_MODE[method]}.get(mode, {})
    preset |= PromptConfig.unused(changes)
    if changes.get("scheme") == "quantity":
        preset["fraction"] = 0.2
    preset |= changes
    if preset.get("momentum_state") == "shared":  # one buffer goes from client to client: no two at a time
        preset["clients_per_forward"] = changes.get("clients_per_forward", 1)
    return preset


def _sage_preset(name: str, method: str, mode: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    preset = {**pick(presets.SAGE_PROFILES, name, "profile"), **presets.SAGE_METHOD_PRESETS.get(method, {})}
    if name == "paper":
        preset |= presets.SAGE_PAPER_METHODS.get(method, {})
        if str(changes.get("dataset")) in presets.PAPER_ROUNDS:
            preset["rounds"] = presets.PAPER_ROUNDS[changes["dataset"]]
    if mode == "authors":
        preset |= presets.SAGE_AUTHORS_MODE
        if str(changes.get("device")).startswith("cuda"):
            preset["precision"] = "tf32"  # torch's default for convolutions, which the released code leaves as it is
    preset |= SageConfig.unused(changes)
    if changes.get("label_fraction") is not None:  # a share takes the place of the profile's number per class
        if changes.get("labelled_per_class") is not None:
            raise FedCoPLError("label_fraction beside labelled_per_class would change nothing; give one of the two")
        preset["labelled_per_class"] = None
    preset |= changes
    if any(preset.get(setting, needed) != needed for setting, needed in TOGETHER.items()):
        preset["clients_per_forward"] = changes.get("clients_per_forward", 1)
    return preset


def _known_settings(given: Mapping[str, Any], kind: type[RunConfig], method: str, unread: Unread) -> dict[str, Any]:
    """The settings in today's names; an unknown one is refused, one that the method does not read may be dropped."""
    known, elsewhere, found = setting_names(kind), setting_names(), {}
    for name, value in current_names(given).items():
        if name not in known and (name not in elsewhere or unread == "refuse"):
            other = f" of {method}, though of other methods" if name in elsewhere else ""
            raise FedCoPLError(f"unknown setting {name!r}{other}{did_you_mean(name, known)}")
        if name in known and (unread == "refuse" or is_read(name, method)):
            found[name] = value
    return found


def _signature() -> inspect.Signature:
    """Every setting by name with its default (... where profile or method decide), for completion in notebooks."""
    own = [one for one in inspect.signature(configure).parameters.values() if one.kind is not one.VAR_KEYWORD]
    first, second = flat_defaults(PromptConfig), flat_defaults(SageConfig)
    differ = {name: ... for name in first if name in second and first[name] != second[name]}
    defaults = sorted((first | second | differ).items())
    known = {one.name for one in own}
    by_name = inspect.Parameter.KEYWORD_ONLY
    more = [inspect.Parameter(name, by_name, default=value) for name, value in defaults if name not in known]
    return inspect.Signature([*own, *more])


vars(configure)["__signature__"] = _signature()
