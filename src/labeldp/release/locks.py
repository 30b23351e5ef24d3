"""One process at a time: a lock that the operating system drops when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labeldp.errors import InvalidInput, LabelDPError


@contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Holds the lock of `path`, a hidden file beside it, or refuses at once because another run has it.

    The lock file is removed when the block ends. Only its holder removes it, and who obtains a lock looks whether the
    file is still the one at that place, so two runs never hold the lock of one path.
    """
    place = path.parent / f".{path.name}.labeldp-lock"
    handle = _obtain(place, what)
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
        os.close(handle)


def _obtain(place: Path, what: str) -> int:
    while True:
        try:
            handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise InvalidInput(
                f"cannot write beside {what}: {error.strerror} ({place.parent}). Its folder must exist and be writable for you"
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same_file(handle, place):
                return handle
        except BlockingIOError:
            os.close(handle)
            raise LabelDPError(
                f"another labeldp run is using {what}. Nothing was changed: wait until it ends, then run again"
            ) from None
        except OSError as error:
            os.close(handle)
            raise InvalidInput(
                f"cannot lock {what}: {error.strerror}. Keep it on a disk whose file system has locks"
            ) from error
        os.close(handle)


def _same_file(handle: int, place: Path) -> bool:
    """False if the earlier holder removed the file after this process had opened it."""
    try:
        return os.path.samestat(os.fstat(handle), place.lstat())
    except FileNotFoundError:
        return False
