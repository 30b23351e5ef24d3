"""The result of the optimiser: the outputs, the labels that go to each, and the expected loss."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.shown import Shown

_ROWS_SHOWN = 12


@dataclass(frozen=True, eq=False, repr=False)
class Bins(Shown):
    """Bins of labels, each with one output, for randomized response.

    It has a length, compares by value, and shows itself as a table.

    Parameters
    ----------
    outputs : array-like of float
        The d outputs, strictly increasing.
    thresholds : array-like of float
        The d − 1 labels that separate neighbouring bins, each between its two outputs.
    expected_loss : float
        The expected loss of randomized response on these bins, under the prior they were made for.
    loss : str
        The name of the loss.
    epsilon : float
        The ε that they were made for.

    Raises
    ------
    InvalidInput
        If the outputs do not increase or a threshold is not between its outputs.

    Examples
    --------
    >>> from labeldp import Bins
    >>> Bins([1, 2, 4], [1.5, 3], expected_loss=0.25, loss="squared", epsilon=1.0)
    Bins(3 outputs, epsilon=1, loss='squared', expected_loss=0.25)
      y ≤ 1.5      →  1
      1.5 < y ≤ 3  →  2
      3 < y        →  4
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
            raise InvalidInput("bins need at least one output, and outputs must be finite and strictly increasing")
        if thresholds.shape != (outputs.size - 1,):
            raise InvalidInput(f"{outputs.size} outputs need {outputs.size - 1} thresholds, got {thresholds.size}")
        if not ((thresholds >= outputs[:-1]) & (thresholds <= outputs[1:])).all():
            raise InvalidInput("each threshold must lie between the outputs that it separates")

    def encode(self, labels: npt.ArrayLike) -> npt.NDArray[np.uint32]:
        """The bin of each label.

        Parameters
        ----------
        labels : array-like of float
            The labels. One on a threshold belongs to the lower bin.

        Returns
        -------
        array of uint32
            Indices into `outputs`.
        """
        return np.searchsorted(self.thresholds, np.asarray(labels, dtype=np.float64), side="left").astype(np.uint32)

    def __len__(self) -> int:
        return int(self.outputs.size)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Bins) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        rows = self._facts()
        width = max(map(len, rows))
        lines = [f"  {labels:<{width}}  →  {output}" if output else f"  {labels}" for labels, output in rows.items()]
        return f"Bins({self._caption()})\n" + "\n".join(lines)

    def _caption(self) -> str:
        plural = "output" if len(self) == 1 else "outputs"
        return f"{len(self)} {plural}, epsilon={self.epsilon:g}, loss={self.loss!r}, expected_loss={self.expected_loss:.6g}"

    def _facts(self) -> dict[str, str]:
        """The output of each bin by its labels; of many bins, the first and the last few."""
        many, half = len(self) > _ROWS_SHOWN, _ROWS_SHOWN // 2
        bounds, outputs = (
            _texts(np.r_[numbers[:half], numbers[-half:]] if many else numbers)
            for numbers in (self.thresholds, self.outputs)
        )
        labels = ["every label"]
        if bounds:
            between = (f"{low} < y ≤ {high}" for low, high in pairwise(bounds))
            labels = [f"y ≤ {bounds[0]}", *between, f"{bounds[-1]} < y"]
        if many:
            labels[half] = f"… {len(self) - _ROWS_SHOWN} more …"
            outputs.insert(half, "")
        return dict(zip(labels, outputs, strict=True))

    def _key(self) -> tuple[bytes, bytes, float, str, float]:
        return self.outputs.tobytes(), self.thresholds.tobytes(), self.expected_loss, self.loss, self.epsilon


def _texts(numbers: Floats) -> list[str]:
    """Six digits each, or all digits if six do not tell the numbers apart."""
    short = [f"{number:.6g}" for number in numbers.tolist()]
    return short if len(set(short)) == len(short) else [f"{number!r}" for number in numbers.tolist()]


def _frozen(values: npt.ArrayLike) -> Floats:
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array
