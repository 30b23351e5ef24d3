"""Hides codes on their way through the shuffle of a later batch.

A record that the message holds already is drawn too, since it is found by its id only after the draw. If its label has changed, that is
a second private label, which is dropped and must be seen by nobody. So codes travel with a pad that is a function of the record and
of a key for this run, which only the tasks of this run have.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from labeldp.sampling.randomness import Blocks


def new_veil() -> bytes:
    """A key for one run."""
    return os.urandom(32)


def hidden(
    codes: NDArray[np.integer], keys: NDArray[np.int64], high: NDArray[np.integer] | None, outputs: int, veil: bytes
) -> NDArray[np.int64]:
    """The codes of records with these keys, each moved by its pad among the codes of so many outputs."""
    return (codes + _pads(keys, high, outputs, veil)) % outputs


def shown(
    codes: NDArray[np.integer], keys: NDArray[np.int64], high: NDArray[np.integer] | None, outputs: int, veil: bytes
) -> NDArray[np.int64]:
    """What was `hidden`."""
    return (codes - _pads(keys, high, outputs, veil)) % outputs


def _pads(keys: NDArray[np.int64], high: NDArray[np.integer] | None, outputs: int, veil: bytes) -> NDArray[np.int64]:
    pads = np.empty(keys.size, np.int64)
    blocks = Blocks(veil, keys.size)
    for rows in blocks.chunks():
        count = rows.stop - rows.start
        blocks.plain[:count, 0] = keys[rows].view(np.uint64)
        blocks.plain[:count, 1] = 0 if high is None else high[rows].view(np.uint32)
        pads[rows] = blocks.encrypted(count)[:, 0] % np.uint64(outputs)
    return pads
