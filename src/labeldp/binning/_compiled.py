"""numba's decorator with a type: what it returns is called like the function that it was given."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba as nb

from labeldp.losses import deviance_series

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Machine code on the first call, kept on disk for the next process."""
    result: _Function = nb.njit(cache=True)(function)
    return result


def internal(function: _Function) -> _Function:
    """For functions that only compiled ones call: part of their machine code."""
    result: _Function = nb.njit(function)
    return result


def forget_stale_code(room: Path, *others: Path) -> None:
    """Drop machine code older than any source of its room, or than one of the others.

    numba compares a function with its own file only, and here they are inlined into each other across files.
    """
    newest = max(source.stat().st_mtime for source in (*room.glob("_*.py"), *others))
    for index in (room / "__pycache__").glob("_*.nbi"):
        with contextlib.suppress(OSError):  # another process was faster, or the folder is not ours to change
            if index.stat().st_mtime < newest:
                index.unlink()


forget_stale_code(Path(__file__).parent, Path(deviance_series.__file__))
