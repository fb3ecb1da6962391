"""How Sphinx builds the site: `make docs`. Nothing is fetched, and a warning is an error."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src"), str(HERE.parent)]
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # texts are read, nothing is computed

import api_pages  # noqa: E402

import noisette  # noqa: E402

project = "noisette"
author = "The noisette founders"
copyright = "The noisette founders, BSD-3-Clause"
version = release = noisette.__version__

extensions = [
    "api_pages",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "theorem_links",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_ext"]
nitpicky = False
default_role = "literal"

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

autosummary_generate = False  # `api_pages` writes one page for each public name
autodoc_typehints = "none"  # numpydoc's sections say it
autodoc_class_signature = "mixed"
toc_object_entries_show_parents = "hide"  # beside a page of a class: `fit()`, not all of its path
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
api_pages.write(HERE / "api")

html_theme = "pydata_sphinx_theme"
html_title = "noisette"
html_static_path = ["_static"]
html_css_files = ["noisette.css"]
html_favicon = "_static/noisette.svg"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"image_light": "_static/noisette.svg", "image_dark": "_static/noisette.svg",
             "text": "noisette"},
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "navigation_with_keys": False,
    "show_prev_next": True,
    "back_to_top_button": False,
}  # fmt: skip
html_sidebars = {"index": []}
