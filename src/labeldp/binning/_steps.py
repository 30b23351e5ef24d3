"""The two questions that the search asks of a cost, answered at compile time by the kind of its tables.

Each cost module packs its numbers into its own NamedTuple and registers two compiled functions for it. The search is then
compiled once per kind, with the cost inlined, and knows none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.extending import overload


def step_cost(tables: Any, r: int, i: int) -> float:
    """The cost of the step from node r to node i > r: a Monge function."""
    raise NotImplementedError


def step_output(tables: Any, r: int, i: int) -> float:
    """The output that the step from r to i stands for, on the scale of its tables."""
    raise NotImplementedError


def register(kind: type, cost: Callable[..., float], output: Callable[..., float]) -> None:
    """Answer for tables of this kind."""
    for question, answer in ((step_cost, cost), (step_output, output)):
        _answer(question, kind, answer)


def _answer(question: Callable[..., float], kind: type, answer: Callable[..., float]) -> None:
    def ask(tables: Any, r: Any, i: Any) -> Any:
        return answer(tables, r, i)

    def choose(tables: Any, r: Any, i: Any) -> Any:  # noqa: ARG001 - numba compares the two signatures
        return ask if getattr(tables, "instance_class", None) is kind else None

    overload(question)(choose)
