"""Files of this machine as Spark names them."""

from __future__ import annotations

import os
import re
from pathlib import Path


def local_uri(path: str | os.PathLike[str]) -> str:
    """The URI of a path. Hadoop takes the characters as they are: "%20" would be a part of the name."""
    return f"file://{Path(path).absolute()}"


def readable_uri(path: str | os.PathLike[str]) -> str:
    """The same for Spark's readers, which take brackets and the like for patterns unless they are escaped."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", local_uri(path))
