"""The official CIFAR files, byte for byte, through the code path of a downloaded set."""

import shutil

import pytest
import torch
from torchvision import datasets as torchvision_datasets

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.cli import main
from fedcopl_lab.data import load_dataset, verify


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


def test_one_flipped_byte_is_named_and_kept(real_cifar, tmp_path, capsys):
    folder = tmp_path / "data"
    shutil.copytree(real_cifar / "cifar-10-batches-py", folder / "cifar-10-batches-py")
    assert main(["data", "verify", "cifar10", "--root", str(folder)]) == 0
    assert "cifar10: 7 files read, all right" in capsys.readouterr().out
    path = folder / "cifar-10-batches-py" / "data_batch_3"
    content = bytearray(path.read_bytes())
    content[1_000_000] ^= 1
    path.write_bytes(content)
    assert main(["data", "verify", "cifar10", "--root", str(folder)]) == 2
    shown = capsys.readouterr()
    assert f"{path} has md5" in shown.out
    assert "nothing was changed" in shown.err
    assert path.read_bytes() == bytes(content)
    with pytest.raises(FedCoPLError, match=r"data_batch_3 has md5 .* the file is kept"):
        load_dataset("cifar10", folder)
    path.unlink()
    assert [problem.split("/")[-1] for problem in verify("cifar10", folder).problems] == ["data_batch_3 is missing"]
