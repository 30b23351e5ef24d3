"""Estimators that tell when they were fitted, for progress bars over several trainings."""

from collections.abc import Callable
from typing import Any, Self


def counted(estimator: Any, tick: Callable[[int], None] | None) -> Any:
    """An estimator like this one whose clones call `tick(1)` after each `fit`. The estimator itself without a `tick`."""
    if tick is None:
        return estimator
    kind: Any = type(estimator)
    done: Callable[[int], None] = tick

    class Counted(kind):  # type: ignore[misc]
        def fit(self, *data: Any, **options: Any) -> Self:
            super().fit(*data, **options)
            done(1)
            return self

    return Counted(**estimator.get_params(deep=False))
