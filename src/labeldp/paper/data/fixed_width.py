"""Fixed-width text into integer columns, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.errors import InvalidInput

BLANK = -1
_BLOCK_BYTES = 1 << 24
_NEWLINE, _RETURN, _SPACE, _ZERO = 10, 13, 32, 48


@dataclass(frozen=True)
class FixedWidth:
    """The layout of a file: line width, fields as (first, last) columns counted from 1, what the file is called.

    With `record` and `others`, column 1 holds a letter: lines that start with `record` are read, those that start with a
    letter of `others` are skipped and may have another width.
    """

    what: str
    width: int
    fields: Mapping[str, tuple[int, int]]
    record: str = ""
    others: str = ""

    def read(self, path: Path, block_bytes: int = _BLOCK_BYTES) -> Iterator[dict[str, NDArray[np.int64]]]:
        """The fields of every line, a block at a time; memory is a few blocks. Empty fields are `BLANK`.

        Raises InvalidInput with the line number for a line of another width or a field that is not a whole number.
        """
        if not path.is_file():
            raise InvalidInput(f"{path} is not a file; expected {self.what}")
        line, rest = 1, b""
        try:
            with pa.input_stream(str(path), compression="detect") as stream:
                while block := stream.read(block_bytes):
                    text = rest + block
                    cut = text.rfind(b"\n") + 1
                    rest = text[cut:]
                    if cut:
                        columns, lines = self._parse(path, text[:cut], line)
                        line += lines
                        yield columns
        except OSError as error:
            raise InvalidInput(f"{path.name} cannot be read to its end ({error}); it may be cut off") from error
        if rest:
            yield self._parse(path, rest + b"\n", line)[0]
        elif line == 1:
            raise InvalidInput(f"{path.name} is empty; expected {self.what}")

    def _parse(self, path: Path, text: bytes, first_line: int) -> tuple[dict[str, NDArray[np.int64]], int]:
        buffer = np.frombuffer(text, dtype=np.uint8)
        ends = np.flatnonzero(buffer == _NEWLINE)
        starts = np.concatenate([[0], ends[:-1] + 1])
        widths = ends - starts
        widths -= (widths > 0) & (buffer[ends - 1] == _RETURN)
        lines = np.arange(first_line, first_line + len(ends))
        if self.record:
            letter = buffer[starts]
            known = np.isin(letter, np.frombuffer((self.record + self.others).encode(), dtype=np.uint8))
            letters = " or ".join(self.record + self.others)
            self._refuse(path, lines, ~known, f"column 1 should be {letters}")
            wanted = letter == ord(self.record)
            starts, widths, lines = starts[wanted], widths[wanted], lines[wanted]
        wrong = widths != self.width
        found = f", not {widths[wrong][0]}" if wrong.any() else ""
        self._refuse(path, lines, wrong, f"the line should be {self.width} characters wide{found}")
        columns = {}
        for name, (first, last) in self.fields.items():
            columns[name], bad = _numbers(buffer, starts, first, last)
            self._refuse(path, lines, bad, f"columns {first}-{last} ({name}) should hold a whole number")
        return columns, len(ends)

    def _refuse(self, path: Path, lines: NDArray[np.int64], bad: NDArray[np.bool_], expected: str) -> None:
        if bad.any():
            raise InvalidInput(
                f"{path.name}, line {lines[bad.argmax()]}: {expected}. "
                f"Expected {self.what}; the file may be damaged, cut off, or another one."
            )


def _numbers(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], first: int, last: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Right-justified whole numbers, padded with zeros or spaces; all spaces is `BLANK`. And which are malformed."""
    value = np.zeros(len(starts), dtype=np.int64)
    seen = np.zeros(len(starts), dtype=np.bool_)
    bad = np.zeros(len(starts), dtype=np.bool_)
    for column in range(first - 1, last):
        character = buffer[starts + column]
        blank = character == _SPACE
        digit = character - np.uint8(_ZERO)
        bad |= np.where(blank, seen, digit > 9)
        value = value * 10 + np.where(blank, 0, digit)
        seen |= ~blank
    value[~seen] = BLANK
    return value, bad
