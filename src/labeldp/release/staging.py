"""Writes files and folders so that they appear whole or not at all: hidden first, flushed to disk, then renamed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labeldp.errors import InvalidInput
from labeldp.release.locks import exclusive


@contextmanager
def staging(target: Path) -> Iterator[Path]:
    """A hidden folder beside `target`, on the same disk, removed at the end. Only one run at a time per target.

    A killed run leaves the folder behind, and the next run with the same target removes it. Working files and unfinished
    files go in here and never into a message, so nobody can send them along.
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
    """Flushes a file or folder to disk and renames it to `target`. Never replaces anything."""
    for inside in sorted(staged.rglob("*")):
        flush(inside)
    flush(staged)
    if os.path.lexists(target):
        raise InvalidInput(f"{target} exists and is not overwritten: choose another place")
    staged.rename(target)
    flush(target.parent)


def replace_file(staged: Path, target: Path) -> None:
    """Flushes a file to disk and puts it in the place of another. Readers see the old one or the new one."""
    flush(staged)
    staged.replace(target)
    flush(target.parent)


def flush(path: Path) -> None:
    """Writes a file or folder through to the disk, so that a power cut after a rename cannot leave an empty file."""
    folder = path.is_dir()
    if folder and os.name != "posix":
        return  # Windows cannot open folders; NTFS has a journal for names
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)  # Windows flushes only writable files
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def os_reason(error: OSError | MemoryError) -> str:
    """What the operating system said, without the path of a hidden folder, which the user does not know."""
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    return os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
