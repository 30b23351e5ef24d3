"""The two functions through which the search sees a cost, chosen at compile time by the type of its tables.

Each cost module keeps its numbers in its own NamedTuple and registers two compiled functions for that type. numba then compiles
the search once per type with the cost inlined, so a new cost does not touch the search.
"""

from collections.abc import Callable
from typing import Any

from numba.extending import overload


def step_cost(tables: Any, r: int, i: int) -> float:
    """The cost of the step from node r to node i > r: a Monge function."""
    raise NotImplementedError


def step_output(tables: Any, r: int, i: int) -> float:
    """The output of the bin between nodes r and i, on the scale of the tables."""
    raise NotImplementedError


def register(kind: type, cost: Callable[..., float], output: Callable[..., float]) -> None:
    """Make `step_cost` and `step_output` call these functions for tables of this type."""
    for function, implementation in ((step_cost, cost), (step_output, output)):
        _dispatch(function, kind, implementation)


def _dispatch(function: Callable[..., float], kind: type, implementation: Callable[..., float]) -> None:
    def call(tables: Any, r: Any, i: Any) -> Any:
        return implementation(tables, r, i)

    def choose(tables: Any, r: Any, i: Any) -> Any:  # noqa: ARG001 - numba compares the two signatures
        return call if getattr(tables, "instance_class", None) is kind else None

    overload(function)(choose)
