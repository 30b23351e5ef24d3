"""numba's decorators with types: the result has the type of the function."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba as nb

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
