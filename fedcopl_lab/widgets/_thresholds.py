"""The τ explorer: what the two filters of FedCoPL keep on one client, and what becomes of it (Eqs. 2 and 3)."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from fedcopl_lab.report.looks import Picture
from fedcopl_lab.widgets import _controls as controls
from fedcopl_lab.widgets._explorer import Explorer
from fedcopl_lab.widgets._sources import DATASETS, Catalogue, Scores
from fedcopl_lab.widgets._threshold_scene import ThresholdParams, ThresholdScene


def draw_thresholds(
    params: ThresholdParams | None = None,
    sources: Iterable[str | Scores] | Catalogue = DATASETS,
    previous: ThresholdParams | None = None,
) -> Picture:
    """Which images of a client both filters keep, and the estimate, quota and labels that follow (Eqs. 2 and 3).

    Args:
        params: levels, client and data set; None takes the defaults.
        sources: names of data sets, or :class:`Scores`, to choose among.
        previous: parameters of the move before, to mark the images gained and lost since.

    Returns:
        A figure of four panels.

    Raises:
        FedCoPLError: an unknown data set or client, or levels outside [0, 1].

    >>> draw_thresholds(ThresholdParams(q_conf=0.7))

    Shown in notebook ``explore``.
    """
    scene = ThresholdScene(sources)
    scene.show(params or ThresholdParams(), previous)
    return scene.figure


def explore_thresholds(
    sources: Iterable[str | Scores] | Catalogue = DATASETS, **start: Any
) -> Explorer[ThresholdParams]:
    """The τ explorer: :func:`draw_thresholds` with a slider for each level and for the client.

    Args:
        sources: names of data sets, or :class:`Scores`, to choose among.
        start: fields of :class:`ThresholdParams` to begin with.

    Returns:
        The explorer; display it.

    >>> explore_thresholds(q_conf=0.6)

    Shown in notebook ``explore``.
    """
    scene = ThresholdScene(sources)
    params = ThresholdParams(**{"dataset": scene.catalogue.names[0]} | start)
    clients = max(len(scene.catalogue[params.dataset].logits), scene.catalogue.most_clients)
    params = params if "client" in start else replace(params, client=min(params.client, clients - 1))
    return Explorer("thresholds", scene, params, {
        "q_conf": controls.slider("τ1 level (q_conf)", params.q_conf, 0, 1, 0.02,
                                  "quantile level of the confidence threshold; larger is stricter"),
        "q_ent": controls.slider("τ2 level (q_ent)", params.q_ent, 0, 1, 0.02,
                                 "level of the entropy threshold; larger is stricter"),
        "client": controls.whole("client", params.client, 0, clients - 1, "whose images are shown"),
        "dataset": controls.choice("data set", params.dataset, scene.catalogue.names, "whose images are shown"),
    })  # fmt: skip
