"""The committed page of the explorers: small, made by today's script, from the data that the library gives."""

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest

import fedcopl_lab as lab
from fedcopl_lab.methods import PromptSetting
from fedcopl_lab.widgets import PartitionParams, _explorer_page
from fedcopl_lab.widgets._partition import federation_of

PAGE = Path(__file__).resolve().parents[2] / "figures" / "explorer.html"
AGAIN = "write it with `make explorer`"


@pytest.fixture(scope="module")
def text():
    return PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def data(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def array(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


def test_it_is_small_and_made_by_todays_script(text, data, tmp_path, monkeypatch):
    monkeypatch.setattr(_explorer_page, "explorer_data", lambda run: data)
    run = lab.run(lab.configure("smoke", method="zero-shot"), progress=False)  # not read: the data are given
    again = lab.widgets.write_explorer(tmp_path / "new", sage=run)
    assert again.read_text(encoding="utf-8") == text, AGAIN
    assert PAGE.stat().st_size <= 300_000


def test_its_scores_are_those_of_the_embedded_clip(data):
    setting = PromptSetting.of(lab.configure("smoke"))
    train = setting.dataset.train_indices
    mine = setting.zero_shot_logits[train].numpy()
    assert np.allclose(array(data["logits"], "<f4").reshape(mine.shape), mine, atol=1e-3), AGAIN
    assert (array(data["true"], "u1") == setting.dataset.labels[train].numpy()).all()


def test_its_divisions_are_the_librarys(data):
    schemes = {key.split("|")[0] for key in data["divisions"]}
    assert schemes == set(data["schemes"])
    for key, division in [*data["divisions"].items()][::9]:
        scheme, level, clients, seed = key.split("|")
        field = {"β": "beta", "s": "fraction", "α": "alpha"}.get(data["schemes"][scheme]["symbol"])
        params = PartitionParams(
            scheme=scheme, n_clients=int(clients), seed=int(seed), **({field: float(level)} if field else {})
        )
        if "error" in division:
            with pytest.raises(lab.FedCoPLError, match=re.escape(division["error"])):
                federation_of(params)
            continue
        counts = federation_of(params).class_counts("unlabelled" if "sage" in scheme else "train")
        if "owner" in division:
            found = np.zeros_like(counts)
            np.add.at(found, ([int(own, 36) for own in division["owner"]], array(data["true"], "u1")), 1)
        else:
            found = array(division["train"], "u1").reshape(counts.shape)
        assert (found == counts).all(), AGAIN


def test_a_run_without_a_global_model_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOPL_LAB_HOME", str(tmp_path))
    run = lab.run(lab.configure("smoke", method="FedCoPL", rounds=1, local_epochs=1), progress=False)
    with pytest.raises(lab.FedCoPLError, match="no global model"):
        lab.widgets.write_explorer(tmp_path, run)
