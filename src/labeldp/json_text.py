"""Strict reading of JSON from outside, within limits and with one kind of error.

Python's own parser takes names twice (the last one wins), NaN and Infinity, lone surrogates, nests as deep
as its stack and reads integers of thousands of digits. Each of these fails later and elsewhere, or lets two readers see two
different texts. Here they are refused. Errors show positions and no content, since a key file is JSON too.

`read_bytes` is for every file from outside that is read whole, JSON or not.
"""

import json
import math
import os
import re
from pathlib import Path
from typing import Any

from labeldp.errors import InvalidInput

MAX_BYTES = 1 << 30
"""The largest file that is read. The largest mechanism, on ten million cells, takes a little more than half of it."""

MAX_DEPTH = 64
"""How deep lists and objects may be nested. What labeldp writes has a handful of levels."""

MAX_DIGITS = 300
"""The most digits of an integer. All such integers are finite as floats."""

_STRINGS_AND_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


def parse_json(text: str | bytes, name: object) -> Any:
    """Parse a JSON text.

    Parameters
    ----------
    text : str or bytes
        The text; bytes are UTF-8.
    name : object
        What the text is, for errors: a path, or words such as "the mechanism".

    Returns
    -------
    dict, list, str, int, float, bool or None
        Every float is finite, and every text can be written as UTF-8.

    Raises
    ------
    InvalidInput
        If the text is not JSON, an object has one name twice, a number is not finite or has more than 300 digits, or the
        nesting is deeper than 64 levels.

    Examples
    --------
    >>> from labeldp.json_text import parse_json
    >>> parse_json('{"epsilon": 0.5}', "the description")
    {'epsilon': 0.5}
    >>> parse_json('{"epsilon": 1, "epsilon": 9}', "the description")
    Traceback (most recent call last):
    labeldp.errors.InvalidInput: the description is not valid JSON: an object has one name twice
    """
    if not isinstance(text, (str, bytes)):
        raise InvalidInput(f"{name} must be JSON text, got {type(text).__name__}")
    try:
        plain = text.decode("utf-8") if isinstance(text, bytes) else text
        _check_depth(plain)
        value = json.loads(
            plain, object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
        )
        if "\\u" in plain:  # an escape may be a lone surrogate, which no file or terminal accepts
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError:
        raise InvalidInput(f"{name} is not valid JSON: it is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} is not valid JSON: {error}") from None
    return value


def read_text(file: Path, name: object = None) -> str:
    """Return the text of a JSON file, for callers that keep it.

    Parameters
    ----------
    file : pathlib.Path
        The file.
    name : object, optional
        What to call it in errors; the path by default.

    Returns
    -------
    str

    Raises
    ------
    InvalidInput
        If the file cannot be read, has more than a gigabyte, or is not UTF-8.
    """
    shown = file if name is None else name
    try:
        return read_bytes(file, MAX_BYTES, shown).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"{shown} is not valid JSON: it is not UTF-8 text") from None


def read_bytes(file: Path, most: int, name: object = None) -> bytes:
    """Return the content of a file, which is refused if it is longer than any of its kind.

    Parameters
    ----------
    file : pathlib.Path
        The file. A pipe, or a file that grows while it is read, is held to the limit too.
    most : int
        The most bytes that it may have.
    name : object, optional
        What to call it in errors; the path by default.

    Returns
    -------
    bytes

    Raises
    ------
    InvalidInput
        If the file cannot be read, or has more bytes.
    """
    shown = file if name is None else name
    try:
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size  # 0 for a pipe
            content = opened.read(size + 1) if size <= most else b""
            while 0 < len(content) <= most and (more := opened.read(min(len(content), most + 1 - len(content)))):
                content += more
    except OSError as error:
        raise InvalidInput(f"cannot read {shown}: {error.strerror or error}") from error
    if max(size, len(content)) > most:
        raise InvalidInput(f"{shown} has more than {most:,} bytes: it is damaged, or another kind of file")
    return content


def _check_depth(text: str) -> None:
    """Refuses deep nesting before anything follows it down."""
    depth = 0
    for found in _STRINGS_AND_BRACKETS.finditer(text):
        sign = found[0]
        if sign in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
        elif sign in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object has one name twice")
    return made


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"an integer has more than {MAX_DIGITS} digits")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number is too large for floating point")
    return value


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")
