"""The values that a ledger takes: names, amounts, texts, counts and the fingerprints of keys.

SQLite stores any value in any column, and turns some into text on the way. The journal would then say something else than the
table for good. So whatever is given is checked here before it reaches the file.
"""

import hashlib
import hmac
import unicodedata
from fractions import Fraction

from labeldp.budget import MAX_DIGITS, MIN_EPSILON, Epsilon, abbreviated, fraction_of, parse_amount
from labeldp.errors import InvalidInput, described

MAX_BUDGET = 10**6
"""The largest budget, and so the largest amount in a ledger."""

MAX_RECORDS = 10**12
"""The most records of one batch. SQLite adds them up in 64 bits, so millions of such batches fit."""


def key_fingerprint(key: bytes) -> str:
    """A fingerprint by which a ledger recognises a key without holding it.

    Parameters
    ----------
    key : bytes
        The key: at least 16 random bytes.

    Returns
    -------
    str
        An HMAC-SHA256 of a constant, in hexadecimal.

    Raises
    ------
    InvalidInput
        If the key is too short, or is not bytes.

    Examples
    --------
    >>> from labeldp import key_fingerprint
    >>> key_fingerprint(bytes(32))[:16]
    '767084f6d106ae33'
    """
    if not isinstance(key, (bytes, bytearray)):
        raise InvalidInput(f"a key must be bytes, got {type(key).__name__}")
    if len(key) < 16:
        raise InvalidInput(f"a key needs at least 16 random bytes, this one has {len(key)}")
    return hmac.new(key, b"labeldp ledger key check", hashlib.sha256).hexdigest()


def dataset_name(name: str) -> str:
    """Returns `name` if a dataset may be called so."""
    plain = isinstance(name, str) and name.isprintable() and name == unicodedata.normalize("NFC", name).strip()
    if not plain or not 0 < len(name) <= 100:
        raise InvalidInput(
            f"{described(name)} cannot name a dataset: use 1 to 100 printable characters with no space at either end"
        )
    return name


def exact_budget(budget: Epsilon) -> Fraction:
    """The fraction that a budget stands for, as `exact_epsilon` reads it, but up to a million."""
    value = fraction_of(budget)
    if value is None or not MIN_EPSILON <= value <= MAX_BUDGET or value.denominator > 10**MAX_DIGITS:
        raise InvalidInput(
            f"a budget must be a number above 0 and at most {MAX_BUDGET}, for instance 3 or 0.5, got {abbreviated(budget)}"
        )
    return value


def stored_amount(text: object) -> Fraction:
    """An amount from the file. Anything else there could free budget, so it raises `ValueError`."""
    try:
        value = parse_amount(text)
    except InvalidInput:
        value = Fraction(0)
    if not 0 < value <= MAX_BUDGET:
        raise ValueError(f"it holds {abbreviated(text)} in place of an amount")
    return value


def expect_texts(**given: object) -> None:
    """Refuses arguments that are not text, or text that cannot be written as UTF-8."""
    for name, value in given.items():
        if not isinstance(value, str):
            raise InvalidInput(f"{name} must be text, got {type(value).__name__}. Nothing was changed")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"{name} has half a character (a lone surrogate) at place {error.start}, which no file takes. Nothing was changed"
            ) from None


def optional_texts(**given: object) -> None:
    """`expect_texts` for arguments that may be None."""
    expect_texts(**{name: value for name, value in given.items() if value is not None})


def expect_records(records: object) -> None:
    """Refuses what is not the number of records of a batch."""
    if isinstance(records, bool) or not isinstance(records, int) or not 1 <= records <= MAX_RECORDS:
        raise InvalidInput(
            f"records must be the number of records in the batch, from 1 to {MAX_RECORDS:,}, got {abbreviated(records)}"
        )
