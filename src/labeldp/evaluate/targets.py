"""Requirements for a target error: the smallest ε, and the smallest number of records at an ε."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

from labeldp.budget import MAX_EPSILON
from labeldp.errors import InvalidInput, described
from labeldp.formatting import ReprMixin, plain
from labeldp.mechanisms.prediction import ModelErrors

LEAST_RECORDS, MOST_RECORDS = 100, 10**9
"""The range of records: predictions were not checked with fewer, and more are not practical."""


@dataclass(frozen=True, repr=False)
class Target(ReprMixin):
    """The requirements for a target error, by the predictions. Numbers are the smallest sufficient ones with two digits.

    Attributes
    ----------
    r2 : float
        The share of the labels' variance that the model should explain.
    rmse : float
        The same target as a root mean squared error, in the unit of the labels.
    epsilon_labels, epsilon_sums : float or None
        The least ε with private labels, and with noisy sums, for the given records; None if none up to 40 is enough.
    records_labels, records_sums : tuple of (int or None)
        The least number of records at each listed ε, from 100 on; None if even a billion are not enough.
    records_not_private : int or None
        The same without any privacy.
    why_not : str
        Why the target cannot be reached with the given records, or an empty text.

    Examples
    --------
    >>> from labeldp import advise
    >>> target = advise((0, 400), 50_000, shape="exponential:mean=90", target_r2=0.4).target
    >>> target.epsilon_labels, target.records_not_private
    (0.19, 100)
    """

    r2: float
    rmse: float
    epsilon_labels: float | None
    epsilon_sums: float | None
    records_labels: tuple[int | None, ...]
    records_sums: tuple[int | None, ...]
    records_not_private: int | None
    why_not: str

    def _facts(self) -> dict[str, str]:
        def shown(number: float | None) -> str:
            return "none" if number is None else f"{number:,g}"

        return {
            "r2": f"{self.r2:.4g}",
            "rmse": plain(self.rmse),
            "epsilon_labels": shown(self.epsilon_labels),
            "epsilon_sums": shown(self.epsilon_sums),
        }


def target_of(models: ModelErrors, records: int, epsilons: Sequence[float], r2: float) -> Target:
    """Return the requirements for an R²."""
    spread = models.mean_only().mse
    reachable = models.not_private(records).r2
    least_true = least_records(lambda n: models.not_private(n).r2 >= r2, records)
    why_not = ""
    if reachable < r2:
        why_not = f"Even without privacy {records:,} records are predicted to reach R² = {reachable:.2f} only."
        if r2 > models.explained:
            why_not = f"Even without privacy it is out of reach: features are taken to explain {models.explained:g} of the labels' variance."
        elif least_true is not None:
            why_not += f" Without privacy it takes {least_true:,}."
    hopeless = r2 >= models.explained

    def at(epsilon: float, predict: Callable[[float, int], bool]) -> int | None:
        return None if hopeless else least_records(lambda n: predict(epsilon, n), records)

    def by_labels(epsilon: float, n: int) -> bool:
        return models.labels(epsilon, n).r2 >= r2

    def by_sums(epsilon: float, n: int) -> bool:
        return models.sums(epsilon, n).r2 >= r2

    return Target(
        r2=r2,
        rmse=(max(0.0, 1 - r2) * spread) ** 0.5,
        epsilon_labels=None if why_not else least_epsilon(lambda epsilon: by_labels(epsilon, records)),
        epsilon_sums=None if why_not else least_epsilon(lambda epsilon: by_sums(epsilon, records)),
        records_labels=tuple(at(epsilon, by_labels) for epsilon in epsilons),
        records_sums=tuple(at(epsilon, by_sums) for epsilon in epsilons),
        records_not_private=least_true,
        why_not=why_not,
    )


def least_epsilon(enough: Callable[[float], bool]) -> float | None:
    """Return the least ε of two digits, from 0.001 to 40, that is enough."""
    grid = _epsilons()
    place = bisect_left(grid, 1, key=lambda epsilon: int(enough(epsilon)))
    return grid[place] if place < len(grid) else None


def least_records(enough: Callable[[int], bool], start: int) -> int | None:
    """Return the smallest sufficient number, rounded up to two digits, from 100 to a billion. The search begins at `start`."""
    grid = _records()
    high = min(bisect_left(grid, start), len(grid) - 1)
    low, stride = 0, 8
    if enough(grid[high]):
        while high > 0 and enough(grid[max(0, high - stride)]):
            high, stride = max(0, high - stride), 2 * stride
        low = max(0, high - stride)
    else:
        while not enough(grid[high]):
            if high == len(grid) - 1:
                return None
            low, high, stride = high + 1, min(len(grid) - 1, high + stride), 2 * stride
    return grid[bisect_left(grid, 1, low, high, key=lambda n: int(enough(n)))]


def wanted_r2(models: ModelErrors, target_r2: float | None, target_error: float | None) -> float | None:
    """Return the target R², given directly or as a root mean squared error, or None."""
    if target_r2 is None and target_error is None:
        return None
    if target_r2 is not None and target_error is not None:
        raise InvalidInput("give one target: an R² or an error, not both")
    given = target_error if target_r2 is None else target_r2
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise InvalidInput(f"a target must be a number, got {described(given)}")
    if target_r2 is not None:
        if not 0 < target_r2 <= 1:
            raise InvalidInput(
                f"the target R² must be greater than 0 and at most 1, got {target_r2:g}: 0 is what the mean of the labels reaches"
            )
        return float(target_r2)
    mean = models.mean_only()
    if not 0 <= given < mean.rmse:
        raise InvalidInput(
            f"the target error must be at least 0 and less than {plain(mean.rmse)}, which answering the mean of the labels reaches, got "
            f"{given:g}. It is a root mean squared error, in the unit of the labels"
        )
    return 1 - given**2 / mean.mse


@cache
def _epsilons() -> list[float]:
    """Return all numbers of two digits from 0.001 to 40."""
    numbers = (float(f"{digits}e{power}") for power in range(-4, 1) for digits in range(10, 100))
    return [number for number in numbers if number <= MAX_EPSILON]


@cache
def _records() -> list[int]:
    """Return all numbers of two digits from 100 to a billion."""
    numbers = chain.from_iterable((digits * 10**power for digits in range(10, 100)) for power in range(1, 9))
    return [number for number in numbers if LEAST_RECORDS <= number <= MOST_RECORDS]
