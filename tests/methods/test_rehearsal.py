"""Every method goes through a round on a card that is not there: no mixed devices, and no step that waits for it."""

import pytest
import torch
from pretend_card import pretend_card

from fedcopl_lab import configure
from fedcopl_lab.config import SAGE_METHODS
from fedcopl_lab.data import Dataset, channel_statistics, load_dataset, load_manifest, partition
from fedcopl_lab.methods import PromptMethod, PromptSetting, SemiMethod, SemiSetting
from fedcopl_lab.models import clip as clip_models
from fedcopl_lab.models.openai_weights import build_openai_clip

PROMPT_METHODS = ("PromptFL", "PromptProx", "pFedPrompt", "FedOTP", "FedCoPL")
WAITS = {
    "methods/_prompt_setting.py": "tokens, zero-shot scores and the template, once a data set",
    "models/clip.py": "the same",
    "models/prompted_clip.py": "class names, once a run",
    "steps/_zero_shot.py": "the same as tokens",
    "methods/prompt_client.py": "a client's start; its scores at a label phase, which become labels in memory",
    "steps/_local_training.py": "a client's labels before its steps, its losses after each local epoch",
    "methods/protocol.py": "weights of a mean",
    "steps/_aggregate.py": "the same; drift, for the round's row",
    "steps/_scorer.py": "which images a client has, once a round; pFedPrompt's cache, once a round and test",
    "steps/_confidence.py": "whether scores are finite, once a client's round and test",
    "methods/_predicting.py": "predicted classes of test images, compared in memory",
    "methods/_prompt_rows.py": "the round's row",
    "methods/_sage_setting.py": "images and which of them a client has, before its steps",
    "methods/_sage_local_task.py": "mean losses after the last step",
    "methods/_sage_rows.py": "the round's row",
    "models/resnet8.py": "a model is made",
    "models/openai_weights.py": "the same",
    "methods/_feddb.py": "weights of a mean, solved in memory",
    "methods/_feddure.py": "its small network goes to the card",
    "methods/_fedlabel.py": "numbers of pseudo-labels, as weights of a mean",
    "methods/_fedmatch.py": "psi is packed for its way to the server",
    "methods/sage_client.py": "the state that a letter brings",
    "methods/sage_server.py": "the same",
}
"""Where a round may wait for the card, outside its steps, and why."""

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def photos():
    """Function: made-up images of that side and number of classes; their bytes are one image's."""

    def make(side, classes, n):
        images = torch.zeros(1, 3, side, side, dtype=torch.uint8).expand(n, -1, -1, -1)
        digits = load_dataset("digits")
        cut = n * 4 // 5
        return Dataset(
            "digits", images, torch.arange(n) % classes, tuple(f"class {c}" for c in range(classes)), "a photo of {}.",
            torch.arange(cut), torch.arange(cut, n), "0" * 64, load_manifest(digits.name),
        )  # fmt: skip

    return make


def semi_round(method, photos, rounds=1, **changes):
    joining = 1.0 if method == "FedMatch" else 0.5
    config = configure(
        "paper", method=method, device="cuda", n_clients=2, participation=joining, rounds=3, local_epochs=1,
        steps_per_epoch=2, n_probe=30, label_fraction=0.3, unread="drop", **changes,
    )  # fmt: skip
    dataset = photos(32, 10, 2 * 400 * 5 // 4)
    federation = partition(dataset, "pairwise_balanced", 2, alpha=10.0, label_fraction=0.3)
    with pretend_card() as card:
        statistics = [channel_statistics(dataset, part, config.norm) for part in ("train", "test")]
        moved = [type(one)(one.mean.to("cuda"), one.std.to("cuda")) for one in statistics]
        setting = SemiSetting(config, dataset, federation, dataset.images.to("cuda"), dataset.labels.to("cuda"), *moved)
        run = SemiMethod(setting)
        state = run.initial_state()
        for _ in range(rounds):
            state = run.round(state).state
    return card


def prompt_round(method, photos, monkeypatch, backbone="ViT-B-32", classes=100, memory=24_000_000_000, **changes):
    few = {"ot_iterations": 20} if method == "FedOTP" else {}
    depth = {} if backbone == "RN50" else {"visual_depth": 2}
    settings = {"n_clients": 2, "rounds": 1, "local_epochs": 1, "labeller": "CoPL", **depth, **few} | changes
    config = configure("paper", method=method, clip=backbone, device="cuda", **settings)
    dataset = photos(224, classes, 2 * 120 * 5 // 4)
    federation = partition(dataset, "iid", 2)
    with pretend_card(memory) as card:
        with torch.device("cuda"):
            model = build_openai_clip(backbone).eval().requires_grad_(False)
        model.transformer.resblocks = model.transformer.resblocks[:3]  # each layer does what the others do
        if backbone != "RN50":
            model.visual.transformer.resblocks = model.visual.transformer.resblocks[:3]
        bundle = clip_models.bundle(backbone, model, "0" * 64)
        monkeypatch.setattr("fedcopl_lab.methods._prompt_setting.load_clip", lambda *args, **named: bundle)
        run = PromptMethod(PromptSetting.of_part(config, dataset, federation))
        run.round(run.initial_state())
    return card


def judge(card):
    assert not card.in_steps, card.in_steps
    elsewhere = {place.partition(":")[0] for _, place in card.waits} - set(WAITS) - {""}
    assert not elsewhere, elsewhere


@pytest.mark.parametrize("method", SAGE_METHODS)
def test_semi_supervised(method, photos):
    early = {"FedLabel": {"fedlabel_burn_in": 0}, "FedMatch": {"fedmatch_lookup_every": 1}}.get(method, {})
    judge(semi_round(method, photos, rounds=2 if method == "FedMatch" else 1, **early))


@pytest.mark.parametrize("method", PROMPT_METHODS)
def test_prompts(method, photos, monkeypatch):
    together = 1 if method == "FedCoPL" else 2
    judge(prompt_round(method, photos, monkeypatch, clients_per_forward=together))


def test_a_resnet_whose_tokens_wait_in_pinned_memory(photos, monkeypatch):
    card = prompt_round("FedCoPL", photos, monkeypatch, "RN50", clients_per_forward=2, memory=10_000_000)
    judge(card)
    assert card.waits["to the CPU", "methods/_prompt_setting.py:tokens"]
