"""Without the extra everything else works, and what needs it says so."""

import subprocess
import sys

import pytest

from fedcopl_lab import FedCoPLError
from fedcopl_lab.extras.federation.flower import need


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(FedCoPLError, match=r"ray is not installed.*pip install 'fedcopl-lab\[cluster\]'"):
        need("ray")


def test_an_import_error_inside_a_package_stays_what_it_is(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        need("broken_package")


def test_nothing_imports_the_extra_before_it_is_asked_for():
    code = (
        "import sys, fedcopl_lab.extras.federation as f, fedcopl_lab.extras.cluster as e\n"
        "import fedcopl_lab.extras.federation.flower as g\n"
        "f.serve, f.collect, g.server_app, g.client_app, g.simulate, e.ray_sweep\n"
        "assert not {'flwr', 'ray'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
