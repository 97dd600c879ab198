"""The rows and columns that the table of claims calls by one name, and being the best of several rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fedcopl_lab.paper._evidence import Named, NotTestedError, Settings, joined
from fedcopl_lab.paper._judge import Judgement
from fedcopl_lab.paper._stored_runs import StoredRuns
from fedcopl_lab.paper.items._fedcopl_columns import BASELINES, FEDCOPL, SETS, ZERO_SHOT, with_labels
from fedcopl_lab.paper.items._fedcopl_runs import JOINING, WITH_FPL
from fedcopl_lab.paper.items._sage_runs import PARTS, on_analysed_set
from fedcopl_lab.paper.statistics._readers import accuracy

SAGE: Settings = {"method": "SAGE"}
LPL: Settings = {"method": "FixMatch-LPL"}
ONE_MODEL: Named = {"FixMatch-LPL": LPL, "FixMatch-GPL": {"method": "FixMatch-GPL"}}
"""The rows that SAGE joins: labels of the local, of the global model."""


ROWS: Mapping[str, Named] = {
    "trainers": {name: {"method": name} for name in BASELINES},
    "zero-shot and baselines + FPL": {**ZERO_SHOT, **WITH_FPL},
    "zero-shot and baselines": {**ZERO_SHOT, **with_labels(BASELINES, ("FPL", "CPL"))},
    "baselines": with_labels(BASELINES, ("FPL", "CPL")),
    "baselines + FPL": WITH_FPL,
    "baselines + FPL and FedCoPL": {**WITH_FPL, **FEDCOPL},
    "FedOTP + FPL": with_labels(("FedOTP",), ("FPL",)),
    "FedOTP + CPL": with_labels(("FedOTP",), ("CPL",)),
    "FixMatch-LPL and FixMatch-GPL": ONE_MODEL,
    "FixMatch-LPL, FixMatch-GPL and SAGE": {**ONE_MODEL, "SAGE": SAGE},
    "SAGE without a part": {
        f"full minus {name}": row for name, row in PARTS.items() if row["method"] == "SAGE" and name != "SAGE"
    },
}


def at_tenth(runs: StoredRuns, without: Sequence[str] = ()) -> Named:
    """The data sets at β = 0.1; one that is none of the paper's has no name."""
    there = {name: own for name, own in runs.sets.items() if name not in without}
    return {name if name in SETS else "": {**own, "beta": 0.1} for name, own in there.items()}


def swept_sets(runs: StoredRuns) -> Named:
    """Those of them on which the paper sweeps the filters' levels."""
    return at_tenth(runs, without=("CUB", "UCF101"))


def from_even_to_uneven(runs: StoredRuns) -> Named:
    """The splits of SAGE's analyses from the most even to the most uneven one."""
    return dict(reversed(on_analysed_set(runs.profile).items()))


def _crossed(first: Named, second: Named) -> Named:
    """Every pair, under both names; the first's settings win."""
    return {joined(name, place): {**there, **own} for name, own in first.items() for place, there in second.items()}


def _on_set(name: str) -> Callable[[StoredRuns], Named]:
    """A set of claim 19 at both β."""

    def columns(runs: StoredRuns) -> Named:
        there = runs.needs_set("DTD", "CUB", "CIFAR-10", "CIFAR-100")[name]
        return {f"{name}, β = {beta}": {**there, "beta": beta} for beta in (0.1, 0.05)}

    return columns


def _cub_with_resnet(runs: StoredRuns) -> Named:
    encoder = {"clip": runs.resnet}
    return {"β = 0.1": {**runs.needs_set("CUB")["CUB"], **encoder, "beta": 0.1}}


COLUMNS: Mapping[str, Callable[[StoredRuns], Named]] = {
    "all skews": lambda runs: runs.columns(),
    "Dirichlet": lambda runs: runs.columns("β = 0.1", "β = 0.05"),
    "quantity": lambda runs: runs.columns("quantity"),
    "panels": lambda runs: runs.panels(),
    "β = 0.1": at_tenth,
    "participations": lambda runs: _crossed(
        {f"R = {rate}": {"participation": rate} for rate in JOINING}, at_tenth(runs)
    ),
    "other encoders": lambda runs: _crossed({clip: {"clip": clip} for clip in runs.encoders[1:]}, at_tenth(runs)),
    "swept sets": swept_sets,
    "CUB": lambda runs: {f"β = {beta}": {**runs.needs_set("CUB")["CUB"], "beta": beta} for beta in (0.1, 0.05)},
    "CUB with the ResNet": _cub_with_resnet,
    **{f"{name} of four": _on_set(name) for name in ("DTD", "CUB", "CIFAR-10", "CIFAR-100")},
    "each α": from_even_to_uneven,
    "α = 0.1": lambda runs: {"": on_analysed_set(runs.profile)["α = 0.1"]},
}


def against_rivals(
    runs: StoredRuns, columns: Named, rivals: Named, judge: Callable[[Mapping[str, Named]], Judgement]
) -> Judgement:
    """Judge SAGE against the rivals with enough seeds in each column; *not tested* if it wins and one has too few."""
    stored = runs.cells({name: partial(_stored, runs, there, rivals) for name, there in columns.items()})
    judged = judge(stored)
    absent = {name: [column for column, there in stored.items() if name not in there] for name in rivals}
    missing = [name if len(where) == len(stored) else f"{name} at {' and '.join(where)}"
               for name, where in absent.items() if where]  # fmt: skip
    if not missing or judged.verdict in ("does not hold", "not tested"):
        return judged
    there = ", ".join(name for name, where in absent.items() if len(where) < len(stored))
    return replace(judged, verdict="not tested").with_notes(
        f"Only over the best of {there} ({judged.verdict}); too few seeds of {', '.join(missing)}."
    )


def _stored(runs: StoredRuns, there: Settings, rivals: Named) -> Named:
    runs.values(accuracy, **{**there, **SAGE})  # else the column is left out, for the reason raised here
    found = runs.cells({name: partial(runs.values, accuracy, **{**there, **row}) for name, row in rivals.items()}, 0)
    if not found:
        raise NotTestedError("needs 3 seeds of other methods; none has them")
    return {name: rivals[name] for name in found}
