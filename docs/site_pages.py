"""What the site has beyond the repository's pages: the reference, the gallery, formulas, the figures themselves."""

import importlib
import inspect
import pkgutil
import re
import shutil
import sys
from html import escape
from pathlib import Path

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from PIL import Image
from sphinx.errors import ExtensionError
from sphinx.pycode import ModuleAnalyzer

ROOT = Path(__file__).resolve().parents[1]
MADE = ROOT / "docs" / "_made"
MODULES = {
    "data": "data sets, clients, divisions", "models": "CLIP with prompts, ResNet-8", "steps": "the papers' steps",
    "methods": "methods as client and server", "engine": "runs and sweeps", "store": "stored runs",
    "config": "settings and profiles", "seeding": "random numbers", "paper": "printed and measured numbers, claims",
    "report": "pictures, tables, the report", "widgets": "explorers", "cli": "the command line",
    "extras.federation": "separate clients", "extras.federation.flower": "Flower", "extras.cluster": "many machines",
    "extras.bench": "speed and cost", "extras.embedded": "training of the packaged models",
    "extras.exercises": "steps to write yourself", "extras.packs": "feature packs",
    "extras.run_archive": "runs in one file",
}  # fmt: skip


def add_to_sphinx(app):
    """Hook all of it in."""
    app.connect("builder-inited", lambda _: write_pages())
    app.connect("source-read", _link_pages)
    app.connect("build-finished", copy_figures)
    app.add_html_math_renderer("mathml", (_inline_formula, None), (_formula, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages():
    """``docs/_made``: a page of the reference for every package, and the gallery."""
    found = [
        name
        for folder, prefix in ((ROOT / "fedcopl_lab", ""), (ROOT / "fedcopl_lab" / "extras", "extras."))
        for _, name, _ in pkgutil.iter_modules([str(folder)], prefix)
    ]
    left_out = {name for name in found if "_" not in (name[0], name.split(".")[-1][0])} - {*MODULES, "extras"}
    if left_out:
        raise ExtensionError(f"the reference has no page for {', '.join(sorted(left_out))}: add it to MODULES")
    for name, about in MODULES.items():
        _write(MADE / "reference" / f"{name}.md", _reference(f"fedcopl_lab.{name}", about))
    names = "\n".join(_top_level_names())
    _write(MADE / "reference" / "fedcopl_lab.md", f"# fedcopl_lab\n\n`import fedcopl_lab as lab` offers:\n\n{names}\n")
    _write(MADE / "gallery.md", _gallery())


def _write(path, text):
    """Only where it changed, so that Sphinx does not read it again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def public_names(module):
    """What a module offers: its ``__all__``, else what it defines without an underscore."""
    own = getattr(module, "__all__", None)
    return own or [name for name, value in vars(module).items()
                   if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__]  # fmt: skip


def _reference(name, about):
    module = importlib.import_module(name)
    lines = [
        f"# {name.removeprefix('fedcopl_lab.')}: {about}",
        "",
        "```{eval-rst}",
        f".. automodule:: {name}",
        "   :no-members:",
    ]
    for public in public_names(module):
        value = getattr(module, public)
        kind = "class" if inspect.isclass(value) else "function" if inspect.isroutine(value) else "data"
        kind = "exception" if kind == "class" and issubclass(value, BaseException) else kind
        if kind == "data" and not inspect.ismodule(value):
            lines += ["", f".. py:data:: {name}.{public}", "", *(f"   {line}" for line in _said_of(name, public))]
        elif kind != "data":
            lines += ["", f".. auto{kind}:: {name}.{public}"] + (["   :members:"] if kind == "class" else [])
    return "\n".join([*lines, "```", ""])


def _said_of(package, name):
    """The string below a constant, in whichever module of the package it is set."""
    for module in [one for one in sys.modules if one == package or one.startswith(f"{package}.")]:
        told = ModuleAnalyzer.for_module(module).find_attr_docs()
        if ("", name) in told:
            return told["", name]
    return []


def _top_level_names():
    import fedcopl_lab as lab

    for name in sorted(lab.__all__):
        value = getattr(lab, name)
        if inspect.ismodule(value):
            continue
        home = next((f"fedcopl_lab.{page}" for page in MODULES
                     if name in public_names(importlib.import_module(f"fedcopl_lab.{page}"))), None)  # fmt: skip
        first = (inspect.getdoc(value) or "").partition("\n")[0]
        role = "class" if inspect.isclass(value) else "func"
        yield f"- {{py:{role}}}`lab.{name} <{home}.{name}>`: {first}" if home else f"- `lab.{name}`: {first}"


def _gallery():
    """All committed figures: a thumbnail, the title, the files."""
    from fedcopl_lab.paper import ITEMS

    papers = {"fedcopl": "FedCoPL", "sage": "SAGE"}
    titles = {item.id: f"{papers[item.id.split('_')[0]]}, {item.source}: {item.title}" for item in ITEMS}
    told = "A click opens the full picture. What each one says, and whether the papers' claims hold, stands in"
    parts = ["# All figures", "", f"{told} [the report](../../figures/report.html)."]
    for folder, heading in (("", "Digits: profile `smoke`"), ("mini/", "CIFAR: profile `mini`")):
        cards = [_card(f"{folder}{path.stem}", titles.get(path.stem, path.stem))
                 for path in sorted((ROOT / "figures" / folder).glob("*.png"))]  # fmt: skip
        parts += ["", f"## {heading}", "", "```{raw} html", '<div class="gallery">', *cards, "</div>", "```"]
    return "\n".join([*parts, ""])


def _card(name, title):
    base = f"../../figures/{name}"
    kinds = [kind for kind in ("pdf", "csv", "tex") if (ROOT / "figures" / f"{name}.{kind}").is_file()]
    files = " ".join(f'<a href="{base}.{kind}">{kind}</a>' for kind in kinds)
    picture = f'<img loading="lazy" src="../../figures/thumbnails/{name}.png" alt="{escape(title)}">'
    words = f"<figcaption>{escape(title)} <small>{files}</small></figcaption>"
    return f'<figure><a href="{base}.png">{picture}</a>{words}</figure>'


def _link_pages(app, name, source):
    """Links to the report and the explorers open the copies beside the pages; Sphinx would make downloads of them."""
    source[0] = re.sub(
        r"\[([^]]*)\]\(((?:(?:\.\./)+figures/)?(?:report|explorer)\.html)\)", r"<a href='\2'>\1</a>", source[0]
    )


def copy_figures(app, exception):
    """The figures beside the pages, as in the repository, with thumbnails; the site's first page at its top."""
    if exception:
        return
    out = Path(app.outdir)
    shutil.copytree(ROOT / "figures", out / "figures", dirs_exist_ok=True)
    for path in (ROOT / "figures").rglob("*.png"):
        small = out / "figures" / "thumbnails" / path.relative_to(ROOT / "figures")
        small.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as picture:
            picture.thumbnail((480, 360))
            picture.save(small)
    (out / "index.html").write_text('<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html">\n')


def _inline_formula(self, node):
    self.body.append(convert(node.astext()))
    raise SkipNode


def _formula(self, node):
    self.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')
    raise SkipNode
