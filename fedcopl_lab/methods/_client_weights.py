"""How much each client counts in the server's mean: one rule for each paper."""

from typing import Any

from fedcopl_lab.config import PromptConfig, SageConfig

_AUTHORS_COPIES = 2000  # SAGE's released code counts a labelled image as often as its sampler repeats it


def prompt_weight(config: PromptConfig, wanted: Any, selected: Any) -> Any:
    """A client's weight in the mean: the images that it was to select, or those that it selected (Eq. 4).

    >>> prompt_weight(lab.configure("smoke", weight_by="selected"), wanted=40, selected=38)
    38
    """
    return wanted if config.weight_by == "quota" else selected


def sage_weight(config: SageConfig, n_labelled: int, n_pool: int) -> int:
    """A client's weight in the mean, from its labelled images and the size of its pool (SAGE Alg. 1).

    >>> sage_weight(lab.configure("smoke", method="SAGE"), n_labelled=12, n_pool=100)
    112
    """
    if config.weight_by == "uniform":
        return 1
    return (_AUTHORS_COPIES if config.weight_by == "authors" else 1) * n_labelled + n_pool
