"""What the readers of text files share: how errors of pyarrow are turned into messages for a user."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from labeldp.errors import InvalidInput


@contextmanager
def reading(path: Path, expected: str, explain: Callable[[str], str]) -> Iterator[None]:
    """Turn errors while `path` is read into InvalidInput. `explain` rewrites what pyarrow says about bad content."""
    if not path.is_file():
        raise InvalidInput(f"{path} is not a file; expected {expected}")
    try:
        yield
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            raise InvalidInput(f"{path.name} is empty; expected {expected}") from error
        raise InvalidInput(explain(str(error))) from error
    except OSError as error:
        raise InvalidInput(f"{path.name} cannot be read to its end ({error}); it may be cut off") from error
