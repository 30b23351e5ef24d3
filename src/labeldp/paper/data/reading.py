"""What the readers of text files share: how errors of pyarrow are turned into messages for a user."""

import re
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
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:  # the last one for a header after an empty line
        if "Empty CSV" in str(error):
            raise InvalidInput(f"{path.name} is empty; expected {expected}") from None
        raise InvalidInput(explain(_without_values(str(error)))) from None  # the chain would show them
    except UnicodeDecodeError:
        raise InvalidInput(f"{path.name} is not UTF-8 text; expected {expected}") from None
    except MemoryError as error:
        raise InvalidInput(f"{path.name} does not fit into memory; expected {expected}") from error
    except OSError as error:
        raise InvalidInput(f"{path.name} cannot be read to its end ({error}); it may be cut off") from error


def _without_values(message: str) -> str:
    """What pyarrow says, without the row and the numbers that it quotes: they may be labels."""
    message = re.sub(r"(columns, got \d+):.*", r"\1", message, flags=re.DOTALL)
    return re.sub(r"(invalid value )(?=.*\d).*", r"\1'…'", message, flags=re.DOTALL)
