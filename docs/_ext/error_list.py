"""A page with every error and warning of labeldp, read from the source before the build: one line each, to search in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx

PAGE = "reference/messages.md"
SOURCE = Path(__file__).resolve().parents[2] / "src" / "labeldp"
HEAD = """# All messages

Every error and warning of labeldp, one per line, generated from the code.

Search this page for a few words of your message. `…` replaces a name, a number or a path.
[Limits, questions and errors](../guides/limits-and-errors.md#errors) explains common problems, and what was charged.

"""


def write_page(app: Sphinx) -> None:
    path, text = (
        Path(app.srcdir) / PAGE,
        HEAD + "\n".join(f"- {one}" for one in sorted(found(), key=str.casefold)) + "\n",
    )
    if not path.exists() or path.read_text(encoding="utf-8") != text:  # keeps the date of what did not change
        path.write_text(text, encoding="utf-8")


def found() -> set[str]:
    """The sentences of all errors and warnings, as code in Markdown."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")]
    kinds = error_classes(trees)
    texts = {text for tree in trees for text in messages(tree, kinds)}
    return {f"`` {text} ``" if "`" in text else f"`{text}`" for text in texts if len(re.findall(r"\w{2,}", text)) > 3}


def error_classes(trees: list[ast.Module]) -> set[str]:
    """The names of all classes that derive from an exception."""
    bases = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    kinds = {"Exception", "ValueError", "UserWarning"}
    while more := {name for name, of in bases.items() if of & kinds} - kinds:
        kinds |= more
    return kinds


def messages(tree: ast.Module, kinds: set[str]) -> Iterator[str]:
    """The texts that are given to an error, to `warnings.warn` or to a function that prints a note."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in kinds | {"warn", "note", "complain"}:
                yield from (re.sub(r"…+", "…", " ".join(text.split())) for text in texts(node.args[0]))


def texts(node: ast.expr) -> list[str]:
    """What an expression may say: one text for each branch, with `…` for what is not fixed."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return ["".join(texts(value)[0] if isinstance(value, ast.Constant) else "…" for value in values)]
        case ast.BinOp(op=ast.Add()):
            return [left + right for left in texts(node.left) for right in texts(node.right)]
        case ast.IfExp():
            return [*texts(node.body), *texts(node.orelse)]
    return ["…"]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_page)
    return {"parallel_read_safe": True}
