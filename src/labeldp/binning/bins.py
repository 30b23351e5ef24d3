"""The result of the optimiser: outputs, the labels that go to each, and what it costs."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput

_ROWS_SHOWN = 12


@dataclass(frozen=True, eq=False, repr=False)
class Bins:
    """d outputs, strictly increasing, and the d − 1 thresholds between the labels that go to them.

    `expected_loss` is that of randomized response on these bins, under the prior they were made for.
    """

    outputs: Floats
    thresholds: Floats
    expected_loss: float
    loss: str
    epsilon: float

    def __post_init__(self) -> None:
        outputs, thresholds = _frozen(self.outputs), _frozen(self.thresholds)
        object.__setattr__(self, "outputs", outputs)
        object.__setattr__(self, "thresholds", thresholds)
        if outputs.ndim != 1 or outputs.size == 0 or not np.isfinite(outputs).all() or (np.diff(outputs) <= 0).any():
            raise InvalidInput("outputs of bins must be finite, strictly increasing, and at least one")
        if thresholds.shape != (outputs.size - 1,):
            raise InvalidInput(f"{outputs.size} outputs need {outputs.size - 1} thresholds, got {thresholds.size}")
        if not ((thresholds >= outputs[:-1]) & (thresholds <= outputs[1:])).all():
            raise InvalidInput("each threshold must lie between the outputs that it separates")

    def encode(self, labels: npt.ArrayLike) -> npt.NDArray[np.uint32]:
        """The bin of each label, 0 … d − 1; a label on a threshold goes to the lower output."""
        return np.searchsorted(self.thresholds, np.asarray(labels, dtype=np.float64), side="left").astype(np.uint32)

    def __len__(self) -> int:
        return int(self.outputs.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bins):
            return NotImplemented
        return (
            np.array_equal(self.outputs, other.outputs)
            and np.array_equal(self.thresholds, other.thresholds)
            and (self.expected_loss, self.loss, self.epsilon) == (other.expected_loss, other.loss, other.epsilon)
        )

    def __hash__(self) -> int:
        return hash((self.outputs.tobytes(), self.thresholds.tobytes(), self.expected_loss, self.loss, self.epsilon))

    def __repr__(self) -> str:
        rows = self._rows()
        width = max(len(labels) for labels, _ in rows)
        lines = [f"  {labels:<{width}}  →  {output}" if output else f"  {labels}" for labels, output in rows]
        return f"Bins({self._title()})\n" + "\n".join(lines)

    def _repr_html_(self) -> str:
        body = "".join(f"<tr><td>{html.escape(labels)}</td><td>{output}</td></tr>" for labels, output in self._rows())
        return (
            f"<table><caption>{html.escape(self._title())}</caption>"
            f"<thead><tr><th>labels</th><th>output</th></tr></thead><tbody>{body}</tbody></table>"
        )

    def _title(self) -> str:
        plural = "output" if len(self) == 1 else "outputs"
        return f"{len(self)} {plural}, epsilon={self.epsilon:g}, loss={self.loss!r}, expected_loss={self.expected_loss:.6g}"

    def _rows(self) -> list[tuple[str, str]]:
        rows = [(self._labels(j), f"{self.outputs[j]:.6g}") for j in self._shown()]
        if len(self) > _ROWS_SHOWN:
            half = _ROWS_SHOWN // 2
            rows.insert(half, (f"… {len(self) - _ROWS_SHOWN} more …", ""))
        return rows

    def _shown(self) -> list[int]:
        d, half = len(self), _ROWS_SHOWN // 2
        return list(range(d)) if d <= _ROWS_SHOWN else [*range(half), *range(d - half, d)]

    def _labels(self, j: int) -> str:
        if len(self) == 1:
            return "every label"
        if j == 0:
            return f"y ≤ {self.thresholds[0]:.6g}"
        if j == len(self) - 1:
            return f"{self.thresholds[-1]:.6g} < y"
        return f"{self.thresholds[j - 1]:.6g} < y ≤ {self.thresholds[j]:.6g}"


def _frozen(values: npt.ArrayLike) -> Floats:
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array
