"""Paths of this machine as Spark reads them, whatever characters they have."""

from __future__ import annotations

import re
from pathlib import Path

_GLOB = re.compile(r"[\\*?\[\]{}]")


def place(path: Path) -> str:
    """Where Spark should write or look up a file. Hadoop takes the text as it is: a space is no %20."""
    return f"file://{path.absolute()}"


def pattern(path: Path) -> str:
    """What Spark's readers, who take patterns, find that one file by."""
    return _GLOB.sub(r"\\\g<0>", place(path))
