"""One process at a time: a lock that the operating system drops when its holder dies, however it dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from labeldp.errors import InvalidInput, LabelDPError


@contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Holds the lock of `path`, a hidden file beside it, or refuses at once because another run has it.

    The lock file is removed when the block ends. Only its holder removes it, and who obtains a lock looks whether the
    file is still the one at that place, so two runs never hold the lock of one path. Windows removes no open file, so
    there it stays.
    """
    place = path.parent / f".{path.name}.labeldp-lock"
    try:
        handle = os.open(place, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as error:
        raise InvalidInput(
            f"cannot write beside {what}: {error.strerror} ({place.parent}). Its folder must exist and be writable for you"
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
    try:
        held = lock_descriptor(handle, blocking=False)
        return held and (os.name != "posix" or os.path.samestat(os.fstat(handle), place.lstat()))
    except FileNotFoundError:  # the earlier holder removed it after this process had opened it
        return False
    except OSError as error:
        raise InvalidInput(
            f"cannot lock {what}: {error.strerror}. Keep it on a disk whose file system has locks"
        ) from error
