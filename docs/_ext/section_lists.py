"""The list of pages on the first page of a section is complete, and says for whom each page is.

A line `*` in a toctree stands for all pages of the folder that the page does not name. Unlike `:glob:`, it may stand for none.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx

KEY = "first paragraph"


def name_all_pages(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname.endswith("/index") and "\n*\n" in source[0]:
        folder = docname.removesuffix("index")
        pages = (page.removeprefix(folder) for page in sorted(app.env.found_docs) if page.startswith(folder))
        others = [page for page in pages if page != "index" and not re.search(rf"^{page}$", source[0], re.MULTILINE)]
        source[0] = source[0].replace("\n*\n", "".join(f"\n{page}" for page in others) + "\n")
        app.env.glob_toctrees.add(docname)  # read again when a page is added


def note_first_paragraph(app: Sphinx, document: nodes.document) -> None:
    first = next((node for node in document.findall(nodes.paragraph) if node.astext().startswith("For ")), None)
    if first is not None:
        app.env.metadata[app.env.docname][KEY] = " ".join(first.astext().split())


def add_first_paragraphs(app: Sphinx, document: nodes.document, docname: str) -> None:
    if not docname.endswith("/index"):
        return
    for box in document.findall(nodes.compound):
        if "toctree-wrapper" not in box["classes"]:
            continue
        for item in box.findall(nodes.list_item):
            link = next(item.findall(nodes.reference))
            target = link["refuri"].partition("#")[0]
            page = f"{docname.rpartition('/')[0]}/{target.removesuffix('.html')}"
            if text := app.env.metadata.get(page, {}).get(KEY):
                item.append(nodes.paragraph("", text, classes=["for-whom"]))
                item["classes"].append("page-of-section")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", name_all_pages)
    app.connect("doctree-read", note_first_paragraph)
    app.connect("doctree-resolved", add_first_paragraphs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
