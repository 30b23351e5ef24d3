"""Words for the pictures in the output of notebooks, which come without any: the last paragraph before the code that drew them."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx


def describe(app: Sphinx, document: nodes.document) -> None:
    if not app.env.docname.startswith("notebooks/"):
        return
    before = ""
    for node in document.findall(lambda node: isinstance(node, nodes.paragraph | nodes.image)):
        if isinstance(node, nodes.paragraph):
            before = " ".join(node.astext().split()) or before
        elif len(node.get("alt", "").split()) < 2:
            node["alt"] = f"A picture drawn by the code above it. {before}"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
