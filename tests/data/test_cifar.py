"""The official CIFAR files, byte for byte, through the code path of a downloaded set."""

import pytest
import torch
from torchvision import datasets as torchvision_datasets

from fedcopl_lab.data import load_dataset


@pytest.mark.parametrize(("name", "official"), [("cifar10", "CIFAR10"), ("cifar100", "CIFAR100")])
def test_same_images_and_labels_as_torchvision(real_cifar, name, official):
    dataset = load_dataset(name, real_cifar)
    assert (len(dataset.train_indices), len(dataset.test_indices)) == (50_000, 10_000)
    assert dataset.manifest.content_known, "a checksum of all pixels and labels was compared while loading"
    for train, indices in ((True, dataset.train_indices), (False, dataset.test_indices)):
        reference = getattr(torchvision_datasets, official)(real_cifar, train=train, download=False)
        assert [label.replace("_", " ") for label in reference.classes] == list(dataset.class_names)
        assert dataset.labels[indices].tolist() == reference.targets
        some = torch.arange(0, len(indices), 997)
        expected = torch.from_numpy(reference.data[some.numpy()]).permute(0, 3, 1, 2)
        assert torch.equal(dataset.images[indices[some]], expected)
