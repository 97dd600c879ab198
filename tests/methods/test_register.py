"""A method from outside the package: known to configure, run, sweep in other processes, the store and --plugin."""

import sys

import jaxtyping
import pytest
import torch
from stored_bytes import promised_bytes

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab._identity import key_of
from fedcopl_lab.cli import main
from fedcopl_lab.config import REGISTERED
from fedcopl_lab.extras import cluster
from fedcopl_lab.methods import PROMPT_RECIPES, RECIPES, PromptRecipe, Recipe, register
from fedcopl_lab.steps import SCORERS, Scorer
from fedcopl_lab.store import Run, Store

MODULE = """
from fedcopl_lab.methods import Recipe, register


def pull(task):
    return 0.01 * sum((p - q).square().sum() for p, q in zip(task.model.parameters(), task.global_model.parameters()))


register("Pulled", Recipe(uses_pool=False, regulariser=pull), like="FedAvg", lr=0.05)
"""
SHORT = {"rounds": 1, "steps_per_epoch": 1, "clients_per_forward": 1}


@pytest.fixture(autouse=True)
def _forgotten_afterwards():
    tables = REGISTERED, RECIPES, PROMPT_RECIPES, SCORERS
    before = [dict(one) for one in tables]
    yield
    for one, known in zip(tables, before, strict=True):
        one.clear()
        one.update(known)


def test_a_recipe_that_changes_nothing_gives_the_same_bytes(store):
    register("Mine", RECIPES["FedAvg"], like="FedAvg")
    own, theirs = (
        lab.run(lab.configure("smoke", method=name, **SHORT), store, progress=False) for name in ("Mine", "FedAvg")
    )
    assert own.key != theirs.key
    assert all(torch.equal(a, b) for a, b in zip(own.load_state().values(), theirs.load_state().values(), strict=True))


def test_a_term_over_a_model_that_stands_still_is_refused(store, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would refuse the stand-in for the model

    def size(model):
        return 0.01 * sum(value.square().sum() for value in model.parameters())

    terms = {"Parameters": lambda task: size(task.model), "Further": lambda task: size(task.models["second"]),
             "Scores": lambda task: task.scores(task.model, torch.zeros(2, 3, 8, 8)).square().sum()}  # fmt: skip
    for name, term in terms.items():
        begin = lambda task: task.add_model("second", task.copy_of(task.start).train())  # noqa: E731
        register(name, Recipe(uses_pool=False, begin=begin, regulariser=term), like="FedAvg")
        alone, together = (lab.configure("smoke", method=name, **SHORT | {"clients_per_forward": n}) for n in (1, 2))
        assert lab.run(alone, store, progress=False).result["loss_regulariser"] > 0
        with pytest.raises(FedCoPLError, match=r"stand still .* takes the parameters of task\.trained\(\)"):
            lab.run(together, store, progress=False)


def test_a_frozen_model_of_a_recipe_is_read_in_a_pass_of_several(store):
    def keep(task):
        task.models["teacher"] = task.copy_of(task.start).requires_grad_(False)

    def follow(task):
        return task.eval_scores(task.models["teacher"], torch.ones(2, 3, 8, 8)).square().sum()

    register("Taught", Recipe(uses_pool=False, begin=keep, regulariser=follow), like="FedAvg")
    alone, together = (lab.configure("smoke", method="Taught", **SHORT | {"clients_per_forward": n}) for n in (1, 2))
    losses = [lab.run(one, store, progress=False).result["loss_regulariser"] for one in (alone, together)]
    assert losses[0] == pytest.approx(losses[1])
    assert losses[0] > 0


def test_a_trainer_of_prompts_scores_in_its_own_way(store, small):
    class Flipped(Scorer):
        def logits(self, *parts):
            return -super().logits(*parts)

    register("Flipped", PromptRecipe(scorer=Flipped), like="PromptFL")
    flipped, plain = (lab.run(small(method=name), store, progress=False) for name in ("Flipped", "PromptFL"))
    assert flipped.config.aggregate == "both"
    assert flipped.result["loss_first_epoch"] > 2 * plain.result["loss_first_epoch"]


def test_a_trainer_like_one_of_the_papers_trains_as_it_does(store, small):
    keys = set()
    for name, setting in (
        ("PromptProx", {"prox_mu": 2.0}), ("FedOTP", {"ot_mass": 0.6}), ("pFedPrompt", {"cache_votes": "sum"}),
        ("pFedPrompt", {}), ("FedCOF", {}), ("FedPGP", {}),
    ):  # fmt: skip
        register("Mine", PromptRecipe(), like=name, **setting)
        mine, theirs, plain = (
            lab.run(small(method=method, **own), store, progress=False)
            for method, own in (("Mine", {}), (name, setting), ("PromptFL", {}))
        )
        assert mine.result["loss_first_epoch"] == theirs.result["loss_first_epoch"] != plain.result["loss_first_epoch"]
        keys.add(mine.key)
    assert len(keys) == 6


def test_it_reads_the_settings_of_the_method_that_it_is_like():
    register("Mine", Recipe(uses_pool=False), like="FedProx")
    assert lab.configure("smoke", method="Mine", fedprox_mu=0.3).fedprox.mu == 0.3
    with pytest.raises(FedCoPLError, match="would change nothing in Mine"):
        lab.configure("smoke", method="Mine", kappa=3.0)
    assert lab.configure("smoke", method="Mine", kappa=3.0, unread="drop").method == "Mine"


def test_a_round_is_that_of_the_recipe_registered_last():
    losses = []
    for labels in ("few", "all"):
        register("Mine", Recipe(uses_pool=False, labels=labels), like="FedAvg")
        losses.append(lab.round(lab.configure("smoke", method="Mine", **SHORT)).row["loss_supervised"])
    assert losses[0] != losses[1]


def test_a_new_version_is_another_run():
    keys = set()
    for version in (1, 2):
        register("Mine", Recipe(uses_pool=False), version=version)
        keys.add(key_of(lab.configure("smoke", method="Mine")))
    assert len(keys) == 2


def test_the_command_line_and_worker_processes_import_it(tmp_path, monkeypatch, capsys, small):
    (tmp_path / "pulled_method.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sets = [text for name, value in SHORT.items() for text in ("--set", f"{name}={value}")]
    assert main(["--plugin", "pulled_method", "run", "--method", "Pulled", *sets]) == 0
    assert "Pulled digits" in capsys.readouterr().out
    assert REGISTERED["Pulled"].module == "pulled_method"
    configs = [lab.configure("smoke", method="Pulled", seed=1, **SHORT), small(), small(seed=1), small()]
    swept = lab.sweep(configs, jobs=2, progress=False)
    assert [run.config for run in swept] == configs
    for run in swept[:3]:
        single = lab.run(run.config, Store(tmp_path / "single"), progress=False)
        assert promised_bytes(run) == promised_bytes(single)
    del REGISTERED["Pulled"], RECIPES["Pulled"], sys.modules["pulled_method"]
    cluster._work(configs[0].as_dict(), str(tmp_path / "by_ray"), 60.0, ["pulled_method"])
    assert promised_bytes(Store(tmp_path / "by_ray").run(swept[0].key)) == promised_bytes(swept[0])
    with pytest.raises(SystemExit):
        main(["--plugin", "no_such_module", "doctor"])
    assert "no_such_module cannot be imported" in capsys.readouterr().err
    (tmp_path / "mistyped.py").write_text(MODULE.replace("lr=", "lrr="))
    with pytest.raises(SystemExit):
        main(["--plugin", "mistyped", "doctor"])
    assert "lrr" in capsys.readouterr().err


def test_a_stored_run_of_an_unknown_method_can_be_listed_but_not_run(store, monkeypatch):
    register("Mine", RECIPES["FedDB"], like="FedDB")
    done = lab.run(lab.configure("smoke", method="Mine", **SHORT), store, progress=False)
    del REGISTERED["Mine"], RECIPES["Mine"]
    assert lab.runs(store, start="drawn")["method"].tolist() == ["Mine"], "a setting that its file leaves out"
    assert lab.runs(store, q_conf=None).empty, "a setting of the other paper's runs"
    assert Run(done.path).config.method == "Mine"
    with pytest.raises(FedCoPLError, match="'Mine' is not registered in this process; import the module"):
        Run(done.path).predict(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises(FedCoPLError, match="'Mine' is not registered in this process; import the module"):
        lab.widgets.WeakViewScores.of(Run(done.path))
    with pytest.raises(FedCoPLError, match="'Mine' is not registered in this process; import the module"):
        lab.round(Run(done.path).config)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("name", "recipe", "changes", "message"),
    [
        ("SAGE", Recipe(), {}, "cannot be registered as 'SAGE'"),
        (" ", Recipe(), {}, "cannot be registered"),
        ("Mine", "FedAvg", {}, "is no recipe"),
        ("Mine", Recipe(), {"like": "FedCoPL"}, "unknown method to be like 'FedCoPL'"),
        ("Mine", PromptRecipe(), {"like": "FedCOPL"}, "did you mean 'FedCoPL'"),
        ("Mine", Recipe(), {"lr": -1.0}, "positive learning rate"),
        ("Mine", Recipe(), {"q_conf": 0.5}, "unknown setting 'q_conf'"),
    ],
)
def test_what_cannot_be_registered(name, recipe, changes, message):
    with pytest.raises(FedCoPLError, match=message):
        register(name, recipe, **changes)
    assert "Mine" not in REGISTERED
