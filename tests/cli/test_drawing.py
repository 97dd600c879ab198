"""What ``reproduce`` draws while its runs come in, and at the end."""

import pandas as pd
import pytest

from fedcopl_lab import FedCoPLError
from fedcopl_lab.cli import _drawing
from fedcopl_lab.cli._drawing import Drawing
from fedcopl_lab.paper import SEEDS, find_items
from fedcopl_lab.store import Store


def test_at_the_end_only_what_further_runs_may_have_changed_is_drawn_again(monkeypatch, tmp_path):
    items = find_items(["main Table 6", "main Table 5"])
    drawing = Drawing(items, "smoke", SEEDS, lambda config: config, Store(), tmp_path, ())
    drawn = []
    monkeypatch.setattr(drawing, "_draw", lambda item: drawn.append(item.id))
    drawing.numbers = {item.id: pd.DataFrame() for item in items}
    monkeypatch.setattr(drawing, "_write", lambda *told: None)
    monkeypatch.setattr(_drawing.paper, "verdicts", lambda *asked, **changes: _drawing.paper.measured_claims("smoke"))
    monkeypatch.setattr(drawing, "_compared", lambda judged: [])
    waited_for, *_ = drawing.wanted(items[0])
    drawing.begin([waited_for])
    drawn.clear()
    drawing.finish()
    assert drawn == [items[0].id], "stopped early: the runs that are there"
    drawing.add(waited_for)
    drawing.finish()
    assert drawn[1:] == [items[0].id], "drawn when its last run came, and not again at the end"
    drawing.add(waited_for)  # no item waits for it: a run within a budget
    drawing.finish()
    assert drawn[2:] == [one.id for one in items]


def test_where_nothing_is_stored_nor_committed_nothing_can_be_drawn(tmp_path):
    items = find_items(["fedcopl_ours_fpl_shots"])
    drawing = Drawing(items, "mini", SEEDS, lambda config: config, Store(), tmp_path, ())
    drawing.begin(drawing.wanted(items[0]))
    with pytest.raises(FedCoPLError, match="nothing can be drawn"):
        drawing.finish()
