"""A made-up world: whatever run a claim asks for is stored with chosen rows."""

from collections.abc import Callable, Sequence

import pytest
from made_up_runs import World, write_run

from fedcopl_lab.config import PromptConfig, run_key
from fedcopl_lab.paper import _stored_runs, _verdicts, claim_lines, judge_claim, judged_claims
from fedcopl_lab.paper._judge import Judgement
from fedcopl_lab.paper._stored_runs import StoredRuns
from fedcopl_lab.paper.statistics import STATISTICS
from fedcopl_lab.store import Store


@pytest.fixture
def evidence_of(tmp_path, monkeypatch) -> Callable[..., StoredRuns]:
    """World -> the evidence of its stored runs, written into run folders when they are asked for; no gates."""
    store = Store(tmp_path / "world")

    def build(world: World, profile: str = "smoke", seeds: Sequence[int] = (0, 1, 2)) -> StoredRuns:
        def key_of(config: PromptConfig) -> str:
            key = run_key(config, data_sha="made up", weights_sha="made up")
            folder = store.root / key
            rows = None if folder.exists() else world(config)
            if rows is not None:
                split = rows[0].pop("split", None)
                write_run(folder, config, rows, split)
            return key

        monkeypatch.setattr(_verdicts, "gates", lambda profile, rows: None)
        monkeypatch.setattr(_stored_runs, "key_of", key_of)
        monkeypatch.setattr(_stored_runs, "has_key", lambda config: True)
        return StoredRuns(profile, store, seeds)

    return build


@pytest.fixture
def judged_by(evidence_of) -> Callable[..., Judgement]:
    """Statistic and world -> the judgement of the claim that it belongs to."""

    def judge(name: str, world: World, profile: str = "smoke") -> Judgement:
        lines = claim_lines(judged_claims().query("statistic == @name"))
        return judge_claim(lines.astype(str).to_dict("records"), evidence_of(world, profile), STATISTICS)

    return judge
