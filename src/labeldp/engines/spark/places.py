"""Paths of this machine as Spark reads them. Hadoop takes a URI as it is written, so nothing in it is percent-encoded."""

import os
from pathlib import Path

_WILDCARDS = frozenset("\\{}[]*?")


def file_uri(path: str | os.PathLike[str]) -> str:
    """The URI under which Spark writes to a path."""
    return f"file:///{Path(path).absolute().as_posix().lstrip('/')}"


def file_pattern(path: str | os.PathLike[str]) -> str:
    """The URI under which Spark reads a path: it would take some signs in its name for wildcards."""
    return "".join(f"\\{sign}" if sign in _WILDCARDS else sign for sign in file_uri(path))
