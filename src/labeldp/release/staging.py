"""Things appear whole or not at all: they are written out of sight, flushed to the disk and renamed into place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labeldp.errors import InvalidInput
from labeldp.release.locks import exclusive


@contextmanager
def staging(target: Path) -> Iterator[Path]:
    """A private folder beside `target`, on its disk, removed at the end. One run at a time for each target.

    A killed run leaves the folder; the next one with the same target removes it first. Spilled rows and unfinished files
    live in here, never inside a message, so that nobody can send them along.
    """
    with exclusive(target, f"{target}"):
        hidden = target.parent / f".{target.name}.labeldp-partial"
        try:
            if hidden.exists():
                shutil.rmtree(hidden)
            hidden.mkdir(mode=0o700)
        except OSError as error:
            raise InvalidInput(
                f"cannot write into {target.parent}: {error.strerror}. Choose another place for the message"
            ) from error
        try:
            yield hidden
        finally:
            shutil.rmtree(hidden, ignore_errors=True)


def publish(staged: Path, target: Path) -> None:
    """Renames a file or a folder into place, flushed before and after; what is there already is never replaced."""
    for inside in sorted(staged.rglob("*")):
        flush(inside)
    flush(staged)
    if os.path.lexists(target):
        raise InvalidInput(f"{target} exists: choose another place, nothing is overwritten")
    staged.rename(target)
    flush(target.parent)


def flush(path: Path) -> None:
    """To the disk itself, so that a power cut after the rename cannot leave an empty file."""
    folder = path.is_dir()
    if folder and os.name != "posix":
        return  # Windows opens no folders; NTFS keeps names in a journal of its own
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)  # Windows flushes only what may be written
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def os_reason(error: OSError) -> str:
    """What the operating system said, without the path of a hidden folder that the user does not know."""
    return os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
