"""Signs that the terminal cannot encode are written as words or plain signs instead of ending the command."""

import codecs
import sys
import unicodedata

HANDLER = "labeldp-plain"
WORDS = {
    "ε": "epsilon",
    "τ": "tau",
    "δ": "delta",
    "…": "...",
    "−": "-",
    "–": "-",
    "—": "-",
    "×": "x",
    "·": "*",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "±": "+-",
    "√": "sqrt",
    "→": "->",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "•": "*",
    "█": "#",
    "━": "-",
    "╸": "-",
    "╺": "-",
}
"""What stands for the signs that labeldp prints. Others lose their accents or become a question mark."""


def degrade_output() -> None:
    """Make standard output and standard error write what they can encode, whatever is printed."""
    codecs.register_error(HANDLER, _plain)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=HANDLER)


def encodes_everything() -> bool:
    """Whether standard output takes any text, as UTF-8 does."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_word(sign) for sign in error.object[error.start : error.end]), error.end


def _word(sign: str) -> str:
    if sign in WORDS:
        return WORDS[sign]
    bare = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()  # ₁ is 1, é is e
    return bare or "?"
