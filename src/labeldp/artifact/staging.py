"""Files and folders that appear complete or not at all: written to a hidden path, flushed to disk, then renamed, under a lock."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from labeldp.errors import InvalidInput, LabelDPError


@contextmanager
def staging(target: Path) -> Iterator[Path]:
    """Make a hidden folder next to `target`, on the same disk, and remove it at the end. Only one run per target at a time.

    A killed run leaves the folder behind, and the next run with the same target removes it. Temporary and unfinished
    files are written here and never into a message, so they cannot be sent by mistake.
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
    """Flush a file or folder to disk and rename it to `target`. Never replace anything."""
    for inside in sorted(staged.rglob("*")):
        flush(inside)
    flush(staged)
    if os.path.lexists(target):
        raise InvalidInput(f"{target} exists and is not overwritten: choose another place")
    staged.rename(target)
    flush(target.parent)


def replace_file(staged: Path, target: Path) -> None:
    """Flush a file to disk and replace another with it. Readers see the old one or the new one."""
    flush(staged)
    staged.replace(target)
    flush(target.parent)


def flush(path: Path) -> None:
    """Write a file or folder through to the disk, so that a power cut after a rename cannot leave an empty file."""
    folder = path.is_dir()
    if folder and os.name != "posix":
        return  # Windows cannot open folders; NTFS has a journal for names
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)  # Windows flushes only writable files
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def os_reason(error: OSError | MemoryError) -> str:
    """Return the operating system's reason, without the path of a hidden folder that the user does not know."""
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    return os.strerror(error.errno) if error.errno else str(error).splitlines()[0]


@contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Hold the lock of `path` until the block ends, or raise an error at once if another run holds it.

    The lock is a hidden file next to `path`, removed by its holder at the end. The operating system releases it when
    the process dies. A process that locks the file then checks that the file is still at its path, so two runs never
    hold the lock of one path. On Windows the file stays, because an open file cannot be removed there.
    """
    place = path.parent / f".{path.name}.labeldp-lock"
    try:
        handle = os.open(place, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as error:
        raise InvalidInput(
            f"cannot write next to {what}: {error.strerror} ({place.parent}). Its folder must exist and you must be able to write to it"
        ) from error
    try:
        if not _obtained(handle, place, what):
            raise LabelDPError(
                f"another labeldp run is using {what}. Nothing was changed: wait until it ends, then run again"
            )
        try:
            yield
        finally:
            if os.name == "posix":
                place.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _obtained(handle: int, place: Path, what: str) -> bool:
    """Return whether this process now holds the lock on the file at `place`."""
    try:
        held = lock_descriptor(handle, blocking=False)
        return held and (os.name != "posix" or os.path.samestat(os.fstat(handle), place.lstat()))
    except FileNotFoundError:  # its last holder removed it after this process opened it
        return False
    except OSError as error:
        raise InvalidInput(
            f"cannot lock {what}: {error.strerror}. Keep it on a file system that supports locks"
        ) from error
