"""FedCoPL's supplement: Tables 1 to 5, Figs. 1 to 4."""

from typing import Any

from fedcopl_lab.paper.items._columns import ALL_SPLITS, DIRICHLET, ONE_SPLIT, SMOKE_DIFFERS, data_columns, grid
from fedcopl_lab.paper.items._item import Cell, Item
from fedcopl_lab.paper.items._main import (
    DRIFT,
    DRIFT_DIFFERS,
    DRIFT_OWN,
    DRIFT_ROWS,
    RECONSTRUCTED,
    SHOTS,
    no_backbone,
    on_backbone,
)

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.44, 0.46, 0.48, 0.5, 0.52, 0.54, 0.56, 0.6, 0.7, 0.8, 0.9)
_LABELLERS = ("FPL", "CPL", "CoPL")
_SWEPT_SETS = ("DTD", "RESISC45", "CIFAR-10", "CIFAR-100")


def _sweep_of(field: str) -> Any:
    def cells(profile: str) -> list[Cell]:
        rows = data_columns(profile, ONE_SPLIT, _SWEPT_SETS)
        return grid(profile, rows, {f"{level:.2f}": {field: level} for level in LEVELS}, field)

    return cells


def _drift_elsewhere(split: str, name: str) -> Any:
    """On another of the paper's sets; where one set stands for all, under another split."""

    def cells(profile: str) -> list[Cell]:
        columns = data_columns(profile, ONE_SPLIT, (name,), stand_in={split: ALL_SPLITS[split]})
        return grid(profile, DRIFT_ROWS, columns)

    return cells


def _label_skew(profile: str) -> list[Cell]:
    panels = {
        "(a) Dirichlet β = 0.1": ALL_SPLITS["β = 0.1"],
        "(b) Dirichlet β = 0.05": ALL_SPLITS["β = 0.05"],
        "(c) quantity, s = 0.2 C": ALL_SPLITS["quantity"],
    }
    return grid(profile, {"images": {"method": "zero-shot"}}, panels)


def _allocation(profile: str) -> list[Cell]:
    rows = {"with global allocation": {"allocation": "paper"}, "without: filtered sets": {"allocation": "none"}}
    return grid(profile, rows, data_columns(profile, ONE_SPLIT, _SWEPT_SETS, stand_in=DIRICHLET))


_SWEEP_DIFFERS = (SMOKE_DIFFERS, "The other level stays at 0.5, as in the paper.")

SUPPLEMENT: tuple[Item, ...] = (
    Item(
        id="fedcopl_supp_table1",
        source="supplement Table 1",
        title="The data sets",
        question="How many classes, training and test images does each data set have?",
        reads="manifests",
        metrics=("n_classes", "n_train", "n_test"),
        drawing="statistics",
        notebook="data_check",
        cells=lambda profile: (),
        differs=(
            "Counted from the manifests in data_manifests/, not from a run.",
            "The paper prints 5,594 training images for CUB; the official split has 5,994.",
        ),
    ),
    Item(
        id="fedcopl_supp_table2",
        source="supplement Table 2",
        title="A ResNet as backbone",
        question="Does the order of the methods stay with a ModifiedResNet?",
        reads="final",
        metrics=("accuracy", "accuracy_sample_mean", "accuracy_global", "label_accuracy", "n_selected"),
        drawing="dots",
        notebook="fedcopl_backbones",
        cells=on_backbone({"smoke": "tiny-rn", "paper": "RN50"}, ("DTD", "RESISC45", "UCF101", "CIFAR-10")),
        differs=(
            SMOKE_DIFFERS,
            "A small ModifiedResNet stands for RN50. The paper does not say what a visual prompt is there; here it is "
            "extra tokens in the attention pool.",
            RECONSTRUCTED,
            SHOTS,
        ),
        not_run=no_backbone,
    ),
    Item(
        id="fedcopl_supp_table3",
        source="supplement Table 3",
        title="Accuracy of the pseudo-labels",
        question="Whose pseudo-labels are right more often, and how much does label skew cost?",
        reads="first",
        metrics=("label_accuracy", "n_selected"),
        drawing="dots",
        notebook="fedcopl_supp_table3",
        cells=lambda profile: grid(
            profile,
            {name: {"method": "FedCoPL" if name == "CoPL" else "PromptFL", "labeller": name} for name in _LABELLERS},
            data_columns(profile, ALL_SPLITS),
        ),
        differs=(
            SMOKE_DIFFERS,
            "Labels of the first label phase, made from zero-shot predictions; the paper does not say which phase.",
            SHOTS,
        ),
    ),
    Item(
        id="fedcopl_supp_table4",
        source="supplement Table 4",
        title="Sensitivity to τ1, the level of the confidence filter",
        question="Over which range of τ1 does accuracy stay the same?",
        reads="final",
        metrics=("accuracy", "label_accuracy", "n_selected"),
        drawing="sweep",
        notebook="fedcopl_supp_thresholds",
        cells=_sweep_of("q_conf"),
        differs=_SWEEP_DIFFERS,
        axis="τ1, level of the confidence filter",
        field="q_conf",
    ),
    Item(
        id="fedcopl_supp_table5",
        source="supplement Table 5",
        title="Sensitivity to τ2, the level of the entropy filter",
        question="Over which range of τ2 does accuracy stay the same?",
        reads="final",
        metrics=("accuracy", "label_accuracy", "n_selected"),
        drawing="sweep",
        notebook="fedcopl_supp_thresholds",
        cells=_sweep_of("q_ent"),
        differs=_SWEEP_DIFFERS,
        axis="τ2, level of the entropy filter",
        field="q_ent",
    ),
    Item(
        id="fedcopl_supp_fig1",
        source="supplement Fig. 1",
        title="Drift of the prompts, second setting",
        question="Does the text prompts' larger drift hold elsewhere too?",
        reads="rounds",
        metrics=DRIFT,
        drawing="drift",
        notebook="fedcopl_main_fig2",
        cells=_drift_elsewhere("β = 0.05", "DTD"),
        differs=(*DRIFT_DIFFERS, "In smoke a second split of the digits stands for the second data set, DTD."),
        own=DRIFT_OWN,
    ),
    Item(
        id="fedcopl_supp_fig2",
        source="supplement Fig. 2",
        title="Drift of the prompts, third setting",
        question="Does the text prompts' larger drift hold elsewhere too?",
        reads="rounds",
        metrics=DRIFT,
        drawing="drift",
        notebook="fedcopl_main_fig2",
        cells=_drift_elsewhere("quantity", "RESISC45"),
        differs=(*DRIFT_DIFFERS, "In smoke the quantity split of the digits stands for the third data set, RESISC45."),
        own=DRIFT_OWN,
    ),
    Item(
        id="fedcopl_supp_fig3",
        source="supplement Fig. 3",
        title="Label skew of the clients",
        question="Which client holds how many images of which class?",
        reads="split",
        metrics=("train",),
        drawing="skew",
        notebook="fedcopl_supp_fig3",
        cells=_label_skew,
        differs=("Digits on 5 clients instead of CIFAR-10 on 10; the drawing rules are the paper's.",),
        seeds=(0,),
    ),
    Item(
        id="fedcopl_supp_fig4",
        source="supplement Fig. 4",
        title="Pseudo-label accuracy with and without global allocation",
        question="Are the pseudo-labels better because the server balances the classes?",
        reads="rounds",
        metrics=("label_accuracy", "accuracy"),
        drawing="labels",
        notebook="fedcopl_supp_fig4",
        cells=_allocation,
        differs=(
            SMOKE_DIFFERS,
            'The paper does not define "without". Here it is a run of its own that trains on the filtered sets; '
            "the notebook also shows both sets of one run.",
        ),
    ),
)
