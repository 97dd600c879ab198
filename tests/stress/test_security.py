"""Nothing foreign is trusted: no pickles, no shell, no ports, no secrets, and text stays text."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

import fedcopl_lab

PACKAGE = Path(fedcopl_lab.__file__).parent
ROOT = PACKAGE.parent
SECRETS = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "a key of a cloud": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a token of a forge": re.compile(
        r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|glpat-[A-Za-z0-9_-]{20}|xox[abp]-[0-9A-Za-z-]{20})"
    ),
    "a token of a hub": re.compile(r"\b(?:hf_[A-Za-z]{30,}|sk-[A-Za-z0-9]{32,}|pypi-AgE[A-Za-z0-9_-]{30,})"),
    "a password in an address": re.compile(r"https?://[^/\s:@\"'<>]+:[^/\s:@\"'<>]{3,}@"),
}
REFUSED_CALLS = {"eval", "exec", "os.system", "os.popen", "load_module", "bind", "listen", "HTTPServer",
                 "ThreadingHTTPServer"}  # fmt: skip


def calls_of(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            whole = ast.unparse(node.func)
            name = whole if whole in REFUSED_CALLS else whole.rpartition(".")[2]
            yield name, isinstance(node.func, ast.Attribute), node


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_shell_no_code_from_text_no_port(path):
    for name, is_method, node in calls_of(path):
        if name == "eval" and is_method:  # a model's switch
            continue
        assert name not in REFUSED_CALLS, f"line {node.lineno} calls {name}"
        keywords = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
        assert not keywords.get("shell"), f"line {node.lineno} starts a shell"
        if name == "load" and ast.unparse(node.func) == "torch.load":
            assert keywords.get("weights_only") is True, f"line {node.lineno} loads a pickle"
        assert not keywords.get("allow_pickle"), f"line {node.lineno} loads a pickle"


def test_pickles_are_read_in_one_place_only():
    importing = [path for path in PACKAGE.rglob("*.py") if re.search(r"^\s*import pickle", path.read_text(), re.M)]
    assert len(importing) == 1
    assert "class _ArraysOnly(pickle.Unpickler)" in importing[0].read_text()


def test_no_secret_is_committed():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a checkout")
    found = []
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = ROOT / name
        if path.suffix in (".png", ".pdf", ".safetensors") or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        found += [f"{name}: {what}" for what, pattern in SECRETS.items() if pattern.search(text)]
    assert found == []


@pytest.mark.parametrize(
    "parts",  # apart, so that this file passes the check
    [("-----BEGIN RSA PRIVATE", " KEY-----"), ("AKIA", "A" * 16), ("ghp_", "a" * 36), ("https://me:", "secret@host/")],
)
def test_the_secrets_check_sees_secrets(parts):
    assert any(pattern.search("".join(parts)) for pattern in SECRETS.values())
