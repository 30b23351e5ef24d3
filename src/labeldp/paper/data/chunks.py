"""Chunks of generated rows. They have a fixed size and a random stream each, so no row depends on how many follow it."""

from collections.abc import Iterator

import numpy as np

from labeldp.errors import InvalidInput

CHUNK_ROWS = 65_536


def chunks(n: int) -> Iterator[tuple[int, int]]:
    """Each chunk's number, and how many of its rows are wanted: all of them, except in the last chunk."""
    if n < 1:
        raise InvalidInput(f"the number of rows should be at least 1, not {n}")
    for chunk in range(-(-n // CHUNK_ROWS)):
        yield chunk, min(CHUNK_ROWS, n - chunk * CHUNK_ROWS)


def chunk_generator(seed: int, chunk: int, stream: int) -> np.random.Generator:
    """The random generator for one purpose (`stream`) in one chunk. It is fast and repeatable, and not for releases."""
    if seed < 0:
        raise InvalidInput(f"the seed should be a whole number of at least 0, not {seed}")
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence((seed, chunk, stream))))
