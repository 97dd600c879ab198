"""``fedcopl-lab data`` from the first byte on the server to a set that loads."""

import multiprocessing
import sys

import fakes
import pytest

import fedcopl_lab.data._unpack as unpacking
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.cli import main
from fedcopl_lab.data import data_root, get, load_dataset, load_manifest, read_source, state_of, verify


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDCOPL_LAB_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def small_cinic(own_manifests, server, tmp_path):
    """CINIC-10 in small, on the local server."""
    classes = ("airplane", "automobile")
    own_manifests.small("cinic10", 6, 6, classes)
    archive = fakes.tar(tmp_path / "CINIC-10.tar.gz", fakes.cinic10(classes, 3)).read_bytes()
    own_manifests.edit(
        "cinic10",
        (r'^urls = \[".*?"\]', f'urls = ["{server.url}CINIC-10.tar.gz"]'),
        (r'^md5 = "\w+"', f'md5 = "{fakes.md5(archive)}"'),
    )
    server.files["CINIC-10.tar.gz"] = archive
    return archive


def test_from_the_server_to_a_data_set(small_cinic, server, root, capfd):
    assert state_of("cinic10") == "absent"
    assert main(["data", "get", "cinic10"]) == 0
    assert "B/s" in capfd.readouterr().err
    assert state_of("cinic10") == "here"
    assert len(load_dataset("cinic10")) == 12
    assert main(["data", "verify"]) == 0
    assert "cinic10: 21 files read, all right" in capfd.readouterr().out
    assert main(["data", "get", "cinic10", "--quiet"]) == 0
    (root / "cinic10/CINIC-10.tar.gz").unlink()  # not needed after unpacking
    get("cinic10", progress=False)
    assert len(server.requests) == 1
    assert verify("cinic10").problems == ()


def test_a_set_with_a_file_missing_is_not_here(root):
    cifar = load_manifest("cifar10")
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for member in cifar.members:
        (root / member.path).write_bytes(b"")
    here = state_of("cifar10")
    (root / cifar.members[-1].path).unlink()
    assert (here, state_of("cifar10")) == ("here", "partly")


def test_a_changed_file_is_named_kept_and_replaced_only_when_told(small_cinic, server, root, capfd):
    get("cinic10", progress=False)
    image = root / "cinic10/train/airplane/cifar10-train-1.png"
    changed = bytearray(image.read_bytes())
    changed[60] ^= 1
    image.write_bytes(changed)
    assert main(["data", "verify", "cinic10"]) == 2
    shown = capfd.readouterr()
    assert f"{image} has sha256" in shown.out
    assert "1 problem(s)" in shown.err
    assert image.read_bytes() == bytes(changed)
    assert main(["data", "get", "cinic10", "--replace", "--quiet"]) == 0
    assert main(["data", "verify", "cinic10"]) == 0
    assert (root / "cinic10/train.bad/airplane/cifar10-train-1.png").read_bytes() == bytes(changed)


def test_a_wrong_archive_is_never_unpacked(small_cinic, server, root, capsys):
    server.faults = [{"content": small_cinic[:-1] + b"x"}]
    assert main(["data", "get", "cinic10", "--quiet"]) == 2
    assert "it is kept as" in capsys.readouterr().err
    assert sorted(path.name for path in (root / "cinic10").iterdir()) == ["CINIC-10.tar.gz.bad"]
    assert state_of("cinic10") == "partly"


def test_an_unpacking_that_was_stopped_half_way_is_completed(small_cinic, root, monkeypatch):
    moved, real = [], unpacking._move

    def stop_at_second(source, target):
        if len(moved) == 2:
            raise KeyboardInterrupt
        moved.append(target)
        real(source, target)

    monkeypatch.setattr(unpacking, "_move", stop_at_second)
    with pytest.raises(KeyboardInterrupt):
        get("cinic10", progress=False)
    monkeypatch.setattr(unpacking, "_move", real)
    get("cinic10", progress=False)
    assert verify("cinic10").problems == ()
    assert not list((root / "cinic10").glob(".unpacking-*"))


def _get_in_child(folder, root):
    import fedcopl_lab.data._manifests as manifests

    manifests.manifest_folder = lambda: folder
    get("cinic10", root, progress=False)


@pytest.mark.skipif(sys.platform == "win32", reason="starts processes by spawn with patched modules")
def test_two_processes_fetch_a_set_once(small_cinic, own_manifests, server, root):
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_get_in_child, args=(own_manifests.folder, root)) for _ in range(2)]
    for child in both:
        child.start()
    for child in both:
        child.join(60)
    assert [child.exitcode for child in both] == [0, 0]
    assert len(server.requests) == 1


def test_list_and_where(small_cinic, root, capsys):
    get("cinic10", progress=False)
    assert main(["data", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    for name, words in {"digits": "in the package", "cub": "not here", "cinic10": " here ", "ViT-B-32": "MIT"}.items():
        assert words in lines[name]
    assert "1.2 GB" in lines["cub"]
    assert main(["data", "where"]) == 0
    shown = capsys.readouterr().out
    assert all(told in shown for told in (f"{root}  (set", str(root / "NAME" / "NAME.pt")))
    assert "cinic10" in shown


def test_files_in_the_root_itself_are_locked_there(small_cinic, root):
    get("cinic10", progress=False)
    for path in (root / "cinic10").iterdir():
        path.rename(root / path.name)
    before = sorted(root.parent.iterdir())
    assert get("cinic10", progress=False) == root
    assert sorted(root.parent.iterdir()) == before


@pytest.mark.parametrize("name", ["digits", "tiny"])
def test_what_is_in_the_package_is_not_verified(name, root, capsys):
    root.mkdir()
    assert main(["data", "verify", name]) == 2
    assert f"{name} is part of the package and checked when it is loaded" in capsys.readouterr().err
    with pytest.raises(FedCoPLError, match="digits is part of the package and has no files"):
        read_source(load_manifest("digits"))


def test_nothing_there(root, capsys, own_manifests, monkeypatch):
    monkeypatch.setenv("HOME", str(root))
    assert main(["data", "verify"]) == 0
    assert "nothing to check" in capsys.readouterr().out
    assert main(["data", "verify", "cub"]) == 2
    assert main(["data", "verify", "ViT-B-32"]) == 2
    assert main(["data", "get", "digits"]) == 2
    assert main(["data", "get", "digit"]) == 2
    assert "did you mean 'digits'?" in capsys.readouterr().err


def test_root_is_the_argument_then_the_variable_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDCOPL_LAB_DATA", str(tmp_path / "there"))
    assert data_root() == tmp_path / "there"
    assert data_root(tmp_path / "here") == tmp_path / "here"
    monkeypatch.delenv("FEDCOPL_LAB_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_root().name == "data"
    assert sys.platform != "linux" or data_root() == tmp_path / "cache" / "fedcopl_lab" / "data"


def test_a_spoiled_record_is_named(small_cinic, root):
    get("cinic10", progress=False)
    (root / "cinic10/CINIC-10.tar.gz.files.json").write_text("{")
    with pytest.raises(FedCoPLError, match=r"files\.json is not valid JSON .* remove it"):
        verify("cinic10")
