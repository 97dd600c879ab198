"""The smallest semi-supervised run whose rounds have all their steps, and a descent written out."""

import torch

from fedcopl_lab import configure

SMALL = {
    "width": 0.25, "rounds": 2, "n_probe": 20, "n_clients": 20, "steps_per_epoch": None, "unlabelled_batch_size": 16,
    "labelled_per_class": None, "lr": 0.1, "flip": True, "clients_per_forward": 1,
}  # fmt: skip


def config_of(method="SAGE", **changes):
    return configure("smoke", method=method, **{**SMALL, **changes})


def descend(model, loss, lr=0.1):
    """A first step of SGD with weight decay 1e-4, by hand."""
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter -= lr * (gradient + 1e-4 * parameter)


def same_models(*pairs):
    """Whether each pair of models has the same parameters and statistics, up to rounding."""
    for ours, expected in pairs:
        for name, value in expected.state_dict().items():
            assert torch.allclose(ours.state_dict()[name], value, atol=1e-5), name
