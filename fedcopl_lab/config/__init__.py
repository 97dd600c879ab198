"""What a run is: frozen configurations, the profiles that fill them, and the key that names a result."""

from fedcopl_lab.config._configure import check_registered, config_from, configure, profile_name, setting_names
from fedcopl_lab.config._presets import (
    AUTHORS_MODE,
    CPL_LEVELS,
    EXPECTED,
    METHODS,
    NATIVE_MODE,
    PROFILES,
    SAGE_AUTHORS_MODE,
    SAGE_PROFILES,
    cpl_levels,
)
from fedcopl_lab.config._prompt_config import PromptConfig
from fedcopl_lab.config._registered import REGISTERED, Registered, settings_like
from fedcopl_lab.config._run_config import NUMERICS, READERS, STORED_NAMES, RunConfig, readers_of, run_key
from fedcopl_lab.config._sage_config import KAPPA_STAR, LAST_ROUNDS, SAGE_METHODS, SageConfig, SageMethodName
from fedcopl_lab.config._settings import PromptSettings, SageSettings

__all__ = ["AUTHORS_MODE", "CPL_LEVELS", "EXPECTED", "KAPPA_STAR", "LAST_ROUNDS", "METHODS", "NATIVE_MODE", "NUMERICS",
           "PROFILES", "READERS", "REGISTERED", "SAGE_AUTHORS_MODE", "SAGE_METHODS", "SAGE_PROFILES",
           "STORED_NAMES", "PromptConfig", "PromptSettings", "Registered", "RunConfig", "SageConfig", "SageMethodName",
           "SageSettings", "check_registered", "config_from", "configure", "cpl_levels", "profile_name",
           "readers_of", "run_key", "setting_names", "settings_like"]  # fmt: skip
