"""Any callable as a loss, once it has passed a check of Assumption 1."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.losses.loss import Loss, as_float

_GRID = 129
_TOLERANCE = 1e-9
_ROUNDING = 1e-14  # of the largest loss: what a formula with cancellation leaves where the loss should vanish

# Rows are outputs and columns are labels. Seen so, each row right of the diagonal has one of the two move away from the other:
# the label upwards, the label downwards, the output upwards, the output downwards.
_VIEWS: tuple[Callable[[npt.NDArray[Any]], npt.NDArray[Any]], ...] = (
    lambda table: table,
    lambda table: table[::-1, ::-1],
    lambda table: table.T,
    lambda table: table.T[::-1, ::-1],
)


@dataclass(frozen=True)
class Custom(Loss):
    """A loss computed by a function.

    It must be finite, never negative, and must not fall as output and label move apart (Assumption 1 of the paper). It need
    not be convex.

    Parameters
    ----------
    function : callable
        Called as `function(output, label)` with arrays of one shape, or with plain numbers if it cannot take arrays.
    label : str, optional
        The name to show; the function's own name by default.

    Examples
    --------
    >>> from labeldp.losses import Custom
    >>> cubed = Custom(lambda output, label: abs(output - label) ** 3, "cubed")
    >>> float(cubed(1, 3))
    8.0
    """

    function: Callable[[Any, Any], Any]
    label: str = field(default="")

    @property
    def name(self) -> str:
        # Never the name of another loss: a reader of a message would take it for that one.
        return f"function {self.label or getattr(self.function, '__name__', type(self.function).__name__)}"

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        outputs, labels = np.broadcast_arrays(as_float(output), as_float(label))
        # A function with np.where computes both branches everywhere, so its warnings mean nothing. The values are checked later.
        with np.errstate(all="ignore"):
            try:
                value = as_float(self.function(outputs, labels))
            except (TypeError, ValueError):  # written for plain numbers
                value = np.vectorize(self.function, otypes=[np.float64])(outputs, labels)
        return np.broadcast_to(value, outputs.shape) if value.shape != outputs.shape else value

    def check_assumption(self, values: npt.ArrayLike) -> None:
        """Raise `InvalidInput` if the loss breaks Assumption 1 on a grid over the range of `values`.

        The relative tolerance is 1e-9. The message shows two points at which the loss falls.

        Parameters
        ----------
        values : array-like of float
            Labels in increasing order.
        """
        support = as_float(values)
        sample = support[np.linspace(0, support.size - 1, min(_GRID, support.size)).astype(np.int64)]
        grid = np.unique(np.concatenate([np.linspace(support[0], support[-1], _GRID), sample]))
        table = self(grid[:, None], grid[None, :])
        wrong = ~(np.isfinite(table) & (table >= 0))
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise InvalidInput(
                f"loss {self.name!r} is {table[i, j]} at output {grid[i]:g} and label {grid[j]:g}; "
                "a loss must be a finite number, 0 or more"
            )
        slack = _TOLERANCE * table + _ROUNDING * table.max()
        places = np.arange(table.size).reshape(table.shape)
        for turned in _VIEWS:
            losses = np.triu(turned(table))
            falls = np.argwhere(np.maximum.accumulate(losses, axis=1) - losses > turned(slack))
            if falls.size:
                fixed, far = falls[0]
                near = int(losses[fixed, : far + 1].argmax())
                self._refuse(grid, table, *turned(places)[fixed, [near, far]].tolist())

    def _refuse(self, grid: Floats, table: Floats, near: int, far: int) -> None:
        (a, b), (c, d) = divmod(near, grid.size), divmod(far, grid.size)
        raise InvalidInput(
            f"loss {self.name!r} falls as output and label move apart: it is {table[a, b]:.9g} at output {grid[a]:.9g} and "
            f"label {grid[b]:.9g}, but {table[c, d]:.9g} at output {grid[c]:.9g} and label {grid[d]:.9g}. Randomized response "
            "on bins is only optimal for losses that never fall so (Assumption 1)"
        )
