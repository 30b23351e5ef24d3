"""numba's decorator with a type: what it returns is called like the function that it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba as nb

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Machine code on the first call, kept on disk for the next process."""
    result: _Function = nb.njit(cache=True)(function)
    return result


def inlined(function: _Function) -> _Function:
    """For small functions that are only called from compiled ones."""
    result: _Function = nb.njit(inline="always")(function)
    return result
