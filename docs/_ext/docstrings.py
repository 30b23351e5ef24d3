"""Docstrings on reference pages: a box for the section `Privacy`, and no members and base classes that are not ours."""

from __future__ import annotations

import inspect
from typing import Any

from numpydoc.docscrape import NumpyDocString
from numpydoc.docscrape_sphinx import SphinxDocString
from numpydoc.xref import DEFAULT_LINKS
from page_links import documented
from sphinx.application import Sphinx

import labeldp

_warnings = SphinxDocString._str_warnings  # noqa: SLF001


def _privacy_and_warnings(self: SphinxDocString) -> list[str]:
    box = [".. admonition:: Privacy", "   :class: privacy", "", *self._str_indent(self["Privacy"], 3), ""]
    return (box if self["Privacy"] else []) + _warnings(self)


def skip_foreign_members(_app: Sphinx, _what: str, _name: str, member: Any, _skip: bool, _options: Any) -> bool | None:
    """Leave out what a class inherits from other libraries, such as scikit-learn's `get_params`."""
    function = getattr(member, "fget", None) or getattr(member, "__func__", None) or member
    if inspect.isroutine(function) and not str(getattr(function, "__module__", "")).startswith("labeldp"):
        return True
    return None


def name_public_bases(_app: Sphinx, what: str, _name: str, thing: Any, _options: Any, lines: list[str]) -> None:
    bases = [base.__name__ for base in getattr(thing, "__bases__", ()) if base.__name__ in labeldp.__all__]
    if what in {"class", "exception"} and bases:
        lines += ["", "Base class: " + ", ".join(f":class:`~{documented()[base]}`" for base in bases) + "."]


def setup(app: Sphinx) -> dict[str, bool]:
    NumpyDocString.sections["Privacy"] = []
    DEFAULT_LINKS.clear()  # to Python's own pages, which are elsewhere
    SphinxDocString._str_warnings = _privacy_and_warnings  # noqa: SLF001
    app.connect("autodoc-skip-member", skip_foreign_members)
    app.connect("autodoc-process-docstring", name_public_bases, priority=900)  # after numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}
