"""Sorting a randomizer's outputs into countable events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.errors import InvalidInput

Floats = NDArray[np.float64]
Randomize = Callable[[Floats], ArrayLike]

MOST_VALUES = 512
"""More distinct outputs than this in a pilot sample are grouped into intervals."""

INTERVALS = 64
_CHUNK = 1 << 18


@dataclass(frozen=True, eq=False)
class Events:
    """Either a list of output values, with one more event for all others, or intervals between edges."""

    points: Floats
    intervals: bool

    @classmethod
    def of_values(cls, outputs: ArrayLike) -> Events:
        return cls(np.unique(np.asarray(outputs, dtype=np.float64)), intervals=False)

    @classmethod
    def from_pilot(cls, pilot: Floats) -> Events:
        """The values seen, or intervals of about equal mass where there are too many to count."""
        values = np.unique(pilot)
        if values.size <= MOST_VALUES:
            return cls(values, intervals=False)
        return cls(np.unique(np.quantile(pilot, np.linspace(0, 1, INTERVALS + 1)[1:-1])), intervals=True)

    @property
    def count(self) -> int:
        return self.points.size + 1

    def numbers(self, outputs: Floats) -> NDArray[np.intp]:
        places = np.searchsorted(self.points, outputs, side="left")
        if not self.intervals:
            known = self.points[np.minimum(places, self.points.size - 1)] == outputs
            places[~known] = self.points.size
        return places

    def describe(self, chosen: NDArray[np.intp]) -> str:
        return ", ".join(self._name(int(number)) for number in chosen[:6]) + (", …" if chosen.size > 6 else "")

    def _name(self, number: int) -> str:
        if not self.intervals:
            return f"{self.points[number]:.6g}" if number < self.points.size else "any other value"
        low = f"{self.points[number - 1]:.6g}" if number else "-inf"
        high = f"{self.points[number]:.6g}]" if number < self.points.size else "inf)"
        return f"({low}, {high}"


def draw(randomize: Randomize, label: float, count: int) -> Any:
    """Outputs for `count` records that all have this label, in pieces of bounded size."""
    for start in range(0, count, _CHUNK):
        size = min(_CHUNK, count - start)
        outputs = np.asarray(randomize(np.full(size, label)), dtype=np.float64)
        if outputs.shape != (size,):
            raise InvalidInput(
                f"the randomizer gave shape {outputs.shape} for {size} labels: one output each is needed"
            )
        yield outputs


def count_events(randomize: Randomize, label: float, count: int, events: Events) -> NDArray[np.int64]:
    totals = np.zeros(events.count, dtype=np.int64)
    for outputs in draw(randomize, label, count):
        totals += np.bincount(events.numbers(outputs), minlength=events.count)
    return totals
