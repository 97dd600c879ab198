"""Made-up rows of semi-supervised runs, in the shape that runs store; nothing here was measured."""

from typing import Any

BINS = 20
VIEWS = 1000


def sage_row(number: int, accuracy: float = 0.5, **changes: Any) -> dict[str, Any]:
    """One stored round with plausible values; ``changes`` replace entries, nested ones with double underscores.

    >>> sage_row(1, local__entropy=0.3)["local"]["entropy"]
    0.3
    """
    row: dict[str, Any] = {
        "round": number, "accuracy": accuracy, "participants": [0, 1], "n_views": VIEWS,
        "local": model(300), "global": model(200),
        "target": {"n_used": 400, "n_used_correct": 320, "true_mass": 0.8},
        "both": {
            "agreement": 0.7, "gap": 0.2, "n_union": 400, "n_added": 100, "n_added_correct": 80,
            "n_disputed": 50, "n_disputed_local_right": 20, "n_disputed_global_right": 25, "disputed_true_mass": 0.6,
            "n_disputed_for_global": 30, "lambda": 0.6, "lambda_sure": 0.7, "lambda_disputed": 0.3,
        },
        "groups": {"majority": group(800, 0.7), "minority": group(200, 0.5)},
        "ensemble": {
            "n_images": 10, "distance_to_mean": 0.1, "distance_to_single": 0.3, "agreement_with_mean": 0.9,
            "agreement_with_single": 0.7, "agreeing_counts": [0, 4, 6], "agreeing_confidence": [None, 0.5, 0.9],
            "agreeing_sure": [0, 0, 3], "rank_correlation": 0.5,
        },
        "clients": {
            "n_labelled": [6, 6, None], "n_pool": [60, 60, None], "mix_entropy": [1.0, 2.0, None],
            "local_entropy": [0.5, 0.8, None], "end_entropy": [0.4, 0.6, None], "end_information": [0.5, 1.0, None],
            "start_distance": [0.4, 0.3, None], "end_distance": [0.2, 0.1, None],
            "labelled_mix_entropy": [0.9, 1.8, None], "end_printed": [-0.8, -1.5, None],
            "start_batch_labelled_distance": [0.4, 0.3, None], "end_batch_labelled_distance": [0.2, 0.1, None],
            "end_accuracy": [0.6, 0.5, None], "end_confidence": [0.8, 0.7, None],
        },
    }  # fmt: skip
    for path, value in changes.items():
        *folders, name = path.split("__")
        place = row
        for folder in folders:
            place = place[folder]
        place[name] = value
    return row


def model(sure: int) -> dict[str, Any]:
    """What a row says of one model: ``sure`` views in the last bin, the others in the middle."""
    counts = [0] * BINS
    counts[-1], counts[10] = sure, VIEWS - sure
    return {
        "counts": counts, "correct": [n // 2 for n in counts], "confidence": 0.6, "accuracy": 0.5, "entropy": 1.0,
        "histogram_entropy": 0.6, "calibration_error": 0.1, "n_sure": sure, "n_sure_correct": sure // 2,
    }  # fmt: skip


def group(n: int, lambda_: float) -> dict[str, Any]:
    """What a row says of majority or minority classes."""
    return {
        "n": n, "n_local_correct": n // 2, "n_local_sure": n // 4, "n_local_sure_correct": n // 5,
        "n_used": n // 2, "n_used_correct": n // 4, "true_mass": 0.7,
        "n_global_correct": n // 2, "n_global_sure": n // 5, "n_global_sure_correct": n // 10,
        "n_agreeing": n // 2, "lambda": lambda_, "lambda_sure": lambda_,
    }  # fmt: skip
