"""Optimiser steps for the rows of an embedding table that occur in a batch, and for no others.

A batch of 8,192 records uses a few thousand rows of a table that may have millions. Each column has its own rows, so
threads that work on different columns never write to the same row. Sums within a column have a fixed order, so the result
does not depend on the number of threads. A step costs O(look-ups × dimension), whatever the size of the table.

Updates are compiled for one dimension, because vector instructions of the right length almost halve the time. The call is
`update(codes, gradient, table, state, stamps, touched, step, rate, first, stride)`:

- `codes` (batch, columns): rows of the table;
- `gradient` (batch, columns × dimension): the gradient of the loss at the embeddings that were looked up;
- `table`, `state`: embeddings, and optimiser state of `state_width` columns, zero at first;
- `stamps`: the last step in which each row occurred; steps count from 1;
- `touched` (columns, batch): scratch space;
- `step`, `rate`: this step and its learning rate;
- `first`, `stride`: update columns first, first + stride, …
"""

from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numba import njit

RMSPROP_DECAY = 0.9
ADAM_DECAY = (0.9, 0.999)
EPSILON = 1e-7  # added outside the root, as in Keras

Optimizer = Literal["rmsprop", "adam"]

_NEW = np.float32(1 - RMSPROP_DECAY)
_BETA1 = np.float32(ADAM_DECAY[0])
_BETA2 = np.float32(ADAM_DECAY[1])
_NEW1 = np.float32(1 - ADAM_DECAY[0])
_NEW2 = np.float32(1 - ADAM_DECAY[1])
_EPS = np.float32(EPSILON)
_FORGOTTEN = 400  # 0.9^400 < 1e-18: too small to change a new gradient's square in single precision


def state_width(optimizer: Optimizer, dimension: int) -> int:
    """The number of state columns: the moments, and the gradient of the batch next to them in the cache."""
    return dimension * (2 if optimizer == "rmsprop" else 3)


@lru_cache
def row_update(optimizer: Optimizer, dimension: int) -> Any:
    """The compiled update of an optimiser for embeddings of this dimension."""
    return _rmsprop(dimension) if optimizer == "rmsprop" else _adam(dimension)


def _rmsprop(dimension: int) -> Any:
    """RMSProp. A row that last occurred k steps ago first has its mean square decayed k times, so dense updates give the same."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def update(codes, gradient, table, state, stamps, touched, step, rate, first, stride):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        for column in range(first, codes.shape[1], stride):
            count = 0
            for i in range(codes.shape[0]):
                row = codes[i, column]
                at = column * dimension
                if stamps[row] != step:
                    gap = step - stamps[row]
                    decay = np.float32(RMSPROP_DECAY**gap) if gap < _FORGOTTEN else np.float32(0)
                    stamps[row] = step
                    touched[column, count] = row
                    count += 1
                    for k in range(dimension):
                        state[row, k] *= decay
                        state[row, dimension + k] = gradient[i, at + k]
                else:
                    for k in range(dimension):
                        state[row, dimension + k] += gradient[i, at + k]
            for t in range(count):
                row = touched[column, t]
                for k in range(dimension):
                    g = state[row, dimension + k]
                    square = state[row, k] + _NEW * g * g
                    state[row, k] = square
                    table[row, k] -= rate * g / (np.sqrt(square) + _EPS)

    return update


def _adam(dimension: int) -> Any:
    """Lazy Adam, as torch's SparseAdam: a row's moments change only when it occurs in a batch."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def update(codes, gradient, table, state, stamps, touched, step, rate, first, stride):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        corrected = np.float32(rate * np.sqrt(1 - ADAM_DECAY[1] ** step) / (1 - ADAM_DECAY[0] ** step))
        for column in range(first, codes.shape[1], stride):
            count = 0
            for i in range(codes.shape[0]):
                row = codes[i, column]
                at = column * dimension
                if stamps[row] != step:
                    stamps[row] = step
                    touched[column, count] = row
                    count += 1
                    for k in range(dimension):
                        state[row, 2 * dimension + k] = gradient[i, at + k]
                else:
                    for k in range(dimension):
                        state[row, 2 * dimension + k] += gradient[i, at + k]
            for t in range(count):
                row = touched[column, t]
                for k in range(dimension):
                    g = state[row, 2 * dimension + k]
                    mean = state[row, k] * _BETA1 + _NEW1 * g
                    square = state[row, dimension + k] * _BETA2 + _NEW2 * g * g
                    state[row, k] = mean
                    state[row, dimension + k] = square
                    table[row, k] -= corrected * mean / (np.sqrt(square) + _EPS)

    return update
