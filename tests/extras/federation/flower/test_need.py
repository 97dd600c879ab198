"""What needs the extra says so; that nothing else imports it stands in tests/test_import.py."""

import sys

import pytest

from fedcopl_lab import FedCoPLError
from fedcopl_lab.extras.federation.flower import need


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(FedCoPLError, match=r"ray is not installed.*pip install '\.\[cluster\]'"):
        need("ray")


def test_an_import_error_inside_a_package_stays_what_it_is(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        need("broken_package")
