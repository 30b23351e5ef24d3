"""Links of the pages that GitHub resolves and Sphinx does not, and links from names in the text to the reference.

- `SECURITY.md` and the other pages at the root of the repository are pages of the site.
- A page at the root that is included here has links from there: they are tried from the root too.
- Any other file (a script, a source file) is not a page: its name is shown.
- `LabelRandomizer` or `labeldp privatize`, as code in the text, links to its page in the reference.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path

from command_pages import FOLDER, commands
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

import labeldp

ROOT = Path(__file__).resolve().parents[2]
ROOT_PAGES = {
    "README.md": "index",
    "SECURITY.md": "project/security",
    "CONTRIBUTING.md": "project/contributing",
    "CHANGELOG.md": "project/changelog",
}
LONG = 30
"""Code of more letters than this may be broken at the end of a line."""
MODULES = ["labeldp.losses", "labeldp.plots", "labeldp.spark", "labeldp.paper.data"]


class FileLinks(SphinxTransform):
    """Lead links to files of the repository to pages of the site."""

    default_priority = 5

    def apply(self, **_: object) -> None:
        found = [*self.document.findall(addnodes.pending_xref), *self.document.findall(addnodes.download_reference)]
        for node in found:
            if node.get("reftype") == "myst" and node["reftarget"] not in self.env.found_docs:
                self._resolve(node)

    def _resolve(self, node: nodes.Element) -> None:
        path, _, anchor = node["reftarget"].partition("#")
        if node.get("refdomain") == "doc":  # MyST took it for a page, and cut the end off
            path, anchor = f"{path}.md", node["reftargetid"]
        if not path:
            return
        here = Path(self.env.doc2path(self.env.docname)).parent
        target = next((each for each in ((here / path).resolve(), ROOT / path) if each.exists()), None)
        if target is None:
            return  # MyST warns
        relative = target.relative_to(ROOT).as_posix()
        page = ROOT_PAGES.get(relative) or self.env.path2doc(str(target))
        if page and page in self.env.found_docs:
            link = addnodes.pending_xref("", *node.children, reftype="myst", refdomain="doc", reftarget=page)
            link.update_basic_atts({})
            link["reftargetid"], link["refdoc"] = anchor or None, self.env.docname
            link["refexplicit"] = node["refexplicit"]
            node.replace_self(link)
        elif node.astext() == relative:
            node.replace_self(nodes.literal("", relative))
        else:
            node.replace_self([*node.children, nodes.Text(" ("), nodes.literal("", relative), nodes.Text(")")])


@cache
def documented() -> dict[str, str]:
    """Return code that may appear in the text, with its full name in the reference.

    `labeldp.losses.Loss` and `labeldp.losses.Loss` are one class, and it has one page: that of `labeldp.losses`.
    """
    losses = import_module("labeldp.losses").__all__
    top = {name: f"labeldp.losses.{name}" if name in losses else f"labeldp.{name}" for name in labeldp.__all__}
    whole = {f"{module}.{name}": f"{module}.{name}" for module in MODULES for name in import_module(module).__all__}
    in_full = {f"labeldp.{name}": place for name, place in top.items()}
    return whole | in_full | {name: place for name, place in top.items() if name[0].isupper()}


def meant_by(text: str) -> dict[str, str | None] | None:
    """The page of the reference that code in the text means, as Sphinx wants it."""
    if name := documented().get(text.partition("(")[0]):
        return {"refdomain": "py", "reftype": "obj", "reftarget": name}
    command = re.match(r"labeldp (ledger [a-z]+|[a-z-]+)", text)
    if command and command[1] in dict(commands()):
        target = f"{FOLDER}/{command[1].replace(' ', '-')}"
        return {"refdomain": "doc", "reftype": "myst", "reftarget": target, "reftargetid": None}
    return None


class NameLinks(SphinxTransform):
    """Link code in the text of a page to the reference, and mark code that may be broken at the end of a line."""

    default_priority = 6

    def apply(self, **_: object) -> None:
        in_text = not self.env.docname.startswith(("reference/", "pictures/"))
        for literal in list(self.document.findall(nodes.literal)):
            text = " ".join(literal.astext().split())
            if len(text) > LONG:
                literal["classes"].append("long")
            above = literal.parent
            while above is not None and not isinstance(above, (nodes.reference, addnodes.pending_xref, nodes.title)):
                above = above.parent
            if above is not None:
                continue
            if in_text and (target := meant_by(text)):
                code = literal.deepcopy()
                words = nodes.inline("", "", code) if target["reftype"] == "myst" else code  # MyST unpacks it
                literal.replace_self(
                    addnodes.pending_xref("", words, refdoc=self.env.docname, refexplicit=True, **target)
                )


BACK = re.compile(r'(generated/(labeldp(?:\.\w+)*)\.(\w+)\.html#)labeldp(?:\.\w+)*?\.\3((?:\.\w+)*")')
"""A link from a page of source code to the page of a name, and to a place on it."""


def correct_back_links(app: Sphinx, error: Exception | None) -> None:
    """Give links from source code the place that the page has: Sphinx takes all names of a file to be public in one module."""
    if error is None:
        for page in (Path(app.outdir) / "_modules").rglob("*.html"):
            text = page.read_text(encoding="utf-8")
            page.write_text(BACK.sub(r"\1\2.\3\4", text), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(FileLinks)
    app.add_transform(NameLinks)
    app.connect("build-finished", correct_back_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
