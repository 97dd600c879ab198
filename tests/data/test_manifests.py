import re

import pytest

import fedcopl_lab.data._manifests as manifests
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import known_manifests, load_manifest, manifest_folder, read_manifest_table
from fedcopl_lab.data._readers import READERS


@pytest.fixture
def spoiled(tmp_path, monkeypatch):
    """Load a copy of a manifest in which a text was replaced; the copy's path."""

    def load(name, old, new):
        path = tmp_path / f"{name}.toml"
        text = (manifest_folder() / path.name).read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        monkeypatch.setattr(manifests, "manifest_folder", lambda: tmp_path)
        return path

    return load


def test_digits_manifest_says_what_it_holds():
    assert "digits" in known_manifests()
    assert "digits" in known_manifests("dataset")
    assert "digits" not in known_manifests("weights")
    manifest = load_manifest("digits")
    assert manifest.classes == (*("zero", "one", "two", "three", "four"), *("five", "six", "seven", "eight", "nine"))
    assert (manifest.n_train, manifest.n_test) == (1197, 600)
    assert manifest.template.format("six") == "a photo of the digit six."
    assert manifest.licence == "CC BY 4.0"
    assert "\n" not in repr(manifest)


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
    with pytest.raises(FedCoPLError, match=r"'digit'; did you mean 'digits'\?; known: .*digits"):
        load_manifest("digit")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('licence = "CC BY 4.0"', "", "'licence'"),
        ("[counts]", "[countless]", "'counts'"),
        ("train = 1197", "train = 'many'", "'many'"),
        ("[split]", "[labelled_per_class]\nmany = 5\n\n[split]", "'many'"),
        ("[split]", '[normalisation]\nmean = ["much"]\nstd = [0.2]\n\n[split]', "'much'"),
        ('kind = "dataset"', 'kind = "weights"', "describes weights; choose among"),
    ],
)
def test_a_malformed_manifest_is_named(spoiled, old, new, said):
    path = spoiled("digits", old, new)
    with pytest.raises(FedCoPLError) as caught:
        load_manifest("digits")
    assert str(path) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert ("is no manifest" in str(caught.value)) == ("describes" not in said)


def test_broken_toml_names_the_file(spoiled):
    spoiled("digits", 'name = "digits"', "name = ")
    with pytest.raises(FedCoPLError, match=r"digits\.toml is not valid TOML"):
        load_manifest("digits")


PAPERS = {
    "cifar10": (10, 50_000, 10_000, "a photo of a cat."),
    "cifar100": (100, 50_000, 10_000, "a photo of a cat."),
    "dtd": (47, 2_820, 1_692, "a photo of a cat"),
    "resisc45": (45, 6_300, 25_200, "a photo of a cat"),
    "cub": (200, 5_994, 5_794, "a photo of a cat"),
    "ucf101": (101, 7_639, 3_783, "a photo of a cat"),
    "svhn": (10, 73_257, 26_032, None),
    "cinic10": (10, 90_000, 90_000, None),
}


@pytest.mark.parametrize("name", PAPERS)
def test_counts_and_prompts_are_the_papers(name):
    manifest = load_manifest(name)
    classes, train, test, prompt = PAPERS[name]
    assert (len(manifest.classes), manifest.n_train, manifest.n_test) == (classes, train, test)
    if prompt is not None:
        assert manifest.template.format("cat") == prompt
    assert manifest.loader in READERS
    assert manifest.files
    assert not any("_" in label for label in manifest.classes)


@pytest.mark.parametrize("name", sorted(known_manifests()))
def test_every_manifest_keeps_the_schema(name):
    table = read_manifest_table(name)
    assert table["name"] == name
    assert table["kind"] in ("dataset", "weights")
    if table["kind"] == "weights":
        assert re.fullmatch("[0-9a-f]{64}", table["sha256"])
        if "files" not in table:
            return  # trained here and part of the package; its model card says the rest
    for field in ("title", "licence", "citation"):
        assert table[field].strip()
    assert all(source.strip() for source in table["sources"])
    if table["kind"] == "dataset":
        manifest, tested = load_manifest(name), table["split"].get("test_indices", [])
        assert table["counts"]["classes"] == len(set(manifest.classes)) == len(manifest.classes)
        assert manifest.template.count("{}") == 1
        assert len(tested) in (0, manifest.n_test)
        assert tested == sorted({*tested} & {*range(manifest.n_train + manifest.n_test)})
        assert all(0 < share < 1 and n >= 1 for share, n in manifest.labelled_per_class)
    for file in table.get("files", []):
        assert "/" not in file["name"]
        assert all(url.startswith(("http://", "https://")) for url in file["urls"])
        assert file["urls"] or file["by_hand"]
        known = [field for field in ("md5", "sha256") if field in file]
        assert all(re.fullmatch("[0-9a-f]{32}|[0-9a-f]{64}", file[field]) for field in known)
        assert bool(known) == ("checksum_source" in file), "a checksum says where it comes from"
        if not known:
            assert any(file["name"] in line or "files[" in line for line in table["unverified"])
    if table["kind"] == "dataset" and "content_sha256" not in table:
        assert any(line.startswith("content:") for line in table["unverified"]), "what was never loaded says so"
    allowed = {
        *("name", "title", "kind", "loader", "folder", "marker", "image_size", "classes", "template", "licence"),
        *("template_source", "citation", "sources", "notes", "unverified", "content_sha256", "counts", "split"),
        *("normalisation", "labelled_per_class", "files", "members", "videos", "sha256", "architecture"),
        *("pretrained", "value_range"),
    }
    assert set(table) <= allowed


def test_known_misprints_are_noted():
    notes = {name: " ".join(load_manifest(name).notes) for name in PAPERS}
    assert "5,594" in notes["cub"]
    assert "66 classes" in notes["cub"]
    assert "58 classes" in notes["resisc45"]
    assert "30 classes" in notes["ucf101"]


def test_files_and_statistics_are_typed():
    cifar = load_manifest("cifar10")
    assert cifar.files[0].checksum == "md5:c58f30108f718f92721af3b95e74349a"
    assert len(cifar.members) == 7
    assert cifar.normalisation is not None
    assert cifar.normalisation.std == (0.2471, 0.2435, 0.2616)
    assert cifar.normalisation.std_at_test == (0.2023, 0.1994, 0.2010)
    assert cifar.labelled_per_class == ((0.1, 500), (0.2, 1000))
    assert load_manifest("dtd").normalisation is None
    assert all("\n" not in repr(part) for part in (cifar.files[0], cifar.members[0], cifar.normalisation))


def test_content_that_is_not_recorded_stands_for_the_files_checksums(spoiled):
    first = load_manifest("svhn")
    assert not first.content_known
    spoiled("svhn", "cdce80df", "cdce80d0")
    assert load_manifest("svhn").content_sha256 != first.content_sha256
