"""Several jobs timed turn by turn, so that a busy machine slows all of them alike, and ratios of what they took."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Job = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Times:
    """What each round of one job took, in seconds."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle round."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """The fastest and the slowest round."""
        return min(self.seconds), max(self.seconds)

    def over(self, other: Times) -> Ratio:
        """How many times as long as another job, round by round."""
        return ratio(self.seconds, other.seconds)


@dataclass(frozen=True)
class Ratio:
    """The median of ratios within rounds, the least and the largest."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def ratio(ones: Sequence[float], others: Sequence[float]) -> Ratio:
    """Ratios of figures that were taken in the same rounds."""
    if len(ones) != len(others) or not ones:
        raise ValueError(f"ratios need as many rounds of both, and at least one: {len(ones)} and {len(others)}")
    each = [one / other for one, other in zip(ones, others, strict=True)]
    return Ratio(statistics.median(each), min(each), max(each))


def alternately(
    jobs: Mapping[str, Job], rounds: int, *, clock: Clock = time.perf_counter, warm: bool = True, at_least: float = 0.0
) -> dict[str, Times]:
    """Time every job once a round, after one round that does not count.

    A job that returns a float measured itself (in another process, say): that number is taken instead of the clock's.
    A job that takes less than `at_least` seconds is repeated until so many have passed, and its mean counts: one call of a
    few microseconds shows what lay in the processor's cache.
    """
    if warm:
        for job in jobs.values():
            job()
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            start, calls, passed = clock(), 0, 0.0
            while calls == 0 or passed < at_least:
                answer = job()
                calls, passed = calls + 1, clock() - start
                if isinstance(answer, float):
                    break
            taken[name].append(answer if isinstance(answer, float) else passed / calls)
    return {name: Times(tuple(seconds)) for name, seconds in taken.items()}
