"""What an interval may assume beyond its bare minimum. Nothing of it is assumed unless the caller says so."""

from collections.abc import Collection

from labeldp.errors import InvalidInput

TAILS = "tails"
PART = "part"

ASSUMPTIONS = {
    TAILS: "labels too large or too small to be told apart have predictions that are on average on the same side of the mean",
    PART: "the labels evaluated are a random part of all labels that were privatized together",
}
"""Each assumption by name, in words."""


def checked(assume: Collection[str]) -> frozenset[str]:
    """The assumptions by name; an error for any other name."""
    names = frozenset([assume] if isinstance(assume, str) else assume)
    if unknown := names - set(ASSUMPTIONS):
        raise InvalidInput(f"assume takes {' and '.join(map(repr, ASSUMPTIONS))}, got {sorted(map(str, unknown))}")
    return names
