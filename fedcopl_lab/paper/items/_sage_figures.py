"""SAGE's figures: confidences, counts, lambda, entropies, agreement, convergence, label skew, its theory."""

from collections.abc import Callable, Sequence
from typing import Any

from fedcopl_lab.paper.items._item import Cell, Item
from fedcopl_lab.paper.items._sage import CONVERGING, long_runs
from fedcopl_lab.paper.items._sage_columns import (
    BY_ALPHA,
    FEW_SEEDS,
    PARTITION,
    REPEATED,
    SMOKE_DIFFERS,
    cells,
    on_analysed_set,
    rows_of,
)

_NO_VALUES = "The paper's figure was not available to us; its caption and text say what it shows."
_RAW_COUNTS = "Counts are of weak views drawn in a round; an image counts as often as it was drawn."

SURE = ("n_local", "n_global", "n_views")
QUANTITY_AND_QUALITY = (
    "share_local", "share_global", "share_cpg", "share_added",
    "label_accuracy_local", "label_accuracy_global", "label_accuracy_cpg", "label_accuracy_added",
    "share_minority_local", "share_minority_global", "share_minority_cpg",
    "label_accuracy_minority_local", "label_accuracy_minority_global", "label_accuracy_minority_cpg",
)  # fmt: skip


def _sage_at(*alphas: str) -> Callable[[str], list[Cell]]:
    chosen = {name: BY_ALPHA[name] for name in alphas} if alphas else BY_ALPHA
    return lambda profile: cells(profile, rows_of(("SAGE",)), on_analysed_set(profile, chosen))


def _three_at_each_alpha(profile: str) -> list[Cell]:
    return cells(profile, rows_of(REPEATED), on_analysed_set(profile))


def _converging(*columns: str) -> Callable[[str], list[Cell]]:
    return lambda profile: [
        cell for column in columns for cell in cells(profile, rows_of(CONVERGING), long_runs(profile, column))
    ]


def _split(profile: str) -> Sequence[Cell]:
    return cells(profile, {"images": {"method": "SAGE"}}, on_analysed_set(profile, data="CIFAR-10"))


def _figure(place: str, source: str, title: str, question: str, **more: Any) -> Item:
    common: dict[str, Any] = {"reads": "pseudo_labels", "drawing": "rounds", "cells": _sage_at()}
    differs = (*more.pop("differs", ()), SMOKE_DIFFERS, _NO_VALUES)
    return Item(id=f"sage_{place}", source=source, title=title, question=question, differs=differs, **common | more)


SAGE_FIGURES: tuple[Item, ...] = (
    _figure(
        "main_fig2a", "main Fig. 2(a)", "Confidence of the local and the global model",
        "Do clients' models become bolder and the global model more careful as the split becomes more uneven?",
        reads="confidences", metrics=("local", "global"), drawing="confidences", notebook="sage_confidence",
        differs=("Shares over the first third of the rounds, 20 bins of confidence.",),
    ),
    _figure(
        "main_fig2b", "main Fig. 2(b)", "Pseudo-labels of the local and the global model",
        "Which of the two models passes the threshold more often, and when?",
        metrics=SURE, cells=_sage_at("α = 0.1"), notebook="sage_confidence", differs=(_RAW_COUNTS,),
    ),
    _figure(
        "main_fig5", "main Figs. 5, 6", "Convergence at α = 1", "Who learns faster on an even split?",
        reads="rounds", metrics=("accuracy",), drawing="curves", cells=_converging("α = 1"),
        notebook="sage_convergence", differs=(FEW_SEEDS,),
    ),
    _figure(
        "main_fig7", "main Fig. 7", "What the global model's labels add, at α = 0.1",
        "How many more images get a label through CPG, and are these labels right?",
        metrics=QUANTITY_AND_QUALITY, cells=_sage_at("α = 0.1"), notebook="sage_parts",
        differs=("Minority: classes with less than half of the client's mean class count.",),
    ),
    _figure(
        "main_fig8", "main Fig. 8", "Agreement of the local and the global model",
        "Does the correction bring the two models' labels closer?",
        metrics=("share_agreeing",), cells=_three_at_each_alpha, notebook="sage_lambda",
    ),
    _figure(
        "supp_fig9", "supplement Fig. 9", "Confident images at several thresholds",
        "Does the picture of Fig. 2(a) depend on the threshold that one looks at?",
        reads="confidences", metrics=("local", "global"), drawing="thresholds", notebook="sage_confidence",
        differs=("The paper's thresholds are not readable; ours are 0.5 to 0.95. First third of the rounds.",),
    ),
    _figure(
        "supp_fig10", "supplement Fig. 10", "λ, the weight of the local label",
        "How does λ change with the split, with training, and for classes a client has few images of?",
        metrics=("lambda", "lambda_sure", "lambda_majority", "lambda_minority"), notebook="sage_lambda",
        differs=("Minority: classes with less than half of the client's mean class count.",),
    ),
    _figure(
        "supp_fig11", "supplement Fig. 11", "Pseudo-labels of the two models at every α",
        "Is the local model ahead early at every α, and when do the curves meet?",
        metrics=SURE, notebook="sage_confidence", differs=(_RAW_COUNTS,),
    ),
    _figure(
        "supp_fig12", "supplement Fig. 12", "Entropy of the two models",
        "Does an uneven split make the global model less certain and the local ones more?",
        metrics=("entropy_global", "entropy_local", "histogram_entropy_global", "histogram_entropy_local"),
        notebook="sage_confidence",
        differs=(
            'The paper does not define its "entropy of pseudo-label confidence"; shown are the mean entropy of the '
            "predictions and the entropy of the histogram of confidences.",
        ),
    ),
    _figure(
        "supp_fig13", "supplement Fig. 13", "What the global model's labels add, at α = 0.5 and 1",
        "Does CPG also help where the split is more even?",
        metrics=QUANTITY_AND_QUALITY, cells=_sage_at("α = 0.5", "α = 1"), notebook="sage_parts",
        differs=("Minority: classes with less than half of the client's mean class count.",),
    ),
    _figure(
        "supp_fig15", "supplement Fig. 15", "Convergence at α = 0.1 and 0.5", "Who learns faster on an uneven split?",
        reads="rounds", metrics=("accuracy",), drawing="curves", cells=_converging("α = 0.1", "α = 0.5"),
        notebook="sage_convergence", differs=(FEW_SEEDS,),
    ),
    _figure(
        "supp_fig16", "supplement Fig. 16", "Labelled and unlabelled images of the clients",
        "Which client holds how many images of which class, with and without labels?",
        reads="split", metrics=("labelled", "unlabelled"), drawing="two_skews", cells=_split, seeds=(0,),
        notebook="sage_supp_fig16", differs=(PARTITION,),
    ),
    _figure(
        "supp_theory", "supplement Eqs. 10-17", "Entropies: the supplement's equations, measured",
        "Do local predictions follow the client's classes, is Eq. 16 an equation, and is the global model the mean?",
        reads="theory",
        metrics=("mix_entropy", "prior_entropy", "posterior_entropy", "eq16_right", "start_distance", "end_distance",
                 "distance_to_mean", "distance_to_single", "confidence_when_agreeing", "images_when_agreeing"),
        drawing="theory", notebook="sage_theory",
        differs=("The paper states these equations without measuring them.",),
    ),
    _figure(
        "supp_eq18", "supplement Eq. 18", "λ against the discrepancy of the confidences",
        "What does κ do, and why ln 2 / 0.05?",
        reads="nothing", metrics=(), drawing="decay", cells=lambda profile: (), notebook="sage_kappa",
    ),
)  # fmt: skip
