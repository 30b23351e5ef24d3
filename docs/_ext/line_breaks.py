"""Line breaks: a number stays with its unit, and a wide table in the output of a command is not wrapped."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx

KEPT_TOGETHER = re.compile(r"(?<=\d) (?=%)|(?<=ε) (?==)|(?<=ε =) (?=\d)")
WIDTH = 105
"""The characters of a line that fit into a page at 1280 pixels."""


def keep(_: Sphinx, document: nodes.document) -> None:
    for text in list(document.findall(nodes.Text)):
        if not isinstance(text.parent, nodes.literal | nodes.literal_block | nodes.raw | nodes.comment):
            together = KEPT_TOGETHER.sub("\N{NO-BREAK SPACE}", text)
            if together != text:
                text.parent.replace(text, nodes.Text(together))
    for block in document.findall(nodes.literal_block):
        if any("───" in line and len(line) > WIDTH for line in block.astext().splitlines()):
            block["classes"].append("wide-output")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", keep)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
