"""Integer columns from fixed-width text, block by block. pyarrow splits the lines, NumPy reads the digits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from labeldp.errors import InvalidInput
from labeldp.paper.data.reading import located, reading

BLANK = -1
"""The value of an empty field."""
Integers = NDArray[np.int64]
Block = tuple[Integers, dict[str, Integers]]
"""Line numbers, and one array of values for each field."""


@dataclass(frozen=True)
class FixedWidth:
    """The layout of a file: what it is called, its line width, and its fields as (first, last) columns counted from 1.

    With `record` and `other`, column 1 holds a letter: lines with the letter `record` are read, lines with the letter
    `other` are skipped and may have another width.
    """

    description: str
    width: int
    fields: Mapping[str, tuple[int, int]]
    record: str = ""
    other: str = ""

    def read(self, path: Path, block_bytes: int = 1 << 24) -> Iterator[Block]:
        """Yield the fields of every line, one block at a time. Memory is a few blocks. Empty fields are `BLANK`.

        Raises InvalidInput with the line number for a line of another width or a field that is not a whole number.
        """
        with reading(path, self.description, lambda message: f"{located(path, message)}. Expected {self.description}."):
            reader = pa.csv.open_csv(
                path,
                read_options=pa.csv.ReadOptions(column_names=["text"], use_threads=False, block_size=block_bytes),
                # The delimiter is a control character that such files do not contain: a line is one value.
                parse_options=pa.csv.ParseOptions(delimiter="\x1f", quote_char=False, ignore_empty_lines=False),
                convert_options=pa.csv.ConvertOptions(column_types={"text": pa.binary()}, null_values=[]),
            )
            first_line = 1
            for batch in reader:
                yield self._parse(path, batch["text"], first_line)
                first_line += batch.num_rows

    def _parse(self, path: Path, text: pa.BinaryArray, first_line: int) -> Block:
        lines = np.arange(first_line, first_line + len(text))
        if self.record:
            wanted, skipped = (
                pc.starts_with(text, letter).to_numpy(zero_copy_only=False) for letter in (self.record, self.other)
            )
            self._refuse(path, lines, ~(wanted | skipped), f"column 1 should be {self.record} or {self.other}")
            text, lines = text.filter(wanted), lines[wanted]
        widths = pc.binary_length(text).to_numpy()
        wrong = widths != self.width
        found = widths[wrong.argmax()] if wrong.any() else ""
        self._refuse(path, lines, wrong, f"the line should be {self.width} characters wide, not {found}")
        text = text.cast(pa.binary(self.width))
        matrix = np.frombuffer(text.buffers()[1], np.uint8).reshape(-1, self.width)[text.offset :][: len(text)]
        columns = {}
        for name, (first, last) in self.fields.items():
            columns[name], bad = _numbers(matrix[:, first - 1 : last])
            self._refuse(path, lines, bad, f"columns {first}-{last} ({name}) should hold a whole number")
        return lines, columns

    def _refuse(self, path: Path, lines: Integers, bad: NDArray[np.bool_], expected: str) -> None:
        if bad.any():
            raise InvalidInput(
                f"{path.name}, line {lines[bad.argmax()]}: {expected}. "
                f"Expected {self.description}; the file may be damaged, cut off, or another one."
            )


def _numbers(characters: NDArray[np.uint8]) -> tuple[Integers, NDArray[np.bool_]]:
    """Whole numbers on the right of their field, after zeros or spaces; `BLANK` for all spaces. And which are malformed."""
    value = np.zeros(len(characters), np.int64)
    started, bad = np.zeros((2, len(characters)), np.bool_)
    for character in characters.T:
        blank, digit = character == ord(" "), character - np.uint8(ord("0"))
        bad |= np.where(blank, started, digit > 9)
        started |= ~blank
        value = value * 10 + np.where(blank, 0, digit)
    return np.where(started, value, BLANK), bad
