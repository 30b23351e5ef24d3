"""The public names, as the pages of the reference list them."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"


def public_names():
    """Each public module with the names that the reference lists there."""
    found = defaultdict(set)
    for page in REFERENCE.glob("*.rst"):
        current = None
        for line in page.read_text(encoding="utf-8").splitlines():
            if opened := re.match(r"\.\. currentmodule:: (\S+)", line):
                current = opened[1]
            elif current and (entry := re.fullmatch(r"   ([A-Za-z_][\w.]*)", line)):
                module, _, name = f"{current}.{entry[1]}".rpartition(".")
                found[module].add(name)
    return dict(found)


PUBLIC_NAMES = public_names()


def is_public(module, name):
    """Whether a name may be imported from a module in examples: it is listed, a constant beside listed names, or a public module itself."""
    if f"{module}.{name}" in PUBLIC_NAMES:
        return True
    return module in PUBLIC_NAMES and (name in PUBLIC_NAMES[module] or name.isupper())
