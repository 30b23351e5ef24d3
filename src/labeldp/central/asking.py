"""What turns exact sums of labels into answers: one budget, its ledger, and the noise."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Generic, NoReturn, Protocol, TypeVar

import numpy as np

from labeldp.budget import Epsilon, abbreviated, exact_epsilon, float_up
from labeldp.central.answer import LARGEST_SUM, Answer, part_sizes, sensitivity_of
from labeldp.central.held_labels import require_room
from labeldp.domain import Domain
from labeldp.engines.passes import Integers
from labeldp.errors import InvalidInput, LabelDPError, expect
from labeldp.formatting import ReprMixin
from labeldp.release.ledger import Ledger, dataset_name
from labeldp.sampling.integer_noise import WIDEST, add_laplace, check_cube, cube_noise

_SCALE_PER_SIGN = 4
"""Units are divided until the scale of cube noise is this many times the number of columns: most attempts succeed then."""


class Held(Protocol):
    """Labels, or exact sums of them, on a grid."""

    @property
    def domain(self) -> Domain:
        """The bounds and the grid."""

    @property
    def records(self) -> int:
        """The number of labels."""

    @property
    def lower(self) -> int:
        """The lower end of the clip, in grid units."""

    @property
    def upper(self) -> int:
        """The upper end of the clip."""


H = TypeVar("H", bound=Held)


class Answering(ReprMixin, Generic[H]):
    """Answers from exact sums with noise, within one budget. Those who derive from it say where the sums come from.

    Parameters
    ----------
    hold : callable
        Gives what is held. It is called once, after ε and the ledger were checked, and nothing is charged before it returns.
    epsilon : float, str, Decimal or Fraction
        What all answers may cost together.
    ledger, dataset
        As in `SumQueries`.
    """

    def __init__(
        self, hold: Callable[[], H], epsilon: Epsilon, *, ledger: Ledger | None = None, dataset: str | None = None
    ) -> None:
        self._epsilon = exact_epsilon(epsilon)
        self._remaining = self._epsilon
        _check_ledger(ledger, dataset, self._epsilon)
        self._ledger, self._dataset, self._charged = ledger, dataset, False
        self._held = hold()
        self._answers: list[Answer] = []
        self._lock, self._process = threading.Lock(), os.getpid()

    @property
    def domain(self) -> Domain:
        """The bounds and the grid whose steps are the units."""
        return self._held.domain

    @property
    def records(self) -> int:
        """The number of labels, which is public."""
        return self._held.records

    @property
    def epsilon_exact(self) -> Fraction:
        """What all answers together may cost."""
        return self._epsilon

    @property
    def remaining(self) -> Fraction:
        """What later answers may cost together."""
        return self._remaining

    @property
    def clipped(self) -> tuple[int, int]:
        """The range to which units are clipped now."""
        return self._held.lower, self._held.upper

    @property
    def answers(self) -> tuple[Answer, ...]:
        """All answers so far."""
        return tuple(self._answers)

    def charge(self) -> None:
        """Charge the whole ε to the ledger, once and for good. The first question does it if this was not called.

        Raises
        ------
        InsufficientBudget
            If the ledger has less left. Nothing was drawn then.
        """
        with self._alone():
            self._charge()

    def _answer_histogram(self, parts: int, exact: Callable[[], Integers], epsilon: Epsilon) -> Answer:
        """The exact counts of labels in equal parts of the grid, with Laplace noise."""
        with self._alone():
            sensitivity = sensitivity_of("histogram", self.clipped, (parts,), self.domain)
            scale = self._scale(sensitivity, epsilon)
            counts = exact()
            self._spend(sensitivity, scale)
            values = add_laplace(counts, scale) if scale else counts
            return self._keep("histogram", values, scale, part_sizes(parts, self.domain.count), (parts,))

    def _answer_cells(
        self, sizes: tuple[int, ...], exact: Callable[[], tuple[Integers, Integers]], epsilon: Epsilon
    ) -> Answer:
        """The exact sums over the cells of partitions of these sizes, with Laplace noise. `exact` gives records per cell too."""
        with self._alone():
            sensitivity = sensitivity_of("cells", self.clipped, sizes, self.domain)
            scale = self._scale(sensitivity, epsilon)
            sums, counts = exact()
            self._spend(sensitivity, scale)
            values = np.clip(add_laplace(sums, scale), -LARGEST_SUM, LARGEST_SUM) if scale else sums
            return self._keep("cells", values, scale, counts, sizes)

    def _answer_signs(self, columns: int, exact: Callable[[], tuple[Integers, Integers]], epsilon: Epsilon) -> Answer:
        """The exact sums against so many columns of signs, with cube noise. `exact` gives the sums of the signs too."""
        with self._alone():
            (lower, upper), asked, grain = self.clipped, self._asked(epsilon), 1
            while upper > lower and grain * (upper - lower) < _SCALE_PER_SIGN * columns * asked:
                grain *= 2
            require_room(self.records, self.domain, grain)
            sensitivity = sensitivity_of("signs", self.clipped, (columns,), self.domain, grain)
            scale = self._scale(sensitivity, epsilon)
            if scale:
                check_cube(columns, scale)
            sums, counts = exact()
            sums = sums * grain
            self._spend(sensitivity, scale)
            # Noise is cut off at 2^62 and sums are below 2^61, so a noisy sum that is cut off here is a function of the exact one.
            values = np.clip(sums + cube_noise(columns, scale), -LARGEST_SUM, LARGEST_SUM) if scale else sums
            return self._keep("signs", values, scale, counts, (columns,), grain)

    def _asked(self, epsilon: Epsilon) -> Fraction:
        """The ε of one answer. What remains is a fraction of many digits and may be asked for as it is."""
        if isinstance(epsilon, Fraction) and 0 < epsilon <= self._remaining:
            return epsilon
        asked = exact_epsilon(epsilon)
        if asked > self._remaining:
            raise InvalidInput(
                f"this answer asks for ε = {abbreviated(epsilon)}, and {float(self._remaining):.6g} of "
                f"{float(self._epsilon):.6g} remains. Nothing was drawn. Ask for less, or for all that remains (queries.remaining)"
            )
        return asked

    def _scale(self, sensitivity: int, epsilon: Epsilon) -> float:
        """The smallest float whose exact cost, sensitivity/scale, is at most ε; 0.0 if one label changes nothing."""
        asked = self._asked(epsilon)
        if sensitivity == 0:
            return 0.0
        if sensitivity / asked > WIDEST:
            raise InvalidInput(
                f"noise for ε = {abbreviated(epsilon)} on this grid may not fit into 64-bit integers: give the domain fewer cells, or "
                "a larger epsilon"
            )
        return float_up(sensitivity / asked)

    def _spend(self, sensitivity: int, scale: float) -> None:
        """Charge the ledger if that was not done, then the cost of one answer. Nothing is given back if the draw fails."""
        self._charge()
        if scale:
            self._remaining -= sensitivity / Fraction(scale)

    def _charge(self) -> None:
        if self._charged:
            return
        if self._ledger is not None:
            request = json.dumps({"release": "private sums", "domain": self.domain.to_json(), "records": self.records})
            self._ledger.reserve(str(self._dataset), self._epsilon, request=request)
        self._charged = True

    def _keep(
        self,
        kind: str,
        values: Integers,
        scale: float,
        counts: Integers,
        sizes: tuple[int, ...],
        grain: int = 1,
    ) -> Answer:
        answer = Answer(kind, values, scale, self.clipped, counts, sizes, self.domain, grain)
        self._answers.append(answer)
        return answer

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One question at a time, in the process that made this object: a forked copy would spend the budget again."""
        if os.getpid() != self._process:
            raise LabelDPError(
                "these labels belong to another process, and a copy of them would spend the same budget twice. Ask there"
            )
        with self._lock:
            yield

    def __reduce__(self) -> NoReturn:
        raise LabelDPError(
            "an object that holds labels and a budget cannot be copied or pickled: the copy would spend the same budget again"
        )

    def _facts(self) -> dict[str, str]:
        return {
            "records": f"{self.records:,}",
            "domain": repr(self.domain),
            "answers": f"{len(self._answers)}",
            "remaining": f"{float(self._remaining):.6g} of {float(self._epsilon):.6g}",
        }


def _check_ledger(ledger: Ledger | None, dataset: str | None, epsilon: Fraction) -> None:
    """Refuse early what the charge would refuse."""
    if ledger is None:
        if dataset is not None:
            raise InvalidInput("dataset names a dataset in a ledger: give ledger=Ledger(path) too")
        return
    expect(ledger, Ledger, "ledger", "make one with Ledger(path), or Ledger.create(path) for a new one")
    if dataset is None:
        raise InvalidInput("a ledger needs the name of the dataset to charge: give dataset=…")
    ledger.require(dataset_name(dataset), epsilon)
