"""CSV and TSV files: their delimiter, their header line, and what is wrong with them in words that show no value."""

import csv
import gzip
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow.csv import ConvertOptions

from labeldp.errors import InvalidInput, described, why_unreadable

TEXT_SUFFIXES = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
"""Text files by their suffix, each with the delimiter that wins a tie."""
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
"""The delimiters that are recognised, with the words that also name them."""
TRUE, FALSE = ["true", "True", "TRUE"], ["false", "False", "FALSE"]
"""How booleans are written."""
DECIMAL_COMMA = r"^\s*[+-]?[0-9]+,[0-9]+\s*$"
_NUMBER = r"(?i)^-?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$|^-?(inf|infinity|nan)$"


def file_format(file: Path) -> str:
    """The suffix that says what a file is: .csv for sales.csv.gz."""
    return next((suffix.lower() for suffix in reversed(file.suffixes) if suffix.lower() != ".gz"), "")


def checked_delimiter(delimiter: str | None) -> str | None:
    """The delimiter as one character: itself, or what "tab", "comma", "semicolon" and "pipe" name."""
    words = {word: sign for sign, word in DELIMITERS.items()} | {"\\t": "\t"}
    sign = words.get(delimiter, delimiter) if delimiter is not None else None
    if sign is not None and (not isinstance(sign, str) or len(sign) != 1 or not sign.isascii() or sign in '"\r\n'):
        raise InvalidInput(
            f'a delimiter is one character such as "," or ";", or the word tab, got {described(delimiter)}'
        )
    return sign


def delimiter_of(file: Path) -> str:
    """The delimiter that splits the header line into the most columns. Nothing but the header line is looked at.

    The delimiter that the file's suffix stands for wins a tie.
    """
    own = TEXT_SUFFIXES[file_format(file)]
    line = _first_line(file)

    def columns(sign: str) -> int:
        try:
            return len(next(csv.reader([line], delimiter=sign), []))
        except csv.Error:  # a field longer than any name
            return 0

    return max(DELIMITERS, key=lambda sign: (columns(sign), sign == own))


def header(file: Path, delimiter: str) -> list[str]:
    """The column names."""
    _first_line(file)  # refuses UTF-16
    opener = gzip.open if is_packed(file) else open
    try:
        with opener(file, "rt", encoding="utf-8-sig", errors="replace", newline="") as text:
            names = next(csv.reader(text, delimiter=delimiter), None)
    except csv.Error:
        raise InvalidInput(f"cannot read the header line of {file}: is it a text file with columns?") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"cannot read {file}: {why_unreadable(error)}. Is it complete and undamaged?") from None
    if not names:
        raise InvalidInput(f"{file} is empty: it needs a header line with column names")
    return names


def is_packed(file: Path) -> bool:
    """Whether the file is gzip-compressed, by its name."""
    return file.suffix.lower() == ".gz"


def refuse_missing_header(file: Path | str, wanted: Sequence[str], names: Sequence[str]) -> None:
    """Refuses a file whose first line is data. Its values are not shown, since a label may be among them."""
    if not set(wanted) <= set(names) and any(re.match(_NUMBER, name.strip()) for name in names):
        missing = next(name for name in wanted if name not in names)
        raise InvalidInput(
            f"{file} has no column {missing!r}, and its first line holds numbers: it needs a header line with column names"
        )


def looks_like_data(name: str) -> bool:
    """Whether a column's name may be a value, of a file without a header line. Then it is not shown."""
    return re.search(r"[0-9]{2}|[$€£¥]", name) is not None


def problem(text: str, file: Path, delimiter: str) -> str:
    """What the text of pyarrow's error about a text file means, without the values that it quotes."""
    ragged = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns?, got (\d+)", text)
    if ragged:
        where = (
            "a row" if ragged[1] is None else f"row {int(ragged[1]) - 1} (rows count from 1, without the header line)"
        )
        more = delimiter == "," and int(ragged[3]) > int(ragged[2])
        comma = " Decimals need a point: a decimal comma splits a number in two." if more else ""
        return (
            f"{where} has {ragged[3]} columns, but the header line has {ragged[2]}.{comma} Every row needs the columns of the "
            "header line."
        )
    mixed = re.search(r"column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\w+)", text)
    if mixed and "UTF8" not in text:
        try:
            names = header(file, delimiter)
        except InvalidInput:
            names = []
        name = names[int(mixed[1])] if int(mixed[1]) < len(names) else f"number {mixed[1]}"
        where = (
            "later" if mixed[2] is None else f"in row {int(mixed[2]) - 1} (rows count from 1, without the header line)"
        )
        return f"the column {name!r} begins with {mixed[3]} values and holds something else {where}."
    if "UTF8" in text:
        return "The ids must be UTF-8 text: save the file as UTF-8."
    if "straddling" in text or "out of sync" in text:
        return "Is there a quotation mark that is opened and never closed?"
    if "Empty CSV" in text:
        return "it is empty: it needs a header line with column names."
    return "Every row needs the columns of the header line."


class SortedNumbers(NamedTuple):
    """Texts of a column of numbers: their values, 0 for texts without one, and which texts are what else."""

    values: NDArray[np.float64]
    missing: NDArray[np.bool_]
    comma: NDArray[np.bool_]
    other: NDArray[np.bool_]


def sort_numbers(column: Any, decimal: str) -> SortedNumbers:
    """Return which texts are numbers, missing, numbers with a decimal comma, or anything else. All booleans are numbers."""
    trimmed = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(trimmed, value_set=pa.array(ConvertOptions().null_values, trimmed.type))
    booleans = pc.is_in(trimmed, value_set=pa.array([*TRUE, *FALSE], trimmed.type))
    if pc.all(pc.or_(missing, booleans)).as_py():
        values = np.asarray(pc.is_in(trimmed, value_set=pa.array(TRUE, trimmed.type)), np.float64)
        none = np.zeros(len(column), np.bool_)
        return SortedNumbers(values, np.asarray(missing), none, none)
    comma = pc.and_(pc.match_substring_regex(trimmed, DECIMAL_COMMA), pc.invert(missing))
    pointed = trimmed
    if decimal == ",":
        pointed = pc.replace_substring(pc.replace_substring(trimmed, ".", "!"), ",", ".")
        comma = pc.and_(comma, False)
    number = pc.and_(pc.match_substring_regex(pointed, _NUMBER), pc.invert(missing))
    values = np.asarray(pc.if_else(number, pointed, "0").cast(pa.float64()))
    other = pc.invert(pc.or_(pc.or_(number, missing), comma))
    return SortedNumbers(values, *(np.asarray(one) for one in (missing, comma, other)))


class DecimalCommas:
    """Looks for text columns whose every value is a number with a decimal comma, batch by batch."""

    def __init__(self) -> None:
        self._found: dict[str, bool] = {}

    def look(self, batch: Any) -> None:
        """Note which columns hold nothing else in this batch."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not pa.types.is_string(column.type) or self._found.get(name) is False:
                continue
            filled = column.drop_null()
            filled = filled.filter(pc.not_equal(filled, ""))
            for part in (filled[:1000], filled):  # most columns are known to be others after a few rows
                if len(part):
                    self._found[name] = pc.all(pc.match_substring_regex(part, DECIMAL_COMMA)).as_py()
                if not self._found.get(name):
                    break

    def refuse(self, file: Path) -> None:
        """Refuses the file if there is such a column."""
        for name, found in self._found.items():
            if found:
                raise InvalidInput(
                    f"{file}: the numbers in the column {name!r} have a decimal comma: write decimals with a point, and thousands "
                    "without a separator"
                )


def _first_line(file: Path) -> str:
    try:
        with gzip.open(file, "rb") if is_packed(file) else file.open("rb") as opened:
            start = opened.readline(1 << 20)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"cannot read {file}: {why_unreadable(error)}. Is it complete and undamaged?") from None
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidInput(f"{file} is UTF-16 text: save it as UTF-8")
    return start.decode("utf-8-sig", errors="replace").rstrip("\r\n")
