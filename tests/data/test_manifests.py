import shutil
from pathlib import Path

import pytest

import fedcopl_lab.data._manifests as manifests
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import known_manifests, load_manifest, manifest_folder


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a copy of the digits manifest that a test may spoil."""
    shutil.copy(manifest_folder() / "digits.toml", tmp_path / "digits.toml")
    monkeypatch.setattr(manifests, "manifest_folder", lambda: tmp_path)
    return tmp_path


def test_digits_manifest_says_what_it_holds():
    manifest = load_manifest("digits")
    assert manifest.classes == (
        *("zero", "one", "two", "three", "four"),
        *("five", "six", "seven", "eight", "nine"),
    )
    assert (manifest.n_train, manifest.n_test) == (1197, 600)
    assert manifest.template.format("six") == "a photo of the digit six."
    assert manifest.licence == "CC BY 4.0"
    assert "\n" not in repr(manifest)


def test_digits_is_known_as_a_dataset():
    assert "digits" in known_manifests()
    assert "digits" in known_manifests("dataset")
    assert "digits" not in known_manifests("weights")


def test_packaged_copy_is_preferred_to_the_checkout(tmp_path, monkeypatch):
    package = tmp_path / "site" / "fedcopl_lab"
    (package / "data").mkdir(parents=True)
    monkeypatch.setattr(manifests, "__file__", str(package / "data" / "_manifests.py"))
    with pytest.raises(FedCoPLError, match="install fedcopl-lab again"):
        manifest_folder()
    checkout_copy = tmp_path / "site" / "data_manifests"
    checkout_copy.mkdir()
    assert manifest_folder() == checkout_copy
    packaged_copy = package / "data_manifests"
    packaged_copy.mkdir()
    assert manifest_folder() == packaged_copy


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(FedCoPLError, match=r"'digit'; did you mean 'digits'\? known manifests: .*digits"):
        load_manifest("digit")


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('licence = "CC BY 4.0"', "", "licence"),
        ("train = 1197", "train = 'many'", "counts.train"),
        ("train = 1197", "train = true", "counts.train"),
        ("test = 600", "test = 599", "split.test_indices"),
        ("    1, 4, 10,", "    4, 1, 10,", "split.test_indices"),
        ("    1, 4, 10,", "    -1, 4, 10,", "split.test_indices"),
        ('"one"', '"zero"', "classes"),
        ('"one"', "1", "classes"),
        ("the digit {}.", "the digit.", "template"),
        ('kind = "dataset"', 'kind = "weights"', "kind"),
        ('name = "digits"', 'name = "figures"', "name"),
        ("[counts]", "[countless]", "counts.train"),
    ],
)
def test_malformed_field_is_named_with_its_file(own_folder: Path, old: str, new: str, field: str):
    path = own_folder / "digits.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(FedCoPLError) as caught:
        load_manifest("digits")
    assert str(path) in str(caught.value)
    assert f"'{field}'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_broken_toml_names_the_file(own_folder: Path):
    (own_folder / "digits.toml").write_text("name = ", encoding="utf-8")
    with pytest.raises(FedCoPLError, match=r"digits\.toml is not valid TOML"):
        load_manifest("digits")
