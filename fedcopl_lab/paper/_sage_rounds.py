"""What a round's pseudo-labels were worth, as plain numbers: counts, shares, accuracies, lambda, entropies."""

from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]
Numbers = dict[str, float | int | None]

GROUPS = ("majority", "minority")


def pseudo_label_numbers(row: Row) -> Numbers:
    """The derived numbers of one stored round of a method with pseudo-labels.

    Args:
        row: as :meth:`fedcopl_lab.store.Run.records` gives it, with the groups ``local``, ``global``, ``target``,
            ``both`` and ``groups``.

    Returns:
        Metric -> value. ``n_*`` are counts of weak views, ``share_*`` and ``label_accuracy_*`` shares in [0, 1]; the
        endings are ``local`` and ``global`` (confident models), ``cpg`` (one of the two is), ``added`` (only the
        global one is). None where nothing is there to divide by. Empty for a method without pseudo-labels.

    >>> pseudo_label_numbers({"round": 1, "accuracy": 0.5})
    {}
    """
    if "both" not in row:
        return {}
    local, other, both, views = row["local"], row["global"], row["both"], row["n_views"]
    added, added_right = both["n_added"], both["n_added_correct"]
    numbers: Numbers = {
        "n_views": views,
        "n_local": local["n_sure"],
        "n_global": other["n_sure"],
        "share_local": share(local["n_sure"], views),
        "share_global": share(other["n_sure"], views),
        "share_cpg": share(both["n_union"], views),
        "share_added": share(added, views),
        "label_accuracy_local": share(local["n_sure_correct"], local["n_sure"]),
        "label_accuracy_global": share(other["n_sure_correct"], other["n_sure"]),
        # a view that the local model labels keeps that label; the others take the global model's
        "label_accuracy_cpg": share(local["n_sure_correct"] + added_right, local["n_sure"] + added),
        "label_accuracy_added": share(added_right, added),
        "share_agreeing": both["agreement"],
        "gap": both["gap"],
        "lambda": both["lambda"],
        "lambda_sure": both["lambda_sure"],
        "entropy_local": local["entropy"],
        "entropy_global": other["entropy"],
        "histogram_entropy_local": local["histogram_entropy"],
        "histogram_entropy_global": other["histogram_entropy"],
    }
    for group in GROUPS:
        numbers |= _group_numbers(group, row["groups"][group])
    return numbers


def share(part: float | int | None, whole: float | int | None) -> float | None:
    """One count as a share of another; None where there is nothing to share.

    >>> share(1, 4), share(0, 0)
    (0.25, None)
    """
    return part / whole if whole and part is not None else None


def _group_numbers(group: str, counts: Row) -> Numbers:
    sure, other = counts["n_local_sure"], counts["n_global_sure"]
    return {
        f"lambda_{group}": counts["lambda"],
        f"share_{group}_local": share(sure, counts["n"]),
        f"share_{group}_global": share(other, counts["n"]),
        f"share_{group}_cpg": share(counts["n_used"], counts["n"]),
        f"label_accuracy_{group}_local": share(counts["n_local_sure_correct"], sure),
        f"label_accuracy_{group}_global": share(counts["n_global_sure_correct"], other),
        f"label_accuracy_{group}_cpg": share(counts["n_used_correct"], counts["n_used"]),
    }
