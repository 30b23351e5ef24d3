"""CSV and TSV files: delimiter, header line, batches, lines, and error messages without values."""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from labeldp.errors import InvalidInput, described, why_unreadable

TEXT_SUFFIXES = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
"""The suffixes of text files, each with the delimiter that wins a tie."""
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
"""The delimiters that are recognised, with their names."""
TRUE, FALSE = ["true", "True", "TRUE"], ["false", "False", "FALSE"]
"""The spellings of booleans."""
DECIMAL_COMMA = r"^\s*[+-]?[0-9]+,[0-9]+\s*$"
LABEL_BLOCK_BYTES = 1 << 24
"""Files of labels are parsed in blocks of this size. A record must fit into one or two of them."""
CHUNK_LINES = 1 << 16
"""The maximum number of records per batch of `numbered_records`."""
_NUMBER = r"(?i)^-?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$|^-?(inf|infinity|nan)$"


def file_format(file: Path) -> str:
    """Return the suffix that names the format of a file: .csv for sales.csv.gz."""
    return next((suffix.lower() for suffix in reversed(file.suffixes) if suffix.lower() != ".gz"), "")


def checked_delimiter(delimiter: str | None) -> str | None:
    """Return the delimiter as one character. It may be given as a word: "tab", "comma", "semicolon" or "pipe"."""
    words = {word: sign for sign, word in DELIMITERS.items()} | {"\\t": "\t"}
    sign = words.get(delimiter, delimiter) if delimiter is not None else None
    if sign is not None and (not isinstance(sign, str) or len(sign) != 1 or not sign.isascii() or sign in '"\r\n'):
        raise InvalidInput(
            f'a delimiter is one character such as "," or ";", or the word tab, got {described(delimiter)}'
        )
    return sign


def delimiter_of(file: Path) -> str:
    """Return the delimiter that splits the header line into the most columns; on a tie, that of the file's suffix."""
    own = TEXT_SUFFIXES[file_format(file)]
    line = _first_line(file)

    def columns(sign: str) -> int:
        try:
            return len(next(csv.reader([line], delimiter=sign), []))
        except csv.Error:  # a field longer than any name
            return 0

    return max(DELIMITERS, key=lambda sign: (columns(sign), sign == own))


def header(file: Path, delimiter: str) -> list[str]:
    """Return the column names."""
    _first_line(file)  # rejects UTF-16
    try:
        with _text_lines(file) as text:
            names = next(csv.reader(text, delimiter=delimiter), None)
    except csv.Error:
        raise InvalidInput(f"cannot read the header line of {file}: is it a text file with columns?") from None
    if not names:
        raise InvalidInput(f"{file} is empty: it needs a header line with column names")
    return names


def is_gzip(file: Path) -> bool:
    """Return whether the name of the file ends in .gz."""
    return file.suffix.lower() == ".gz"


def open_csv(
    stream: Any, delimiter: str, *, block_bytes: int, ignore_empty_lines: bool = True, **convert: Any
) -> arrow_csv.CSVStreamingReader:
    """Return pyarrow's reader of a text file whose values may contain line breaks. `convert` is passed to `ConvertOptions`."""
    return arrow_csv.open_csv(
        stream,
        read_options=arrow_csv.ReadOptions(block_size=block_bytes),
        parse_options=arrow_csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=ignore_empty_lines
        ),
        convert_options=arrow_csv.ConvertOptions(**convert),
    )


def open_stream(file: Path) -> pa.NativeFile:
    """Open a text file for pyarrow, decompressed."""
    return pa.input_stream(str(file), compression="gzip" if is_gzip(file) else None)


def read_csv(
    file: Path, sign: str, wanted: list[str], *, several: bool, number: str | None, decimal: str = "."
) -> Iterator[pa.RecordBatch]:
    """Read these columns: `number` as float64, or as booleans if all its values are booleans, and the others as text.

    No type is guessed, and no other column is decoded. `sign` is the delimiter, and `several` whether the file has more than one column. Errors
    name rows and columns, never a value. The columns must exist.
    """
    said, begun = "", False
    for kind in (pa.float64(), pa.bool_()):
        said_before = said
        try:
            with open_stream(file) as stream:
                for batch in open_csv(
                    stream,
                    sign,
                    block_bytes=LABEL_BLOCK_BYTES,
                    ignore_empty_lines=several,  # in a file of one column an empty line is a record without its label
                    include_columns=wanted,
                    column_types={name: kind if name == number else pa.large_string() for name in wanted},
                    decimal_point=decimal,
                    true_values=TRUE,
                    false_values=FALSE,
                ):
                    begun = True
                    yield batch
        except pa.ArrowInvalid as error:
            said = said_before or str(error)
        else:
            return
        if begun or "conversion error to double" not in said:
            break
    # The rest is outside of the except clause: Arrow's message may quote labels, and an error raised there would keep
    # it as its context.
    if "conversion error to double" in said:
        raise InvalidInput(
            f"cannot read {file}: the label column {number!r} must have numbers only, with {decimal!r} for decimals (--decimal)"
        )
    raise InvalidInput(explain_csv_error(said, file, sign))


def count_lines(file: Path) -> int:
    """Return the number of records without parsing them: lines that are not empty, less the header line.

    Line breaks inside quotation marks do not count. For a file that is not well-formed, the number may be wrong.
    """
    lines, quotes, tail = -1, 0, b"\n\n"
    with _opened(file) as opened:
        while block := opened.read(1 << 20):
            content = np.frombuffer(tail + block, np.uint8)
            ends = np.flatnonzero(content[2:] == ord("\n")) + 2
            empty = content[ends - 1] == ord("\n")
            empty |= (content[ends - 1] == ord("\r")) & (content[ends - 2] == ord("\n"))
            if quotes or b'"' in block:
                marks = np.flatnonzero(content[2:] == ord('"')) + 2
                empty |= (quotes + np.searchsorted(marks, ends)) % 2 == 1
                quotes += marks.size
            lines += int(np.count_nonzero(~empty))
            tail = content[-2:].tobytes()
    return max(0, lines + (not tail.endswith(b"\n")))


def numbered_records(
    file: Path, delimiter: str, wanted: Sequence[str]
) -> Iterator[tuple[list[pa.Array], NDArray[np.int64], list[int]]]:
    """Read these columns as text: some records at a time, the line on which each begins, and the lines with a wrong number of columns.

    Lines count from 1, the header line. pyarrow is faster but does not report lines.
    """
    names = header(file, delimiter)
    places = [names.index(name) for name in wanted]
    with _text_lines(file) as opened:
        reader = csv.reader(opened, delimiter=delimiter, strict=True)
        next(reader)
        records = _with_lines(reader, several=len(names) > 1)
        while chunk := list(islice(records, CHUNK_LINES)):
            whole = [(line, row) for line, row in chunk if len(row) == len(names)]
            columns = [pa.array([row[place] for _, row in whole], pa.large_string()) for place in places]
            ragged = [line for line, row in chunk if len(row) != len(names)]
            yield columns, np.array([line for line, _ in whole], np.int64), ragged


def _with_lines(reader: Any, *, several: bool) -> Iterator[tuple[int, list[str]]]:
    begins = reader.line_num + 1
    for row in reader:
        if row or not several:  # in a file of one column an empty line is a record without its label
            yield begins, row or [""]
        begins = reader.line_num + 1


def refuse_missing_header(file: Path | str, wanted: Sequence[str], names: Sequence[str]) -> None:
    """Raise `InvalidInput` if the first line is data. Its values are not shown, since a label may be among them."""
    if not set(wanted) <= set(names) and any(re.match(_NUMBER, name.strip()) for name in names):
        missing = next(name for name in wanted if name not in names)
        raise InvalidInput(
            f"{file} has no column {missing!r}, and its first line contains numbers: it needs a header line with column names"
        )


def looks_like_data(name: str) -> bool:
    """Return whether a column name may be a value of a file without a header line. Such names are not shown."""
    return re.search(r"[0-9]{2}|[$€£¥]", name) is not None


def explain_csv_error(text: str, file: Path, delimiter: str) -> str:
    """Return a message for the text of pyarrow's error about a text file, without the values that it quotes."""
    return f"cannot read {file}: {_explained(text, file, delimiter)}"


def _explained(text: str, file: Path, delimiter: str) -> str:
    ragged = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns?, got (\d+)", text)
    if ragged:
        where = "a row" if ragged[1] is None else _numbered_row(ragged[1])
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
        where = "later" if mixed[2] is None else f"in {_numbered_row(mixed[2])}"
        return f"the column {name!r} begins with {mixed[3]} values and holds something else {where}."
    if "UTF8" in text:
        return "The ids must be UTF-8 text: save the file as UTF-8."
    if "straddling" in text or "out of sync" in text:
        return "Is there a quotation mark that is opened and never closed?"
    if "Empty CSV" in text:
        return "it is empty: it needs a header line with column names."
    return "Every row needs the columns of the header line."


def _numbered_row(line: str) -> str:
    return f"row {int(line) - 1} (rows count from 1, without the header line)"


class ParsedNumbers(NamedTuple):
    """Parse the texts of a column of numbers. Return their values (0 for other texts), and which texts are not numbers."""

    values: NDArray[np.float64]
    missing: NDArray[np.bool_]
    comma: NDArray[np.bool_]
    other: NDArray[np.bool_]


def parse_numbers(column: Any, decimal: str) -> ParsedNumbers:
    """Return the numbers, and which texts are missing, have a decimal comma, or are anything else. A column of booleans is 0 and 1."""
    trimmed = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(trimmed, value_set=pa.array(arrow_csv.ConvertOptions().null_values, trimmed.type))
    booleans = pc.is_in(trimmed, value_set=pa.array([*TRUE, *FALSE], trimmed.type))
    if pc.all(pc.or_(missing, booleans)).as_py():
        values = np.asarray(pc.is_in(trimmed, value_set=pa.array(TRUE, trimmed.type)), np.float64)
        none = np.zeros(len(column), np.bool_)
        return ParsedNumbers(values, np.asarray(missing), none, none)
    comma = pc.and_(pc.match_substring_regex(trimmed, DECIMAL_COMMA), pc.invert(missing))
    pointed = trimmed
    if decimal == ",":
        pointed = pc.replace_substring(pc.replace_substring(trimmed, ".", "!"), ",", ".")
        comma = pc.and_(comma, False)
    number = pc.and_(pc.match_substring_regex(pointed, _NUMBER), pc.invert(missing))
    values = np.asarray(pc.if_else(number, pointed, "0").cast(pa.float64()))
    other = pc.invert(pc.or_(pc.or_(number, missing), comma))
    return ParsedNumbers(values, *(np.asarray(one) for one in (missing, comma, other)))


class DecimalCommas:
    """A search, batch by batch, for text columns whose every value is a number with a decimal comma."""

    def __init__(self) -> None:
        self._found: dict[str, bool] = {}

    def look(self, batch: Any) -> None:
        """Note which columns contain only such numbers in this batch."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not pa.types.is_string(column.type) or self._found.get(name) is False:
                continue
            filled = column.drop_null()
            filled = filled.filter(pc.not_equal(filled, ""))
            for part in (filled[:1000], filled):  # a few rows rule out most columns
                if len(part):
                    self._found[name] = pc.all(pc.match_substring_regex(part, DECIMAL_COMMA)).as_py()
                if not self._found.get(name):
                    break

    def refuse(self, file: Path) -> None:
        """Raise `InvalidInput` if there is such a column."""
        for name, found in self._found.items():
            if found:
                raise InvalidInput(
                    f"{file}: the numbers in the column {name!r} have a decimal comma: write decimals with a point, and thousands "
                    "without a separator"
                )


def _first_line(file: Path) -> str:
    with _opened(file) as opened:
        start: bytes = opened.readline(1 << 20)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidInput(f"{file} is UTF-16 text: save it as UTF-8")
    return start.decode("utf-8-sig", errors="replace").rstrip("\r\n")


@contextmanager
def _opened(file: Path, mode: str = "rb", **options: Any) -> Iterator[Any]:
    """Open a text file, decompressed. Damaged gzip data raises `InvalidInput`."""
    try:
        with (gzip.open if is_gzip(file) else open)(file, mode, **options) as opened:
            yield opened
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"cannot read {file}: {why_unreadable(error)}. Is it complete and undamaged?") from None


def _text_lines(file: Path) -> Any:
    return _opened(file, "rt", encoding="utf-8-sig", errors="replace", newline="")
