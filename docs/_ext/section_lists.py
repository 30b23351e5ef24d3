"""Lists of pages show the first paragraph of each page."""

from __future__ import annotations

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

KEY = "first paragraph"


def note_first_paragraph(app: Sphinx, document: nodes.document) -> None:
    first = next(document.findall(nodes.paragraph), None)
    if first is not None:
        app.env.metadata[app.env.docname][KEY] = " ".join(first.astext().split())


def list_pages(app: Sphinx, document: nodes.document, docname: str) -> None:
    """Show the pages of a toctree in its place. The toctree itself stays, for the navigation."""
    if not docname.endswith(("index", "/commands")) or docname.startswith(
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
    app.connect("doctree-read", note_first_paragraph)
    app.connect("env-updated", rewrite_navigation)
    app.connect("doctree-resolved", list_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
