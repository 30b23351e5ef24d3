"""How Sphinx builds the site: `make docs`. Nothing is loaded from the network, neither by the build nor by the pages."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "_ext"))

from page_links import documented  # noqa: E402

project = "labeldp"
author = "the labeldp authors"
project_copyright = "the labeldp authors, Apache-2.0"
release = version = installed("labeldp")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "command_pages",  # this one and those below lie in _ext/
    "docstrings",
    "error_list",
    "gallery_look",
    "line_breaks",
    "page_links",
    "picture_words",
    "section_lists",
    "stale_files",
]
exclude_patterns = ["_build", "_ext", "_templates", "gallery", "pictures/*.ipynb", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
nitpicky = True
nitpick_ignore_regex = [("py:obj", ".*")]  # `code` in a docstring links to what it names, if that has a page
default_role = "py:obj"

# Pages
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # the same anchors as on GitHub
nb_execution_mode = "off"  # notebooks are stored with their output, and a test executes them

highlight_language = "none"  # blocks that name no language are output

# The reference
autosummary_generate = True
autodoc_typehints = "none"  # types are in the docstrings
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the templates list them
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {name: place for name, place in documented().items() if "." not in name}
add_module_names = False
python_maximum_signature_line_length = 100

# The gallery: every script in gallery/ runs, and a script that fails stops the build
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "pictures",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "image_scrapers": ("gallery_look",),
    "capture_repr": (),
    "remove_config_comments": True,
    "copyfile_regex": r".*\.rst",
}

# The look
html_theme = "furo"
html_title = "labeldp"
pygments_dark_style = "github-dark"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"
html_search_scorer = str(DOCS / "_static/search_scores.js")
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
