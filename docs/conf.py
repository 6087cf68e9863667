"""Settings of the documentation's site: ``make docs`` writes it to build/site."""

from __future__ import annotations

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # examples read tables of tests/support
DATA = pathlib.Path(os.environ.setdefault("TREEANOVA_DATA", str(ROOT.parent / "shared" / "data")))
OUT = ROOT / "build" / "gallery"  # what examples write
OUT.mkdir(parents=True, exist_ok=True)
os.environ["TREEANOVA_OUT"] = str(OUT)

import treeanova  # noqa: E402  after the path is set

project = "TreeANOVA"
author = "The TreeANOVA developers"
copyright = author  # noqa: A001  Sphinx's name
version = release = treeanova.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [
    "sg_execution_times.rst",
    "gallery/sg_execution_times.rst",
    "gallery/*.ipynb",
    "gallery/*.py",
    "gallery/*.json",
    "gallery/*.zip",
]
templates_path = ["_templates"]

# Pages
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build" / "site-cache")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

# Reference
autosummary_generate = True
autodoc_class_signature = "separated"
autodoc_typehints = "none"  # numpydoc's Parameters say them
numpydoc_show_class_members = False
add_module_names = False

# Gallery. California's table comes from the data folder or a download: without the folder, its script is shown only.
not_run = "" if (DATA / "california_housing.csv.gz").is_file() else "california|"
sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": rf"/(?!{not_run}__init__|demo)[a-z_]+\.py",
    "ignore_pattern": r"__init__\.py|demo\.py",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
}

# Look
html_theme = "pydata_sphinx_theme"
html_title = "TreeANOVA"
html_static_path = ["_static"]
html_extra_path = ["llms.txt"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
