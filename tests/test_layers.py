"""Data flow one way: a lower layer never imports a higher one, and figures never load torch."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import fedcopl_lab

PACKAGE = Path(fedcopl_lab.__file__).parent

LAYERS = (
    ("_errors", "_html", "_lazy", "_threads", "_tour", "_card"),
    ("config", "_files", "seeding"),
    ("data",),
    ("models",),
    ("steps",),
    ("methods",),
    ("store", "_identity"),
    ("engine",),
    ("paper",),
    ("report",),
    ("widgets",),
    ("cli", "extras"),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def layer_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_modules(path):
    """Every module a file names in an import, at the top or inside a function, as dotted text."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                folder = path.parent.relative_to(PACKAGE.parent).parts
                module = ".".join([*folder[: len(folder) - node.level + 1], *filter(None, [module])])
            if module == "fedcopl_lab":
                for alias in node.names:
                    homes = (home for home, names in fedcopl_lab._NAMES.items() if alias.name in names.split())
                    yield f"fedcopl_lab{next(homes, f'.{alias.name}')}", node.lineno
            else:
                yield module, node.lineno


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_imports_a_higher_layer(path):
    own = layer_of(path)
    assert own in RANK, f"{own} has no place in LAYERS: say where it belongs"
    for module, line in imported_modules(path):
        parts = module.split(".")
        if parts[0] != "fedcopl_lab":
            continue
        assert len(parts) > 1, f"{path.name}:{line} imports the whole package; name the module it needs"
        name = parts[1]
        if name in ("__version__", "FedCoPLError", "PromptConfig", "RunConfig", "configure"):
            continue
        assert name in RANK, f"{path.name}:{line} imports {module}, which has no place in LAYERS"
        assert RANK[name] <= RANK[own], f"{path.name}:{line}: {own} may not import {module}"
        if RANK[name] == RANK[own] and name != own:
            assert RANK[name] >= RANK["config"] or own == "_errors", f"{path.name}:{line}"


def package_of(parts):
    """The package that a module below fedcopl_lab belongs to: its first folder or file, two in extras."""
    return tuple(parts[: 2 if parts[0] == "extras" else 1])


def private_imports(path):
    """Names with a leading underscore that a file imports from another package."""
    own = package_of(path.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedcopl_lab."):
            module = node.module.split(".")[1:]
            for alias in node.names:
                inner = [*module, alias.name][len(package_of(module)) :]
                if package_of(module) != own and any(name.startswith("_") for name in inner):
                    yield f"{'.'.join(module)}.{alias.name}"


def test_no_package_imports_anothers_private_module():
    found = {str(path.relative_to(PACKAGE)): names for path in MODULES if (names := list(private_imports(path)))}
    assert not found


def test_steps_do_not_print_or_touch_files():
    for path in MODULES:
        if layer_of(path) != "steps":
            continue
        calls = (node.func for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call))
        called = {function.id for function in calls if isinstance(function, ast.Name)}
        assert not called & {"print", "open", "input"}, path.name
        modules = {module.split(".")[0] for module, _ in imported_modules(path)}
        assert not modules & {"os", "pathlib", "random", "logging", "warnings"}, path.name


def test_nothing_seeds_a_global_random_state():
    for path in MODULES:
        tree = tree_of(path)
        put_back = set()  # inside `with torch.random.fork_rng(...)` the global state is as before afterwards
        for node in ast.walk(tree):
            if isinstance(node, ast.With) and "fork_rng" in ast.unparse(node.items[0]):
                put_back |= {id(inner) for inner in ast.walk(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and id(node) not in put_back:
                call = ast.unparse(node.func)
                assert call not in ("torch.manual_seed", "np.random.seed", "random.seed"), f"{path}:{node.lineno}"


def test_figures_and_tables_never_load_torch():
    code = "import sys, fedcopl_lab.store, fedcopl_lab.paper, fedcopl_lab.report; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
