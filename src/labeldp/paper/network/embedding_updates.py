"""Optimiser steps for the rows of an embedding table that a batch touches, and for no others.

A batch of 8,192 records touches a few thousand rows of a table that may have millions. Columns own disjoint rows of
the table, so threads that take different columns never meet, and the order of sums within a column is fixed: the
result does not depend on the number of threads. Cost: O(look-ups × dimension) a step, independent of the table's size.

The dimension is compiled in (vector instructions of the right length almost halve the time). An update is called as
`update(codes, gradient, table, state, stamps, touched, step, rate, first, stride)`: `codes` (batch, columns) are table
rows; `gradient` (batch, columns × dimension) is the loss's gradient at the looked-up embeddings; `state` has as many
columns as `state_width` says, zeros at first; `stamps` holds the last step that touched each row (steps count from
1); `touched` (columns, batch) is scratch space; `first` and `stride` choose the columns.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numba import njit

RMSPROP_DECAY = 0.9
ADAM_DECAY = (0.9, 0.999)
EPSILON = 1e-7  # outside the root, as Keras had it

Optimizer = Literal["rmsprop", "adam"]

_NEW = np.float32(1 - RMSPROP_DECAY)
_BETA1 = np.float32(ADAM_DECAY[0])
_BETA2 = np.float32(ADAM_DECAY[1])
_NEW1 = np.float32(1 - ADAM_DECAY[0])
_NEW2 = np.float32(1 - ADAM_DECAY[1])
_EPS = np.float32(EPSILON)
_FORGOTTEN = 400  # 0.9^400 < 1e-18: nothing is left in single precision beside one new gradient


def state_width(optimizer: Optimizer, dimension: int) -> int:
    """Numbers kept for each row: its moments and, beside them in the cache, the batch's gradient."""
    return dimension * (2 if optimizer == "rmsprop" else 3)


@lru_cache
def row_update(optimizer: Optimizer, dimension: int) -> Any:
    """The compiled update of an optimiser for embeddings of this dimension."""
    return _rmsprop(dimension) if optimizer == "rmsprop" else _adam(dimension)


def _rmsprop(dimension: int) -> Any:
    """RMSProp, equal to the dense rule: a row that was away for k steps has its mean square decayed k times first."""

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
    """Lazy Adam, as torch's SparseAdam: a row's moments move only when a batch touches it."""

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
