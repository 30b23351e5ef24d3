"""What the readers of text files share: how errors of pyarrow are turned into messages for a user."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from labeldp.errors import InvalidInput, why_unreadable


@contextmanager
def reading(path: Path, expected: str, explain: Callable[[str], str]) -> Iterator[None]:
    """Turn errors while `path` is read into InvalidInput. `explain` rewrites what pyarrow says about bad content.

    Pyarrow quotes values and whole lines, which hold labels: no error shows them, nor has one of pyarrow's as its cause.
    """
    if not path.is_file():
        raise InvalidInput(f"{path} is not a file; expected {expected}")
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:  # the last one for a header after an empty line
        if "Empty CSV" in str(error):
            raise InvalidInput(f"{path.name} is empty; expected {expected}") from None
        raise InvalidInput(explain(str(error))) from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path.name} is not UTF-8 text; expected {expected}") from None
    except MemoryError:
        raise InvalidInput(f"{path.name} does not fit into memory; expected {expected}") from None
    except OSError as error:
        raise InvalidInput(
            f"{path.name} cannot be read to its end ({why_unreadable(error)}); it may be cut off"
        ) from None


def located(path: Path, message: str) -> str:
    """What pyarrow's message says of the place of a fault: the file, the line and the field, or how many fields there are."""
    row = re.search(r"Row #(\d+)", message)
    where = f"{path.name}, line {row[1]}" if row else path.name
    if fields := re.search(r"Expected (\d+) columns, got (\d+)", message):
        return f"{where}: {fields[2]} fields where there should be {fields[1]}"
    column = re.search(r"column #(\d+)", message)
    return f"{where}, field {int(column[1]) + 1}" if column else where
