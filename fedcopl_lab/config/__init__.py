"""What a run is: frozen configurations, the profiles that fill them, and the key that names a result."""

from fedcopl_lab.config._checks import did_you_mean, pick
from fedcopl_lab.config._configure import config_from, configure, profile_name, setting_names
from fedcopl_lab.config._key import NUMERICS, run_key
from fedcopl_lab.config._presets import AUTHORS_MODE, CPL_LEVELS, METHODS, NATIVE_MODE, PROFILES, cpl_levels
from fedcopl_lab.config._prompting import PRIVATE_NOISE, PromptConfig
from fedcopl_lab.config._run import RunConfig
from fedcopl_lab.config._sage import (
    KAPPA_STAR,
    SAGE_AUTHORS_MODE,
    SAGE_METHODS,
    SAGE_PROFILES,
    SageConfig,
    SageMethodName,
)
from fedcopl_lab.config._switches import READERS, readers_of

__all__ = [
    "AUTHORS_MODE",
    "CPL_LEVELS",
    "KAPPA_STAR",
    "METHODS",
    "NATIVE_MODE",
    "NUMERICS",
    "PRIVATE_NOISE",
    "PROFILES",
    "READERS",
    "SAGE_AUTHORS_MODE",
    "SAGE_METHODS",
    "SAGE_PROFILES",
    "PromptConfig",
    "RunConfig",
    "SageConfig",
    "SageMethodName",
    "config_from",
    "configure",
    "cpl_levels",
    "did_you_mean",
    "pick",
    "profile_name",
    "readers_of",
    "run_key",
    "setting_names",
]
