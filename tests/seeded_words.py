"""Words that follow from a seed alone, for tests of frequencies.

Keyed words follow from the mechanism too, and a mechanism that comes out of a solver differs in its last digits from one
processor to the next: under a fixed key every processor would draw other labels, and some would draw unlucky ones.
"""

from __future__ import annotations

import numpy as np


class SeededWords:
    """A source of draws for `Mechanism.codes`; every call goes on in the same stream."""

    needs_ids = False

    def __init__(self, seed):
        self._generator = np.random.Generator(np.random.Philox(seed))  # not the stream that `default_rng(seed)` gives

    def identify(self, ids, *, digest):
        return None

    def draw(self, symbols, *, ids=None, digest=b"", rounding=False):
        words = self._generator.integers(0, 1 << 64, (1 + rounding, symbols.size), dtype=np.uint64)
        return words[0], words[1] if rounding else None
