"""A made-up world: whatever run a claim asks for is stored with chosen rows."""

from collections.abc import Callable, Sequence

import pytest
from made_up_runs import World

from fedcopl_lab._files import to_json
from fedcopl_lab.config import PromptConfig, run_key
from fedcopl_lab.paper import _evidence
from fedcopl_lab.paper._evidence import Evidence
from fedcopl_lab.store import Store


@pytest.fixture
def evidence_of(tmp_path, monkeypatch) -> Callable[..., Evidence]:
    """World -> the evidence of its stored runs, written into run folders when they are asked for."""
    store = Store(tmp_path / "world")

    def build(world: World, profile: str = "smoke", seeds: Sequence[int] = (0, 1, 2)) -> Evidence:
        def key_of(config: PromptConfig) -> str:
            key = run_key(config, data_sha="made up", weights_sha="made up")
            folder = store.root / key
            rows = None if folder.exists() else world(config)
            if rows is not None:
                (folder / "rounds").mkdir(parents=True)
                split = rows[0].pop("split", None)
                if split is not None:
                    (folder / "split.json").write_text(to_json(split))
                (folder / "config.json").write_text(to_json(config.as_dict()))
                for row in rows:
                    (folder / "rounds" / f"{row['round']:04d}.json").write_text(to_json(row))
                (folder / "result.json").write_text(to_json({"round": rows[-1]["round"]}))
            return key

        monkeypatch.setattr(_evidence, "key_of", key_of)
        monkeypatch.setattr(_evidence, "_are_here", lambda config: True)
        return Evidence(profile, store, seeds)

    return build
