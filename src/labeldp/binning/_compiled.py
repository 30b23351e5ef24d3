"""How numba compiles the search: decorators with types, and the two functions through which the search sees a cost.

Those are chosen at compile time by the type of the tables. Each cost module keeps its numbers in its own NamedTuple and registers
two compiled functions for that type. numba then compiles the search once per type with the cost inlined, so a new cost does not
touch the search.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba as nb
from numba.extending import overload

from labeldp.losses import deviance_series

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile on the first call, and keep the machine code on disk for the next process."""
    result: _Function = nb.njit(cache=True)(function)
    return result


def internal(function: _Function) -> _Function:
    """For functions that only compiled ones call; they become part of the caller's machine code."""
    result: _Function = nb.njit(function)
    return result


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


def forget_stale_code(room: Path, *others: Path) -> None:
    """Delete machine code that is older than any source file of its folder, or than one of the others.

    numba compares the code with the function's own file only, but functions are inlined into each other across files.
    """
    newest = max(source.stat().st_mtime for source in (*room.glob("_*.py"), *others))
    for index in (room / "__pycache__").glob("_*.nbi"):
        with contextlib.suppress(OSError):  # another process deleted it first, or the folder is read-only
            if index.stat().st_mtime < newest:
                index.unlink()


forget_stale_code(Path(__file__).parent, Path(deviance_series.__file__))
