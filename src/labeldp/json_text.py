"""Strict reading of untrusted JSON, with limits and a single error type.

Python's parser accepts duplicate names (the last one wins), NaN and Infinity, lone surrogates, nesting as deep as its
stack, and integers of thousands of digits. Each of these fails later and elsewhere, or lets two readers see different
texts. Here they are errors. Errors show positions but no content, because a key file is JSON too.

`read_record` turns a stored record into a dataclass, after checking its fields, and `to_record` writes it. `Stored` is a
dataclass with a file of its own. `read_bytes` reads any untrusted file as a whole, JSON or not.
"""

import json
import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints

from labeldp.budget import Priced, format_amount, parse_amount
from labeldp.errors import InvalidInput

MAX_BYTES = 1 << 30
"""The largest file that is read. The largest mechanism, on ten million cells, takes a little more than half of it."""

MAX_DEPTH = 64
"""The maximum nesting depth of lists and objects. Files of labeldp have a handful of levels."""

MAX_DIGITS = 300
"""The maximum number of digits of an integer. All such integers are finite as floats."""

R = TypeVar("R")

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)

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
        if "\\u" in plain:  # an escape may be a lone surrogate, which cannot be written to a file or terminal
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError:
        raise InvalidInput(f"{name} is not valid JSON: it is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} is not valid JSON: {error}") from None
    return value


def expect_format(record: Any, name: str, version: int, what: str, advice: str = "") -> None:
    """Raise `InvalidInput` unless a value from `parse_json` is an object that states this format and this version."""
    if not isinstance(record, dict) or record.get("format") != name:
        raise InvalidInput(f"this JSON does not hold {what} (its format is not {name!r}){advice}")
    found = record.get("format_version")
    if type(found) is not int or found != version:
        raise InvalidInput(
            f"this JSON holds {what} of format version {found!r:.20}, but this labeldp reads version {version}: install the labeldp "
            "that wrote it, or a newer one"
        )


def to_record(value: Any) -> Any:
    """Return a value as JSON types: a dataclass for `read_record`, or what it writes and reads itself with `to_json` and `from_json`.

    `epsilon_exact` is stored as `epsilon`. The facts that a class names in `stated` follow from its fields. They are
    stored for readers, and compared when the record is read.
    """
    if hasattr(type(value), "from_json"):
        return value.to_json()
    if is_dataclass(value):
        return fields_of(value)
    if hasattr(value, "dtype"):  # NumPy itself is not imported for `--help`
        return _each(str, value.tolist()) if value.dtype == "int64" else value.tolist()
    if isinstance(value, Fraction):
        return format_amount(value)
    return [to_record(one) for one in value] if isinstance(value, tuple) else value


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, and what it states besides, as JSON types."""
    names = [*(field.name for field in fields(value)), *getattr(value, "stated", ())]
    return {_key(name): to_record(getattr(value, name)) for name in names}


def read_record(kind: type[R], data: Any, what: str) -> R:
    """Return a dataclass from its stored record, a JSON object with exactly its fields.

    Parameters
    ----------
    kind : type
        The dataclass. Its annotations are the expected types: `str`, `int`, `list` (whose elements are not checked),
        `Fraction` (text), an array (a list; integers are text, because many readers round them), another dataclass, one
        of these or None (`str | None`), or a tuple of these, which is a list in JSON. True and False are not integers
        here, and 1 is not a float.
    data : object
        A value from `parse_json`.
    what : str
        What the record is, for errors: "the manifest".

    Returns
    -------
    kind
        Made with its constructor, which may check more.

    Raises
    ------
    InvalidInput
        If `data` is not an object, a field is missing or unknown, or a value has the wrong type. Values are not shown.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from labeldp.json_text import read_record
    >>> @dataclass
    ... class Entry:
    ...     name: str
    ...     rows: int
    >>> read_record(Entry, {"name": "a", "rows": True}, "the entry")
    Traceback (most recent call last):
    labeldp.errors.InvalidInput: the field 'rows' of the entry is damaged
    """
    if not isinstance(data, dict):
        raise InvalidInput(f"{what} must be a JSON object")
    stated = getattr(kind, "stated", ())
    expect_fields(data, [_key(name) for name in (*(field.name for field in fields(kind)), *stated)], what)  # type: ignore[arg-type]
    made = kind(**read_fields(kind, data, what))
    for name in stated:
        if to_record(getattr(made, name)) != data[_key(name)]:
            raise InvalidInput(f"the {_key(name)} of {what} does not follow from its other fields")
    return made


def read_fields(kind: type, data: dict[str, Any], what: str) -> dict[str, Any]:
    """Return the fields of a dataclass from a JSON object, in which there may be others."""
    hints, names = get_type_hints(kind), [field.name for field in fields(kind)]
    if missing := [_key(name) for name in names if _key(name) not in data]:
        raise InvalidInput(f"{what} lacks the field {min(missing)!r}")
    return {name: _typed(hints[name], data[_key(name)], name, what) for name in names}


def _key(name: str) -> str:
    return name.removesuffix("_exact")


def _typed(hint: Any, value: Any, name: str, what: str) -> Any:
    """Return the value converted to an annotation's type, or raise `InvalidInput`."""
    origin, inner = get_origin(hint), get_args(hint)
    if isinstance(hint, UnionType):
        if value is None and NoneType in inner:
            return None
        hint = next((kind for kind in inner if _fits(kind, value)), inner[0])
        return _typed(hint, value, name, what)
    if origin is tuple:
        kinds = inner[:1] * len(value) if isinstance(value, list) and inner[1:] in ((), (...,)) else inner
        if isinstance(value, list) and len(kinds) == len(value):
            return tuple(_typed(kind, one, name, what) for kind, one in zip(kinds, value, strict=True))
    elif getattr(origin, "__name__", "") == "ndarray":
        return _array(get_args(inner[1])[0], value, f"the field {name!r} of {what}")
    elif hasattr(hint, "from_json"):
        return hint.from_json(value)
    elif hint is Fraction:
        return parse_amount(value)
    elif is_dataclass(hint) and isinstance(hint, type):
        return read_record(hint, value, f"{name} in {what}")
    elif isinstance(value, origin or hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise InvalidInput(f"the field {name!r} of {what} is damaged")


def _fits(kind: Any, value: Any) -> bool:
    """Return whether a record is one of this dataclass, judging by its fields."""
    return is_dataclass(kind) and isinstance(value, dict) and {_key(field.name) for field in fields(kind)} <= set(value)


def _array(kind: Any, value: Any, what: str) -> Any:
    import numpy as np

    try:
        given = np.array(_each(_whole, value), np.int64) if kind is np.int64 else np.array(value)
        if isinstance(value, list) and (given.dtype.kind in ("iu" if kind is np.uint32 else "fiu") or not given.size):
            return given if kind is np.int64 else np.array(value, kind)
    except (ValueError, OverflowError):  # rows of several lengths, or numbers beyond the type
        pass
    raise InvalidInput(
        f"{what} must be a list of {'whole numbers written as strings' if kind is np.int64 else 'numbers'}"
    )


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    return [_each(function, one) for one in value] if isinstance(value, list) else function(value)


def _whole(text: Any) -> int:
    if not isinstance(text, str) or not _INTEGER.fullmatch(text) or int(text) == -(1 << 63):  # it has no absolute value
        raise ValueError
    return int(text)


class Stored(Priced):
    """A public release that is a dataclass, and a file: a format, a version and its fields."""

    format: ClassVar[str]
    noun: ClassVar[str]

    def to_json(self) -> str:
        """Return the complete public release as JSON text.

        Returns
        -------
        str
        """
        record = {"format": self.format, "format_version": 1} | fields_of(self)
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return what `to_json` wrote. Proofs are done again.

        Parameters
        ----------
        text : str or bytes
            The JSON text.

        Returns
        -------
        Self

        Raises
        ------
        InvalidInput
            If the text is damaged or contradicts itself.
        PrivacyRefused
            If the release costs more than is claimed.
        """
        what = f"the {cls.noun.removeprefix('a ')}"
        record = parse_json(text, what)
        expect_format(record, cls.format, 1, cls.noun)
        del record["format"], record["format_version"]
        return read_record(cls, record, what)


def expect_fields(record: dict[str, Any], fields: Iterable[str], what: str) -> None:
    """Raise `InvalidInput` if a field of a record is missing or unknown."""
    known = set(fields)
    if unknown := set(record) - known:
        raise InvalidInput(f"{what} has an unknown field: {min(unknown)!r:.40}")
    if missing := known - set(record):
        raise InvalidInput(f"{what} lacks the field {min(missing)!r}")


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
    """Return the content of a file. Raise `InvalidInput` if it is longer than any file of its kind.

    Parameters
    ----------
    file : pathlib.Path
        The file. The limit also holds for a pipe, or a file that grows while it is read.
    most : int
        The maximum number of bytes.
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
    """Raise `ValueError` for deep nesting, before any recursion."""
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
