"""Pass one: the workers check and count their partitions, and the driver adds up what they found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from labeldp.engines.spark import checking
from labeldp.engines.spark.checking import CheckTask
from labeldp.engines.spark.jobs import few_results, job, mapped
from labeldp.engines.spark.sealed import unsealed
from labeldp.sampling.multiset import MultisetHash
from labeldp.tables.files import Progress


@dataclass(frozen=True, eq=False)
class Found:
    """What pass one found. All of it is as private as the labels.

    Attributes
    ----------
    totals : dict
        The counts of `checking.COUNTED`.
    fingerprint : str
        The input's fingerprint.
    cells : array of int64 or None
        Exact counts per cell, if a grid was given.
    repeated : bool
        Whether two ids are equal, if that was asked.
    """

    totals: dict[str, int]
    fingerprint: str
    cells: NDArray[np.int64] | None
    repeated: bool


def check_records(frame: DataFrame, task: CheckTask, rows: int, progress: Progress | None = None) -> Found:
    """Runs the task over a frame of about `rows` rows. The exact counts go from worker to driver, through no shuffle."""
    cells = 0 if task.grid is None else task.grid.count
    with job(frame.sparkSession, rows, progress):
        returned = mapped(few_results(frame, 8 * cells), task, checking.DDL).collect()
    results = [unsealed(row["sealed"], task.seal, checking.SCHEMA) for row in returned]
    totals = {name: sum(result[name] for result in results) for name in checking.COUNTED}
    whole = MultisetHash.from_subkeys(task.fingerprint)
    for result in results:
        limbs = np.asarray([result["limb_0"], result["limb_1"]], np.int64).view(np.uint64).tolist()
        whole.merge((limbs[0], limbs[1]), result["records"])
    counts = (
        None
        if task.grid is None
        else sum((np.frombuffer(result["cells"], np.int64) for result in results), np.zeros(cells, np.int64))
    )
    return Found(totals, whole.hexdigest(), counts, task.repeats is not None and _any_equal(results))


def _any_equal(results: Iterable[Any]) -> bool:
    """Whether two records have the same 96 bits. Two different texts do with a chance of 2^-50 among 2^23."""
    low = np.frombuffer(b"".join(result["low"] for result in results), np.uint64)
    high = np.frombuffer(b"".join(result["high"] for result in results), np.uint32)
    order = np.argsort(low, kind="stable")
    low, high = low[order], high[order]
    pairs = np.flatnonzero(low[1:] == low[:-1])
    if not pairs.size:
        return False
    suspects = np.unique(np.concatenate([pairs, pairs + 1]))
    both = np.stack([low[suspects], high[suspects].astype(np.uint64)])
    return bool(np.unique(both, axis=1).shape[1] < suspects.size)
