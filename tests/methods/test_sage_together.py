"""Several clients in one pass end where each of them ends alone."""

from dataclasses import replace
from functools import partial

import jaxtyping
import pytest
import torch
from small_semi import config_of
from torch import nn

from fedcopl_lab import FedCoPLError, SageConfig, configure
from fedcopl_lab.config import SAGE_METHODS
from fedcopl_lab.data import ChannelStatistics, Shard
from fedcopl_lab.methods import (
    RECIPES,
    Recipe,
    _batches,
    _feddure,
    _fedmatch,
    _sage_local_task,
    _sage_together,
    open_method,
)  # fmt: skip
from fedcopl_lab.methods._sage_local_task import LocalTask
from fedcopl_lab.methods._sage_setting import sage_participants
from fedcopl_lab.methods._sage_together import run_together
from fedcopl_lab.models import StackedResNet8, draw_resnet8, single_values, stacked_values
from fedcopl_lab.steps import batch_scores, model_scores


@pytest.fixture
def in_float64(monkeypatch):
    """Models, scores and images in float64, so that equal arithmetic is seen to be equal."""

    def wide(made):
        return lambda *args, **kwargs: made(*args, **kwargs).double()

    for cached in (_sage_local_task._shared_models, _sage_together._shared_stack):
        cached.cache_clear()
    monkeypatch.setattr(_sage_local_task, "blank_copy", wide(_sage_local_task.blank_copy))
    monkeypatch.setattr(_sage_together, "placed", wide(_sage_together.placed))
    monkeypatch.setattr(LocalTask, "copy_of", wide(LocalTask.copy_of))
    for module, name in ((_feddure, "draw_weighting"), (_fedmatch, "noise_image"), (_fedmatch, "initial_psi")):
        monkeypatch.setattr(module, name, wide(getattr(module, name)))
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    yield lambda one: ChannelStatistics(mean=one.mean.double(), std=one.std.double())
    for cached in (_sage_local_task._shared_models, _sage_together._shared_stack):
        cached.cache_clear()


@pytest.mark.parametrize("method", SAGE_METHODS)
def test_clients_together_end_as_alone(method, in_float64):
    own = {"FedLabel": {"burn_in": 0, "threshold": 0.15}, "FedMatch": {"threshold": 0.15}, "FedLoKe": {"entropy": 2.2}}
    changes = {f"{method.lower()}_{name}": value for name, value in own.get(method, {}).items()}
    config = config_of(method, steps_per_epoch=4, threshold=0.15, n_clients=6, lr=0.03, **changes)
    setting = open_method(config).setting
    setting = replace(setting, training=in_float64(setting.training), testing=in_float64(setting.testing))
    start = {name: value.double() if value.is_floating_point() else value
             for name, value in setting.new_model().state_dict().items()}  # fmt: skip

    def tasks():
        return [LocalTask(setting, RECIPES[method], client, 1, start) for client in (0, 2, 5)]

    for one, together in zip([task.run() for task in tasks()], run_together(tasks()), strict=True):
        for name, value in one.model.items():
            assert torch.allclose(together.model[name], value, rtol=0, atol=1e-11), name
        assert together.n_steps == one.n_steps == 4
        assert together.losses == pytest.approx(one.losses, abs=1e-11)
        for found, wanted in ((together.sent, one.sent), (together.memory, one.memory)):
            assert found.keys() == wanted.keys()
            assert all(torch.allclose(found[name], value, rtol=0, atol=1e-11) for name, value in wanted.items())
        for name in ("start_scores", "start_batch_scores", "end_scores", "end_batch_scores", "probe_scores"):
            atol = 1e-12 if name.startswith("start") else 1e-9
            assert torch.allclose(getattr(together, name), getattr(one, name), rtol=0, atol=atol), name
        if one.noted is not None:
            assert int(one.noted.used.sum()) > 0
            assert torch.equal(together.noted.used, one.noted.used)
            assert torch.equal(together.noted.places, one.noted.places)
            assert torch.allclose(together.noted.weight, one.noted.weight, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", ["FedAvg", "SAGE", "FedLoKe"])
def test_batches_of_several_clients_are_those_of_each_alone(method, monkeypatch):
    monkeypatch.setattr(_batches, "VIEWS_AT_ONCE", 32)  # two of four steps at a time
    setting = open_method(config_of(method, steps_per_epoch=4, local_epochs=2)).setting
    start = dict(setting.new_model().state_dict())
    tasks = [LocalTask(setting, RECIPES[method], client, 1, start) for client in (3, 0, 7)]
    together = zip(*_batches.batches_of([task.source for task in tasks]), strict=True)
    for task, batches in zip(tasks, together, strict=True):
        alone = list(task.batches())
        assert len(batches) == len(alone) == 8
        for found, wanted in zip(batches, alone, strict=True):
            for name, value in vars(wanted).items():
                if name == "global_" and value is not None:  # a pass over more images rounds otherwise
                    assert torch.allclose(found.global_, value, rtol=0, atol=1e-5)
                else:
                    assert value is None if getattr(found, name) is None else torch.equal(getattr(found, name), value)


def in_two_groups(parameters):
    """Weights decay, the rest does not; the stem is not trained."""
    _, *trained = parameters
    groups = ([one for one in trained if (one.ndim > 1) is decays] for decays in (True, False))
    return torch.optim.SGD(
        [{"params": group, "weight_decay": decay} for group, decay in zip(groups, (0.1, 0.0), strict=True)], lr=0.1
    )


@pytest.mark.parametrize(
    "optimiser", [partial(torch.optim.Adam, lr=1e-3), partial(torch.optim.SGD, lr=0.1), in_two_groups]
)
def test_a_recipes_own_optimiser_moves_clients_together_as_alone(optimiser, in_float64):
    def begin(task):
        task.optimiser = optimiser(task.model.parameters())

    recipe = Recipe(uses_pool=False, begin=begin)
    setting = open_method(config_of("FedAvg-SL", steps_per_epoch=4, lr=0.03)).setting
    setting = replace(setting, training=in_float64(setting.training), testing=in_float64(setting.testing))
    start = dict(setting.new_model().state_dict())
    alone = [LocalTask(setting, recipe, client, 1, start).run() for client in (0, 1)]
    together = run_together([LocalTask(setting, recipe, client, 1, start) for client in (0, 1)])
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one.model["stem.weight"], start["stem.weight"]) is (optimiser is in_two_groups)
        assert not torch.equal(one.model["head.weight"], start["head.weight"])
        assert all(torch.allclose(other.model[name], value, rtol=0, atol=1e-9) for name, value in one.model.items())


@pytest.mark.long  # compiling takes seconds
@pytest.mark.parametrize(("method", "together"), [("FedDure", 1), ("FedDure", 2), ("SAGE", 2)])
def test_compiled_models_give_the_same_round(method, together, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # the model is compiled, not the checks around it
    compiled = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", lambda self: compiled(self, backend="aot_eager"))
    few = {"steps_per_epoch": 2, "participation": 0.05 * together, "threshold": 0.15, "clients_per_forward": together}
    methods = [open_method(config_of(method, compile=compile, **few)) for compile in (False, True)]
    first, second = (one.round(one.initial_state()) for one in methods)
    assert len(first.updates) == together
    assert method != "FedDure" or first.row["loss_fine"] > 0
    for name, value in first.state.model.items():
        assert torch.allclose(second.state.model[name], value, rtol=0, atol=1e-5), name


@pytest.mark.parametrize("method", SAGE_METHODS)
def test_nothing_is_read_from_a_graph_that_has_run_again(method, monkeypatch):
    """A CUDA graph's results last until the next step; here those of a step become NaN then."""
    results = []

    def compile_as_graph(self):
        eager = self.forward
        self.forward = lambda images: results.append(eager(images)) or results[-1]

    def next_step():
        for one in results:
            one.detach().fill_(torch.nan)
        results.clear()

    caches = _sage_local_task._shared_models, _sage_together._shared_stack
    few = {"steps_per_epoch": 3, "participation": 0.15, "threshold": 0.15, "clients_per_forward": 2}
    plain = open_method(config_of(method, **few))
    expected = plain.round(plain.initial_state())
    monkeypatch.setattr(nn.Module, "compile", compile_as_graph)
    monkeypatch.setattr(SageConfig, "in_graphs", True)
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", next_step)
    for cache in caches:
        cache.cache_clear()
    graphs = open_method(config_of(method, compile=True, **few))
    found = graphs.round(graphs.initial_state())
    for cache in caches:
        cache.cache_clear()
    assert results
    assert found.row == expected.row
    assert all(torch.equal(found.state.model[name], value) for name, value in expected.state.model.items())


def give(method, client, changed):
    federation = method.setting.federation
    shards = tuple(changed(one) if k == client else one for k, one in enumerate(federation.shards))
    object.__setattr__(federation, "shards", shards)


def test_clients_with_fewer_steps_go_apart_and_keep_their_meaning():
    alone, together = (open_method(config_of(clients_per_forward=n, n_clients=6, participation=0.7)) for n in (1, 4))
    client = sage_participants(alone.config, 0)[1]
    for method in (alone, together):
        give(method, client, lambda shard: Shard(shard.train[:40], shard.test, shard.labelled[:2]))
    state = alone.initial_state()
    first, second = (method.round(state) for method in (alone, together))
    steps = {k: update.n_steps for k, update in first.updates.items()}
    assert len(set(steps.values())) > 1
    assert {k: update.n_steps for k, update in second.updates.items()} == steps
    assert all(torch.equal(v, second.updates[client].model[n]) for n, v in first.updates[client].model.items())
    assert second.row["n_views"] == first.row["n_views"]


def test_a_client_of_whose_pool_fewer_images_are_reported_goes_alone():
    alone, together = (
        open_method(config_of(clients_per_forward=n, n_clients=6, participation=0.5, steps_per_epoch=2, n_probe=40))
        for n in (1, 3)
    )
    client = sage_participants(alone.config, 0)[1]
    for method in (alone, together):
        give(method, client, lambda shard: Shard(shard.train[:36], shard.test, shard.labelled))
    first, second = (method.round(alone.initial_state()) for method in (alone, together))
    assert sorted({len(update.end_scores) for update in second.updates.values()}) == [36, 40]
    for name in ("end_distance", "start_batch_entropy", "end_accuracy"):
        wanted = [value for value in first.row["clients"][name] if value is not None]
        assert [value for value in second.row["clients"][name] if value is not None] == pytest.approx(wanted, abs=1e-4)


def test_a_stack_is_its_models_side_by_side():
    models = [draw_resnet8(10, 4, torch.Generator().manual_seed(seed)).double() for seed in (0, 1, 2)]
    images = torch.rand(3, 5, 3, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    state = stacked_values([model.state_dict() for model in models])
    stack = StackedResNet8(3, 10, 4).double()
    stack.load_state_dict(state)
    found = stack(torch.cat(list(images), dim=1))
    apart = single_values(stack.state_dict(), 3)
    for client, (model, own) in enumerate(zip(models, apart, strict=True)):
        assert torch.allclose(found[client], model(images[client]), atol=1e-12)
        assert all(torch.allclose(own[name], value) for name, value in model.state_dict().items())


def test_scores_by_the_batchs_statistics_leave_the_model_alone():
    setting = open_method(config_of()).setting
    model, images = setting.new_model().eval(), setting.images[:12]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    scores = batch_scores(model, images, setting.training)
    assert not model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not torch.allclose(scores, model_scores(model, images, setting.training))
    assert torch.equal(batch_scores(model, images[:1], setting.training),
                       model_scores(model, images[:1], setting.training))  # fmt: skip


@pytest.mark.parametrize("changes", [{"bn": "local"}, {"pl_bn": "eval"}, {"momentum_state": "carry"}])
def test_what_needs_clients_one_by_one_gets_and_says_so(changes):
    assert configure("smoke", method="SAGE").clients_per_forward == 4
    assert configure("smoke", method="SAGE", **changes).clients_per_forward == 1
    with pytest.raises(FedCoPLError, match="clients_per_forward=3 is not valid; expected 1 with another"):
        configure("smoke", method="SAGE", clients_per_forward=3, **changes)
