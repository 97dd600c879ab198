"""Another value for every field that all configurations share than ``configure("smoke")`` has."""

OF_EVERY_RUN = {
    "profile": "other",
    "seed": 1,
    "dataset": "cifar10",
    "n_clients": 6,
    "participation": 0.5,
    "rounds": 5,
    "local_epochs": 4,
    "batch_size": 16,
    "lr": 0.2,
    "momentum": 0.8,
    "weight_decay": 0.1,
    "device": "cuda",
    "threads": 2,
}
