"""Ends a call in the middle, at one of the events that Python's audit hooks see, as a kill or as Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "sqlite3.connect", "fcntl.flock"}


class Crash(BaseException):
    """The process is thought dead from here on."""


class _Hook:
    """The audit hook, which stays for good once it is installed, so there is one and it can be told to do nothing."""

    def __init__(self) -> None:
        self.folder, self.left, self.forever, self.installed = "", 0, False, False

    def __call__(self, event: str, arguments: tuple) -> None:
        if not self.left or event not in EVENTS:
            return
        place = str(arguments[0])
        if event == "open" and place.startswith("/") and not place.startswith(self.folder):
            return  # a module, say
        self.left -= 1
        if self.left == 0:
            self.left = int(self.forever)
            raise Crash


_HOOK = _Hook()


@contextmanager
def crash_at(event: int, folder: str, *, hard: bool) -> Iterator[None]:
    """Raises `Crash` at the `event`-th event of the block, counting only files in `folder`; 0 means never.

    A hard crash is like a kill: every later event raises too, so no handler can clean up and the files stay as they were. A
    soft one is like Ctrl-C: handlers run.
    """
    if not _HOOK.installed:
        sys.addaudithook(_HOOK)
        _HOOK.installed = True
    _HOOK.folder, _HOOK.left, _HOOK.forever = folder, event, hard
    try:
        yield
    finally:
        _HOOK.left = 0


@contextmanager
def crash_at_statement(number: int) -> Iterator[None]:
    """Raises `Crash` before the `number`-th statement that the block gives to SQLite; 0 means never."""
    left = number

    def watch(frame: object, event: str, function: object) -> None:
        nonlocal left
        if event == "c_call" and getattr(function, "__name__", "") == "execute":
            left -= 1
            if left == 0:
                raise Crash

    before = sys.getprofile()
    if number:
        sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)
