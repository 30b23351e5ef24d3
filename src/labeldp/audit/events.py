"""Sorting a randomizer's outputs into a finite number of events that can be counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput

Randomize = Callable[[Floats], ArrayLike]

MOST_VALUES = 512
"""If a pilot sample has more distinct outputs than this, they are grouped into intervals."""

INTERVALS = 64
_CHUNK = 1 << 18


@dataclass(frozen=True, eq=False)
class Events:
    """A partition of the outputs: intervals between `points`, or else each point by itself and one event for the rest."""

    points: Floats
    intervals: bool

    @classmethod
    def of_values(cls, outputs: ArrayLike) -> Events:
        """An event for each of these outputs."""
        return cls(np.unique(np.asarray(outputs, dtype=np.float64)), intervals=False)

    @classmethod
    def from_pilot(cls, pilot: Floats) -> Events:
        """An event for each output in a pilot sample, or intervals of about equal mass if there are too many."""
        events = cls.of_values(pilot)
        if events.points.size <= MOST_VALUES:
            return events
        return cls(np.unique(np.quantile(pilot, np.linspace(0, 1, INTERVALS + 1)[1:-1])), intervals=True)

    def numbers(self, outputs: Floats) -> NDArray[np.intp]:
        """The number of the event of each output, from 0 to `points.size`."""
        places = np.searchsorted(self.points, outputs, side="left")
        if not self.intervals:
            known = self.points[np.minimum(places, self.points.size - 1)] == outputs
            places[~known] = self.points.size
        return places

    def count(self, randomize: Randomize, label: float, records: int) -> NDArray[np.int64]:
        """How often each event occurs in outputs for this many records with one label."""
        totals = np.zeros(self.points.size + 1, dtype=np.int64)
        for outputs in draw(randomize, label, records):
            totals += np.bincount(self.numbers(outputs), minlength=totals.size)
        return totals

    def describe(self, chosen: NDArray[np.intp]) -> str:
        """The chosen events in words, the first six of them."""
        return ", ".join(self._name(int(number)) for number in chosen[:6]) + (", …" if chosen.size > 6 else "")

    def _name(self, number: int) -> str:
        if not self.intervals:
            return f"{self.points[number]:.6g}" if number < self.points.size else "any other value"
        low = f"{self.points[number - 1]:.6g}" if number else "-inf"
        high = f"{self.points[number]:.6g}]" if number < self.points.size else "inf)"
        return f"({low}, {high}"


def draw(randomize: Randomize, label: float, records: int) -> Iterator[Floats]:
    """Outputs for this many records that all have one label, in chunks of bounded size."""
    for start in range(0, records, _CHUNK):
        size = min(_CHUNK, records - start)
        outputs = np.asarray(randomize(np.full(size, label)), dtype=np.float64)
        if outputs.shape != (size,):
            raise InvalidInput(
                f"a randomizer must give one output for each label, and this one gave shape {outputs.shape} for {size}"
            )
        yield outputs
