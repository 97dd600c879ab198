"""Sphinx: the whole repository is the source, so that links between its pages hold in the site as they do on disk."""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

from site_pages import add_to_sphinx  # noqa: E402

from fedcopl_lab import __version__  # noqa: E402

project, release, copyright = "fedcopl_lab", __version__, "the fedcopl_lab authors, MIT licence"
root_doc = "docs/index"
include_patterns = [
    "docs/**", "notebooks/*.ipynb", "notebooks/README.md", "figures/mini/README.md", "deployment/README.md",
    "fedcopl_lab/models/embedded/*.md", "CHANGELOG.md",
]  # fmt: skip
exclude_patterns = ["docs/_build", "docs/*.py", "**.ipynb_checkpoints"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]

nb_execution_mode = "off"
nb_ipywidgets_js = {}  # type: ignore[var-annotated]
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
myst_enable_extensions = ["dollarmath", "amsmath", "attrs_inline"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_attr_annotations = False

html_theme = "furo"
html_title = "fedcopl_lab"
html_static_path, html_css_files = ["static"], ["site.css"]
html_copy_source = html_show_sphinx = False
html_math_renderer = "mathml"  # browsers draw it by themselves: no script, no network


def setup(app):  # noqa: D103
    return add_to_sphinx(app)
