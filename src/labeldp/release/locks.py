"""A lock that lets one process at a time use a file. The operating system releases it when the process dies."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from labeldp.errors import InvalidInput, LabelDPError


@contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Holds the lock of `path` until the block ends, or refuses at once if another run holds it.

    The lock is a hidden file beside `path`, removed by its holder at the end. A process that locks the file then checks
    that the file is still at its place, so two runs never hold the lock of one path. On Windows the file stays, because
    an open file cannot be removed there.
    """
    place = path.parent / f".{path.name}.labeldp-lock"
    try:
        handle = os.open(place, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as error:
        raise InvalidInput(
            f"cannot write beside {what}: {error.strerror} ({place.parent}). Its folder must exist and you must be able to write to it"
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
    """Whether this process now holds the lock, on the file that is at `place`."""
    try:
        held = lock_descriptor(handle, blocking=False)
        return held and (os.name != "posix" or os.path.samestat(os.fstat(handle), place.lstat()))
    except FileNotFoundError:  # its last holder removed it after this process opened it
        return False
    except OSError as error:
        raise InvalidInput(
            f"cannot lock {what}: {error.strerror}. Keep it on a file system that supports locks"
        ) from error
