"""Generated rows come in chunks of fixed size, each with its own random stream, so that no row depends on how many follow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labeldp.errors import InvalidInput

CHUNK_ROWS = 65_536


def chunks(n: int) -> Iterator[tuple[int, int]]:
    """The number of each chunk, and how many of its rows are wanted (all, but for the last)."""
    if n < 1:
        raise InvalidInput(f"the number of rows should be at least 1, not {n}")
    for chunk in range(-(-n // CHUNK_ROWS)):
        yield chunk, min(CHUNK_ROWS, n - chunk * CHUNK_ROWS)


def chunk_generator(seed: int, chunk: int, stream: int) -> np.random.Generator:
    """The random stream of one purpose (`stream`) in one chunk. Fast and repeatable; not for releases."""
    if seed < 0:
        raise InvalidInput(f"the seed should be a whole number of at least 0, not {seed}")
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence((seed, chunk, stream))))
