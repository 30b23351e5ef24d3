"""Training of the paper's networks on the CPU with torch, without a data loader and without autograd.

All records are in memory as tensors. Each epoch draws one permutation of them. A batch is cut into slices of 1,024 rows.
One thread looks up a slice's embeddings and computes its forward and backward pass, in buffers that stay in the core's
cache. The gradients of the slices are added in slice order, so the result does not depend on the number of threads. Threads
that wait do so asleep: torch's own threads spin, which makes training ten times slower when another program needs a core.

Where the paper leaves something open, this follows Keras: Glorot-uniform kernels, zero biases, embeddings uniform in
±0.05; RMSProp with decay 0.9 (torch has 0.99) and, as in Adam, 1e-7 added outside the root. The L2 term is λ·Σw² over
the kernels of the dense layers. It excludes biases and embeddings: an adaptive optimiser would pull embeddings of rare
categories to 0 at full speed. The learning rate falls from its start to 0 along half a cosine, step by step.

With squared loss the network predicts standardised targets. Otherwise, with labels from 0 to 400, it takes hundreds of steps
until the weights are large enough; the end of a long training is the same. The loss is still measured in the labels' units,
so the L2 weight means what it means in the paper. With Poisson loss the last bias starts at the logarithm of the mean.

**Embeddings.** Optimiser steps are for the rows of an embedding table that occur in a batch, and for no others. A batch of 8,192 records uses a few thousand rows of a table that may have millions. Each column has its own rows, so
threads that work on different columns never write to the same row. Sums within a column have a fixed order, so the result
does not depend on the number of threads. A step costs O(look-ups × dimension) regardless of the size of the table.

Updates are compiled for one dimension, because vector instructions of the right length almost halve the time. The call is
`update(codes, gradient, table, state, stamps, touched, step, rate, first, stride)`:

- `codes` (batch, columns): rows of the table;
- `gradient` (batch, columns × dimension): the gradient of the loss at the embeddings that were looked up;
- `table`, `state`: embeddings, and optimiser state of `state_width` columns, zero at first;
- `stamps`: the last step where each row occurred; steps count from 1;
- `touched` (columns, batch): scratch space;
- `step`, `rate`: this step and its learning rate;
- `first`, `stride`: update columns first, first + stride, …
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, Self

import joblib
import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from labeldp.paper.network.weights import LARGEST_EXPONENT, Singles, TrainingLoss, Weights

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

SLICE = 1024
MOST_THREADS = 8
"""A batch has only 8 slices to share."""


def state_width(optimizer: Optimizer, dimension: int) -> int:
    """Return the number of state columns: the moments, and the gradient of the batch next to them in the cache."""
    return dimension * (2 if optimizer == "rmsprop" else 3)


@lru_cache
def row_update(optimizer: Optimizer, dimension: int) -> Any:
    """Return the compiled update of an optimiser for embeddings of this dimension.

    RMSProp: a row that last occurred k steps ago first has its mean square decayed k times, so dense updates give the same.
    Adam is lazy, as torch's SparseAdam: a row's moments change only when it occurs in a batch.
    """
    adam, summed = optimizer == "adam", state_width(optimizer, dimension) - dimension

    @njit(cache=True, nogil=True, error_model="numpy")
    def update(codes, gradient, table, state, stamps, touched, step, rate, first, stride):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        if adam:
            rate = np.float32(rate * np.sqrt(1 - ADAM_DECAY[1] ** step) / (1 - ADAM_DECAY[0] ** step))
        for column in range(first, codes.shape[1], stride):
            count = 0
            for i in range(codes.shape[0]):
                row = codes[i, column]
                at = column * dimension
                if stamps[row] != step:
                    if not adam:
                        gap = step - stamps[row]
                        decay = np.float32(RMSPROP_DECAY**gap) if gap < _FORGOTTEN else np.float32(0)
                        for k in range(dimension):
                            state[row, k] *= decay
                    stamps[row] = step
                    touched[column, count] = row
                    count += 1
                    for k in range(dimension):
                        state[row, summed + k] = gradient[i, at + k]
                else:
                    for k in range(dimension):
                        state[row, summed + k] += gradient[i, at + k]
            for t in range(count):
                row = touched[column, t]
                for k in range(dimension):
                    g = state[row, summed + k]
                    if adam:
                        mean = state[row, k] * _BETA1 + _NEW1 * g
                        square = state[row, dimension + k] * _BETA2 + _NEW2 * g * g
                        state[row, k] = mean
                        state[row, dimension + k] = square
                        table[row, k] -= rate * mean / (np.sqrt(square) + _EPS)
                    else:
                        square = state[row, k] + _NEW * g * g
                        state[row, k] = square
                        table[row, k] -= rate * g / (np.sqrt(square) + _EPS)

    return update


@dataclass(frozen=True)
class Settings:
    """How to train. The defaults are the paper's for Criteo."""

    loss: TrainingLoss = "squared"
    optimizer: Optimizer = "rmsprop"
    embedding_size: int = 8
    hidden: tuple[int, ...] = (128, 64)
    epochs: int = 50
    batch_size: int = 8192
    learning_rate: float = 1e-3
    l2: float = 1e-4
    seed: int = 0
    threads: int | None = None


@dataclass(frozen=True, eq=False)
class Examples:
    """Training records as tensors: rows of the embedding table, numbers, targets in the network's units, and weights
    of mean 1 if there are any.
    """

    codes: Any
    numeric: Any
    targets: Any
    weights: Any = None


def train(
    codes: NDArray[np.int32],
    numeric: Singles,
    targets: NDArray[Any],
    *,
    sizes: Sequence[int],
    settings: Settings,
    weights: NDArray[Any] | None = None,
    after_batch: Callable[[int, int, float], None] | None = None,
    after_epoch: Callable[[float, Callable[[], Weights]], bool] | None = None,
) -> Weights:
    """Fit a network to the codes and standardised numbers of the columns. `sizes` come from the `ColumnEncoder`.

    `after_batch(epoch, rows, mean loss in the epoch)` is for progress bars. `after_epoch(loss, weights)` may return True to
    stop; `weights()` copies the current network. Memory: the records once, and for each embedding of 8 floats another
    16 (RMSProp) or 24 (Adam).
    """
    settings = replace(settings, batch_size=min(settings.batch_size, len(targets)))
    batches = math.ceil(len(targets) / settings.batch_size)
    shuffle = torch.Generator().manual_seed(settings.seed)
    with Trainer(sizes, numeric.shape[1], settings, batches * settings.epochs) as trainer:
        examples = trainer.examples(codes, numeric, targets, weights)
        occurrences = np.bincount(examples.codes.numpy().ravel(), minlength=sum(sizes))
        for epoch in range(settings.epochs):
            order = torch.randperm(len(targets), generator=shuffle)
            loss, seen = 0.0, 0
            for rows in order.split(settings.batch_size):
                loss += trainer.step(examples, rows)
                seen += len(rows)
                if after_batch is not None:
                    after_batch(epoch, len(rows), loss / seen)
            if after_epoch is not None and after_epoch(loss / seen, lambda: trainer.weights(occurrences)):
                break
        return trainer.weights(occurrences)


class Trainer:
    """The state of a training: parameters, optimiser moments, buffers and threads. A context manager."""

    def __init__(self, sizes: Sequence[int], numeric_inputs: int, settings: Settings, steps: int) -> None:
        self.settings = settings
        self.steps = steps
        self.step_number = 0
        self.sizes = tuple(sizes)
        self.offsets = embedding_offsets(self.sizes)
        self.center, self.scale = 0.0, 1.0
        self.slices = math.ceil(settings.batch_size / SLICE)
        self.threads = max(1, min(settings.threads or min(joblib.cpu_count(), MOST_THREADS), self.slices))
        embedded = len(sizes) * settings.embedding_size
        self.widths = (embedded + numeric_inputs, *settings.hidden, 1)
        self._make_parameters(embedded)
        batch = settings.batch_size
        self._codes = torch.empty(batch, len(sizes), dtype=torch.int32)
        self._embedding_gradient = torch.empty(batch, embedded)
        self._losses = torch.empty(self.slices, dtype=torch.float64)
        self._workspaces = [_Workspace(self.widths, embedded) for _ in range(self.threads)]

    def _make_parameters(self, embedded: int) -> None:
        settings, generator = self.settings, torch.Generator().manual_seed(self.settings.seed + 1)
        count = sum(inputs * outputs + outputs for inputs, outputs in pairwise(self.widths))
        self._flat = torch.zeros(count)
        self._penalty = torch.zeros(count)
        self._gradients = torch.empty(self.slices, count)
        self._means = torch.zeros(count)
        self._squares = torch.zeros(count)
        self.parameters = _Parameters(self._flat, self.widths, embedded)
        self._slice_gradients = [_Parameters(flat, self.widths, embedded) for flat in self._gradients]
        for kernel, penalty in zip(
            self.parameters.kernels, _Parameters(self._penalty, self.widths, embedded).kernels, strict=True
        ):
            limit = math.sqrt(6 / max(1, sum(kernel.shape)))
            kernel.uniform_(-limit, limit, generator=generator)
            penalty.fill_(2 * settings.l2)
        rows, size = sum(self.sizes), settings.embedding_size
        self.table = torch.empty(rows, size).uniform_(-0.05, 0.05, generator=generator)
        self._update_rows = row_update(settings.optimizer, size)
        self._state = torch.zeros(rows, state_width(settings.optimizer, size))
        self._stamps = np.zeros(rows, np.int32)
        self._touched = np.empty((len(self.sizes), settings.batch_size), np.int32)

    def examples(
        self, codes: NDArray[np.int32], numeric: Singles, targets: NDArray[Any], weights: NDArray[Any] | None = None
    ) -> Examples:
        """Turn arrays into tensors, and make the untrained network predict the mean of these targets."""
        mean = float(np.average(targets, weights=weights))
        if self.settings.loss == "squared":
            self.center = mean
            self.scale = math.sqrt(np.average((targets - mean) ** 2, weights=weights)) or 1.0
        else:
            self.parameters.biases[-1].fill_(math.log(mean))
        return Examples(
            torch.from_numpy(np.ascontiguousarray(codes + self.offsets, np.int32)),
            torch.from_numpy(np.ascontiguousarray(numeric, np.float32)),
            torch.from_numpy(((targets - self.center) / self.scale).astype(np.float32)),
            None if weights is None else torch.from_numpy((weights / np.mean(weights)).astype(np.float32)),
        )

    def step(self, examples: Examples, rows: Any) -> float:
        """Take one optimiser step on the given rows, and return the sum of their losses before it."""
        self.step_number += 1
        slices = rows.split(SLICE)

        def descend(worker: int) -> None:
            for number in range(worker, len(slices), self.threads):
                self._slice(examples, slices[number], number, len(rows), self._workspaces[worker])

        self._spread(descend)
        rate = self.settings.learning_rate * (1 + math.cos(math.pi * (self.step_number - 1) / self.steps)) / 2
        arrays = (
            self._codes[: len(rows)].numpy(),
            self._embedding_gradient[: len(rows)].numpy(),
            self.table.numpy(),
            self._state.numpy(),
            self._stamps,
            self._touched,
        )
        if self.sizes:
            now, single = self.step_number, np.float32(rate)
            self._spread(lambda worker: self._update_rows(*arrays, now, single, worker, self.threads))
        self._update_dense(self._gradients[: len(slices)].sum(0), rate)
        return float(self._losses[: len(slices)].sum()) * self.scale**2

    def weights(self, occurrences: NDArray[np.int64]) -> Weights:
        """Copy the network into arrays.

        `occurrences` counts how often each row of the embedding table was used in training. A row that was never used
        (often the one for categories out of the vocabulary) was not trained. It gets the mean embedding of its column.
        """
        table = self.table.numpy().copy()
        for start, size in zip(self.offsets, self.sizes, strict=True):
            counts, rows = occurrences[start : start + size], table[start : start + size]
            rows[counts == 0] = np.average(rows, axis=0, weights=counts)
        return Weights(
            self.settings.loss,
            table,
            self.offsets,
            tuple(kernel.numpy().copy() for kernel in self.parameters.kernels),
            tuple(bias.numpy().copy() for bias in self.parameters.biases),
            self.center,
            self.scale,
        )

    def _slice(self, examples: Examples, rows: Any, number: int, batch: int, workspace: _Workspace) -> None:
        """Forward and backward pass of one slice. Its results go to the slice's own part of the buffers."""
        at = slice(number * SLICE, number * SLICE + len(rows))
        codes = torch.index_select(examples.codes, 0, rows, out=self._codes[at])
        numeric = examples.numeric.index_select(0, rows)
        targets = examples.targets.index_select(0, rows).unsqueeze(1)
        weights = None if examples.weights is None else examples.weights.index_select(0, rows).unsqueeze(1)
        embedded = workspace.embedded[: len(rows)]
        torch.index_select(self.table, 0, codes.view(-1), out=embedded.view(-1, self.table.shape[1]))

        own, gradient = self.parameters, self._slice_gradients[number]
        values = [layer[: len(rows)] for layer in workspace.values]
        torch.addmm(own.biases[0], embedded, own.embedded_kernel, out=values[0]).addmm_(numeric, own.numeric_kernel)
        for layer in range(1, len(values)):
            torch.relu_(values[layer - 1])
            torch.addmm(own.biases[layer], values[layer - 1], own.kernels[layer], out=values[layer])

        loss, slope = _loss_and_slope(self.settings.loss, values[-1], targets)
        if weights is not None:
            loss, slope = loss * weights, slope * weights
        self._losses[number] = loss.sum(dtype=torch.float64)
        slope *= self.scale**2 / batch
        for layer in range(len(values) - 1, 0, -1):
            below = values[layer - 1]
            torch.mm(below.t(), slope, out=gradient.kernels[layer])
            torch.sum(slope, 0, out=gradient.biases[layer])
            slope = torch.mm(slope, own.kernels[layer].t(), out=workspace.slopes[layer - 1][: len(rows)])
            torch.ops.aten.threshold_backward.grad_input(slope, below, 0, grad_input=slope)
        torch.mm(embedded.t(), slope, out=gradient.embedded_kernel)
        torch.mm(numeric.t(), slope, out=gradient.numeric_kernel)
        torch.sum(slope, 0, out=gradient.biases[0])
        torch.mm(slope, own.embedded_kernel.t(), out=self._embedding_gradient[at])

    def _update_dense(self, gradient: Any, rate: float) -> None:
        gradient.addcmul_(self._flat, self._penalty)
        if self.settings.optimizer == "rmsprop":
            self._squares.mul_(RMSPROP_DECAY).addcmul_(gradient, gradient, value=1 - RMSPROP_DECAY)
            self._flat.addcdiv_(gradient, self._squares.sqrt().add_(EPSILON), value=-rate)
            return
        first, second = ADAM_DECAY
        self._means.lerp_(gradient, 1 - first)
        self._squares.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        corrected = rate * math.sqrt(1 - second**self.step_number) / (1 - first**self.step_number)
        self._flat.addcdiv_(self._means, self._squares.sqrt().add_(EPSILON), value=-corrected)

    def _spread(self, task: Callable[[int], None]) -> None:
        """Run `task(worker)` on every thread, this one included, and wait for all."""
        others = [self._pool.submit(task, worker) for worker in range(1, self.threads)]
        task(0)
        for other in others:
            other.result()

    def __enter__(self) -> Self:
        self._torch_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self._pool = ThreadPoolExecutor(max(1, self.threads - 1), "labeldp-network")
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        torch.set_num_threads(self._torch_threads)


class _Parameters:
    """Kernels and biases of the dense layers as views of one flat vector. The first kernel also in its two parts."""

    def __init__(self, flat: Any, widths: Sequence[int], embedded: int) -> None:
        self.kernels, self.biases = [], []
        start = 0
        for inputs, outputs in pairwise(widths):
            end = start + inputs * outputs
            self.kernels.append(flat[start:end].view(inputs, outputs))
            self.biases.append(flat[end : end + outputs])
            start = end + outputs
        self.embedded_kernel = self.kernels[0][:embedded]
        self.numeric_kernel = self.kernels[0][embedded:]


class _Workspace:
    """One thread's buffers for a slice."""

    def __init__(self, widths: Sequence[int], embedded: int) -> None:
        self.embedded = torch.empty(SLICE, embedded)
        self.values = [torch.empty(SLICE, width) for width in widths[1:]]
        self.slopes = [torch.empty(SLICE, width) for width in widths[1:-1]]


def _loss_and_slope(loss: TrainingLoss, values: Any, targets: Any) -> tuple[Any, Any]:
    """Return each row's loss, and its derivative by the network's output."""
    if loss == "squared":
        error = values - targets
        return error * error, 2 * error
    values = values.clamp(max=LARGEST_EXPONENT)
    rates = values.exp()
    return rates - targets * values, rates - targets


def embedding_offsets(sizes: Sequence[int]) -> NDArray[np.int32]:
    """Return the first row of each column in the embedding table, which all columns share."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)[: len(sizes)]
