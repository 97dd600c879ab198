"""FedPGP, FedTPG and the classifiers on frozen features: each against a slow, obvious computation."""

import pytest
import torch
from torch.nn import functional as F

import fedcopl_lab as lab
from fedcopl_lab import FedCoPLError
from fedcopl_lab.methods import PromptSetting, open_method
from fedcopl_lab.methods._predicting import ClientModels
from fedcopl_lab.methods.prompt_client import initial_prompts
from fedcopl_lab.paper.items import _fedcopl_columns
from fedcopl_lab.steps import covariance_classifier, scorer_of

SMALL = {"dataset": "digits:600", "rounds": 1, "local_epochs": 1, "refresh_every": 0, "seed": 7, "n_text": 4}


def opened(method, **changes):
    return open_method(lab.configure("smoke", method=method, **SMALL | changes))


@pytest.fixture(scope="module")
def means():
    """One round of class means: the method and its result."""
    method = opened("ClassMeans")
    return method, method.round(method.initial_state())


def labelled(method, result):
    """(features, pseudo-labels) of every client."""
    setting = method.setting
    with torch.no_grad():
        features = F.normalize(setting.clip.model.encode_image(setting.clip.to_input(setting.dataset.images)), dim=1)
    own = [features[setting.train_indices(k)] for k in range(5)]
    return [(own[k][one.indices], one.labels) for k, one in enumerate(result.labels.labels)]


def test_the_averaged_class_means_are_those_of_all_images_together(means):
    method, result = means
    pairs = labelled(method, result)
    features, labels = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    texts = method.setting.scorer.texts(result.state.server)
    for c in range(10):
        expected = F.normalize(features[labels == c].mean(dim=0), dim=0) if (labels == c).any() else None
        torch.testing.assert_close(texts[c], method.setting.template[c] if expected is None else expected)


@pytest.mark.parametrize("method", ["LinearHead", "ClassMeans", "FedCOF"])
def test_an_untrained_classifier_is_zero_shot(method):
    one = opened(method)
    state, test = one.initial_state(), torch.arange(60)
    predicted = ClientModels(one.setting, state).logits(0, test).argmax(dim=1)
    assert torch.equal(predicted, one.setting.zero_shot_logits[test].argmax(dim=1))


def test_a_linear_head_takes_the_step_of_logistic_regression():
    one = opened("LinearHead", batch_size=2000, weight_decay=0.0, momentum=0.0)
    result = one.round(one.initial_state())
    start = initial_prompts(one.setting)["text"]
    for (features, labels), update in zip(labelled(one, result), result.updates.values(), strict=True):
        error = (features @ start.T).softmax(dim=1) - F.one_hot(labels, 10)
        torch.testing.assert_close(update.text, start - one.config.lr * error.T @ features / len(labels))


def by_hand(means, counts, shrinkage):
    """FedCOF's classifier, written out class by class and client by client."""
    (n_clients, n_classes, d), total = means.shape, counts.sum()
    matrix = torch.zeros(d, d, dtype=torch.float64)
    right, centre = torch.zeros(d, n_classes, dtype=torch.float64), torch.zeros(d, dtype=torch.float64)
    for c in range(n_classes):
        there = [k for k in range(n_clients) if counts[k, c]]
        n = sum(counts[k, c] for k in there)
        mean = sum(counts[k, c] * means[k, c] for k in there) / n
        covariance = shrinkage * torch.eye(d, dtype=torch.float64)
        for k in there if len(there) > 1 else ():
            apart = means[k, c] - mean
            covariance += counts[k, c] * torch.outer(apart, apart) / (len(there) - 1)
        matrix += (n - 1) * covariance
        right[:, c], centre = n * mean, centre + n * mean
    matrix += torch.outer(centre, centre) / total
    return torch.linalg.solve(matrix, right).T


def test_fedcof_is_the_formula_written_out():
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(4, 3, 5, generator=generator, dtype=torch.float64)
    counts = torch.tensor([[3, 0, 4], [2, 5, 0], [6, 1, 0], [0, 2, 0]], dtype=torch.float64)
    means[counts == 0] = 0.0
    torch.testing.assert_close(covariance_classifier(means, counts, 0.3), by_hand(means, counts, 0.3))
    empty = covariance_classifier(means, counts * torch.tensor([1.0, 0.0, 1.0]))
    assert not empty[1].any(), "a class without images has no weights, and so keeps the template's"


def test_fedcof_estimates_covariances_from_means_alone():
    """Its promise: over many clients the estimate comes near the true covariance."""
    generator = torch.Generator().manual_seed(1)
    mix = torch.tensor([[1.0, 0.0], [0.8, 0.6]], dtype=torch.float64)
    images = torch.randn(4000, 8, 2, generator=generator, dtype=torch.float64) @ mix.T
    means = images.mean(dim=1)[:, None] + torch.tensor([3.0, 0.0])
    rows = covariance_classifier(means, torch.full((4000, 1), 8.0), shrinkage=1e-9)
    centre = means.mean(dim=(0, 1))
    wanted = torch.linalg.solve(mix @ mix.T + torch.outer(centre, centre), centre)
    torch.testing.assert_close(rows[0], wanted, rtol=0.05, atol=0.01)


def test_fedcof_weighs_clients_by_their_counts(means):
    method = opened("FedCOF")
    result = method.round(method.initial_state())
    pairs = labelled(method, result)
    own = torch.zeros(5, 10, 64)
    counts = torch.stack([torch.bincount(labels, minlength=10) for _, labels in pairs])
    for k, (features, labels) in enumerate(pairs):
        for c in labels.unique():
            own[k, c] = features[labels == c].mean(dim=0)
    expected = covariance_classifier(own, counts.float())
    torch.testing.assert_close(result.state.server["text"][:, :-1], expected, rtol=1e-3, atol=1e-4)


def test_fedpgp_starts_from_the_shared_prompt_and_keeps_its_change():
    one = opened("FedPGP")
    state = one.initial_state()
    plain = opened("PromptFL", labeller="CoPL")
    torch.testing.assert_close(
        one.setting.scorer.texts(state.prompts(0))[0], plain.setting.scorer.texts(plain.initial_state().prompts(0))
    )
    after = one.round(state).state
    assert set(after.server) == {"text", "visual"}
    kept = after.clients["text_local"]
    assert kept.shape == (5, 2, 4 + 64)
    assert not torch.equal(kept[0], kept[1])
    assert ClientModels(one.setting, after).logits(0, torch.arange(40)).shape == (40, 10)


def test_fedpgp_pulls_to_the_template_and_away_from_the_own_prompt():
    scorer = opened("FedPGP").setting.scorer
    generator = torch.Generator().manual_seed(2)
    own, shared = F.normalize(torch.randn(2, 10, 64, generator=generator), dim=2)
    total = 0.0
    for c in range(10):
        near = (shared[c] @ scorer.template[c] / 0.5).exp()
        far = (shared[c] @ own[c] / 0.5).exp()
        total -= float((near / (near + far)).log()) / 10
    assert float(scorer.penalty(torch.stack([own, shared]))) == pytest.approx(total, rel=1e-5)


def test_fedtpg_makes_its_prompt_by_attention_over_the_class_texts():
    one = opened("FedTPG")
    scorer, network = one.setting.scorer, one.initial_state().server["text"]
    assert network.shape == (4 + 64 + 64 + 64, 64)
    queries, keys, values, out = network.split([4, 64, 64, 64])
    expected = []
    for query in queries:
        scores = torch.tensor([float(query @ (text @ keys)) / 8 for text in scorer.template]).softmax(dim=0)
        seen = sum(share * (text @ values) for share, text in zip(scores, scorer.template, strict=True))
        expected.append(query + seen @ out)
    torch.testing.assert_close(scorer.generated(network), torch.stack(expected))
    after = one.round(one.initial_state()).state
    assert not torch.equal(after.server["text"], network)


@pytest.mark.parametrize("method", ["FedPGP", "FedTPG"])
def test_clients_in_one_forward_pass_end_as_alone(method):
    """Stacked prompts are scored as each would be on its own."""
    ends = []
    for together in (1, 5):
        one = opened(method, clients_per_forward=together)
        ends.append(one.round(one.initial_state()).state.server["text"])
    torch.testing.assert_close(*ends, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["FedPGP", "FedTPG"])
def test_a_scorer_that_reads_the_template_is_refused_without_it(method):
    setting = opened(method).setting
    with pytest.raises(FedCoPLError, match=f"{method} .* reads the template; pass the template's text"):
        scorer_of(setting.prompted, setting.config)


@pytest.mark.parametrize("method", ["FedPGP", "ClassMeans"])
def test_an_image_side_alone_is_refused(method):
    with pytest.raises(FedCoPLError, match="text or both"):
        lab.configure("smoke", method=method, modalities="visual", aggregate="visual")


@pytest.mark.parametrize(("profile", "clip"), [("smoke", "tiny"), ("smoke", "mini")])
def test_bytes_of_the_prompts_that_the_rounds_are_counted_with(profile, clip):
    setting = PromptSetting.of(lab.configure(profile, clip=clip))
    sizes = torch.Size(setting.prompted.visual_shape).numel(), setting.clip.model.text_projection.shape[1]
    assert _fedcopl_columns.numbers_sent(setting.config) == sizes
    assert _fedcopl_columns.numbers_sent(lab.configure("paper")) == (42_240, 512), "the paper's own number"


def test_a_rival_sends_no_more_than_fedcopl():
    sent = {}
    for method in ("FedCoPL", "LinearHead", "ClassMeans", "FedCOF"):
        settings, columns = {"method": method}, _fedcopl_columns.ONE_SPLIT
        config = _fedcopl_columns.grid("smoke", {method: settings}, columns)[0].config
        if method != "FedCoPL":
            config = _fedcopl_columns.at_equal_bytes(method, settings, columns, "smoke")[0].config
        start = initial_prompts(PromptSetting.of(config))
        sent[method] = config.rounds * sum(start[part].nbytes for part in config.shared)
    most = sent.pop("FedCoPL")
    assert all(0.8 * most < one <= most for one in sent.values())
