"""Text from files and messages, shown as it is: Streamlit reads Markdown, in which a picture's address would be loaded."""

from __future__ import annotations

import re

_SIGNS = re.compile(r"([!-/:-@\[-`{-~])")


def as_text(text: str) -> str:
    """The text with every sign of Markdown escaped, on one line for each of its lines."""
    return "  \n".join(_SIGNS.sub(r"\\\1", line) for line in text.splitlines())
