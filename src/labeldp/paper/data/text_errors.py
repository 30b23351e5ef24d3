"""Errors about text files of the paper's data: which file, line and field."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from labeldp.errors import InvalidInput
from labeldp.tables.files import readable


@contextmanager
def reading(path: Path, expected: str, explain: Callable[[str], str]) -> Iterator[None]:
    """Turn errors while `path` is read into `InvalidInput`. `explain` rewrites pyarrow's texts about bad content.

    Pyarrow quotes values and whole lines, which contain labels: no error shows them, nor has one of pyarrow's as its cause.
    """
    if not path.is_file():
        raise InvalidInput(f"{path} is not a file; expected {expected}")

    def explained(text: str) -> str:
        return f"{path.name} is empty; expected {expected}" if "Empty CSV" in text else explain(text)

    with readable(path, explained, f"It may be cut off; expected {expected}"):
        yield


def located(path: Path, message: str) -> str:
    """Return the place of a fault from pyarrow's message: the file, the line and the field, or the number of fields."""
    row = re.search(r"Row #(\d+)", message)
    where = f"{path.name}, line {row[1]}" if row else path.name
    if fields := re.search(r"Expected (\d+) columns, got (\d+)", message):
        return f"{where}: {fields[2]} fields where there should be {fields[1]}"
    column = re.search(r"column #(\d+)", message)
    return f"{where}, field {int(column[1]) + 1}" if column else where
