"""What a run is: frozen configurations, the profiles that fill them, and the key that names a result."""

from fedcopl_lab.config._checks import did_you_mean, pick
from fedcopl_lab.config._configure import config_from, configure, setting_names
from fedcopl_lab.config._key import NUMERICS, run_key
from fedcopl_lab.config._prompting import AUTHORS_MODE, METHODS, PROFILES, PromptConfig
from fedcopl_lab.config._run import RunConfig
from fedcopl_lab.config._sage import (
    KAPPA_STAR,
    SAGE_AUTHORS_MODE,
    SAGE_METHODS,
    SAGE_PROFILES,
    SageConfig,
    SageMethodName,
)

__all__ = [
    "AUTHORS_MODE",
    "KAPPA_STAR",
    "METHODS",
    "NUMERICS",
    "PROFILES",
    "SAGE_AUTHORS_MODE",
    "SAGE_METHODS",
    "SAGE_PROFILES",
    "PromptConfig",
    "RunConfig",
    "SageConfig",
    "SageMethodName",
    "config_from",
    "configure",
    "did_you_mean",
    "pick",
    "run_key",
    "setting_names",
]
