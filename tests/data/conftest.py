"""A server that misbehaves on demand, and manifests a test may change."""

import re
import shutil

import pytest
from faulty_server import FaultyServer

import fedcopl_lab.data._manifests as manifests
from fedcopl_lab.data._download import Patience


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    faulty = FaultyServer()
    yield faulty
    faulty.close()


@pytest.fixture
def patience():
    return Patience(attempts=3, connect=2.0, read=0.3, first_pause=0.01, longest_pause=0.05)


class OwnManifests:
    """Copies of the packaged manifests in a folder of the test's own."""

    def __init__(self, folder):
        self.folder = folder

    def edit(self, name, *changes):
        """Replace texts (pattern, replacement) in one manifest; every pattern has to be found."""
        path = self.folder / f"{name}.toml"
        text = path.read_text(encoding="utf-8")
        for pattern, replacement in changes:
            text, count = re.subn(pattern, lambda _, new=replacement: new, text, flags=re.M | re.S)
            assert count, pattern
        path.write_text(text, encoding="utf-8")

    def small(self, name, n_train, n_test, classes=None):
        """A manifest for a fake of the set: its counts, and the first classes only."""
        changes = [(r"^train = \d+", f"train = {n_train}"), (r"^test = \d+", f"test = {n_test}")]
        if classes is not None:
            quoted = ", ".join(f'"{label}"' for label in classes)
            changes += [
                (r"^classes = \[.*?\]", f"classes = [{quoted}]"),
                (r"^classes = \d+", f"classes = {len(classes)}"),
            ]
        self.edit(name, *changes)


@pytest.fixture
def own_manifests(tmp_path, monkeypatch):
    folder = tmp_path / "manifests"
    shutil.copytree(manifests.manifest_folder(), folder)
    for path in folder.glob("*.toml"):  # no test asks the internet
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub('"https?://', '"http://127.0.0.1:9/', text), encoding="utf-8")
    monkeypatch.setattr(manifests, "manifest_folder", lambda: folder)
    return OwnManifests(folder)
