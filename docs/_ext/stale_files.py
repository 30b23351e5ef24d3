"""Pages that were generated for names, scripts or commands that are gone. Left there, they would be pages that nothing leads to."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx


def remove(app: Sphinx) -> None:
    docs = Path(app.srcdir)
    groups = "\n".join(path.read_text(encoding="utf-8") for path in (docs / "reference").glob("*.rst"))
    listed = set(re.findall(r"^   (\w+)$", groups, re.MULTILINE))
    for stub in (docs / "reference" / "generated").glob("*.rst"):
        if stub.stem.rpartition(".")[2] not in listed:
            stub.unlink()
    for page in (docs / "pictures").glob("plot_*"):
        if not (docs / "gallery" / f"{page.name.split('.')[0]}.py").exists():
            page.unlink()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", remove, priority=1)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
