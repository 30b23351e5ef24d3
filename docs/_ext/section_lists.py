"""The list of pages on the first page of a section is complete, and shows the first paragraph of each page.

A line `*` in a toctree represents all pages of the folder that the page does not name. Unlike `:glob:`, it may represent none.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

KEY = "first paragraph"


def name_all_pages(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname.endswith("/index") and "\n*\n" in source[0]:
        folder = docname.removesuffix("index")
        pages = (page.removeprefix(folder) for page in sorted(app.env.found_docs) if page.startswith(folder))
        others = [page for page in pages if page != "index" and not re.search(rf"^{page}$", source[0], re.MULTILINE)]
        source[0] = source[0].replace("\n*\n", "".join(f"\n{page}" for page in others) + "\n")
        app.env.glob_toctrees.add(docname)  # read again when a page is added


def note_first_paragraph(app: Sphinx, document: nodes.document) -> None:
    first = next(document.findall(nodes.paragraph), None)
    if first is not None:
        app.env.metadata[app.env.docname][KEY] = " ".join(first.astext().split())


def list_pages(app: Sphinx, document: nodes.document, docname: str) -> None:
    """Show the pages of a section in place of its toctrees, which stay for the navigation."""
    if not docname.endswith(("/index", "/commands")) or docname.startswith(
        "pictures/"
    ):  # a gallery lists its pages itself
        return
    for toctree in list(document.findall(addnodes.toctree)):
        shown = nodes.bullet_list(classes=["pages-of-section"])
        for title, page in toctree["entries"]:
            words = title or app.env.titles[page].astext()
            link = nodes.reference("", words, refuri=app.builder.get_relative_uri(docname, page), internal=True)
            item = nodes.list_item("", nodes.paragraph("", "", link))
            if text := app.env.metadata.get(page, {}).get(KEY):
                item.append(nodes.paragraph("", text))
            shown.append(item)
        caption = [nodes.rubric("", toctree["caption"])] if toctree["caption"] else []
        place = toctree.parent.parent.index(toctree.parent)
        toctree.parent.parent[place:place] = [*caption, shown]
        toctree["hidden"] = True


def rewrite_navigation(_app: Sphinx, env: BuildEnvironment) -> set[str]:
    """Write all pages once more where a page was added or renamed: each has the whole navigation."""
    titles = {page: title.astext() for page, title in env.titles.items()}
    before, env.navigation = getattr(env, "navigation", None), (dict(env.toctree_includes), titles)
    return set() if before is None or before == env.navigation else env.found_docs


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", name_all_pages)
    app.connect("doctree-read", note_first_paragraph)
    app.connect("env-updated", rewrite_navigation)
    app.connect("doctree-resolved", list_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
