"""Commands of labeldp as real processes, forked from one that has loaded everything, with faults inside and outside."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import mmap
import os
import random
import resource
import select
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "sqlite3.connect", "fcntl.flock"}
"""Python's audit events that a fault may hit: every name that appears, changes or goes, every lock, every connection."""

PATIENCE = 60.0
"""Seconds after which a process counts as hung. One takes a tenth of a second."""

HUNG = 124
BROKEN = 70
"""Exit codes of a process that hung, and of one that ended with a traceback."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong while a command runs.

    `kind` is a name for the summary. The process is killed or interrupted at its `event`-th audited event, or killed `after`
    so many seconds. `jump` moves its clock by so many days. `largest` bounds the files that it can write, where no disk can
    be filled up. `swap` replaces one file by another at the event. `bug` is planted in the process to test the tests.
    """

    kind: str = "none"
    event: int = 0
    after: float | None = None
    jump: int = 0
    largest: int = 0
    swap: tuple[Path, Path] | None = None
    bug: Callable[[], None] | None = None


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, what it printed, its last audited event, and whether the fault took place."""

    code: int
    out: str
    err: str
    last: str
    events: int
    struck: bool

    @property
    def how(self) -> str:
        """A word for the summary."""
        if self.code == 0:
            return "resumed" if '"resumed": true' in self.out else "finished"
        names = {-signal.SIGKILL: "killed", 130: "stopped", HUNG: "hung", BROKEN: "broken"}
        return names.get(self.code, "refused")

    @property
    def said(self) -> str:
        """Its error, without the notes before it."""
        return self.err.strip()[max(0, self.err.strip().find("error:")) :]


def run(commands: Sequence[Sequence[str]], fault: Fault, roles: dict[str, str]) -> list[Ended]:
    """Runs commands at the same time and waits for all. `roles` turns parts of paths into names for the summary."""
    started = [_Process(command, fault, roles) for command in commands]
    if fault.after is not None:
        time.sleep(fault.after)
        for process in started:
            process.kill()
    return [process.wait() for process in started]


class _Process:
    def __init__(self, command: Sequence[str], fault: Fault, roles: dict[str, str]) -> None:
        self._note = mmap.mmap(-1, 256)  # shared: the child notes each event, and the note outlives it
        self._fault = fault
        pipes = [os.pipe(), os.pipe()]
        sys.stdout.flush()
        sys.stderr.flush()
        self._id = os.fork()
        if self._id == 0:
            _child(command, fault, roles, self._note, pipes)
        self._pipes = [reading for reading, writing in pipes if os.close(writing) is None]
        self._killed = False

    def kill(self) -> None:
        os.kill(self._id, signal.SIGKILL)  # our child and not waited for yet: the number is still its own

    def wait(self) -> Ended:
        texts = dict.fromkeys(self._pipes, b"")
        deadline = time.monotonic() + PATIENCE
        hung = False
        open_pipes = list(self._pipes)
        while open_pipes:
            ready, _, _ = select.select(open_pipes, [], [], max(0.0, deadline - time.monotonic()))
            if not ready and not hung:
                hung, deadline = True, time.monotonic() + PATIENCE
                self.kill()
            for pipe in ready:
                piece = os.read(pipe, 1 << 16)
                texts[pipe] += piece
                if not piece:
                    open_pipes.remove(pipe)
        for pipe in self._pipes:
            os.close(pipe)
        code = os.waitstatus_to_exitcode(os.waitpid(self._id, 0)[1])
        struck, count, last = (
            self._note[:].split(b"\0", 1)[0].decode().split("|") if self._note[0] else ("", "0", "start")
        )
        out, err = (text.decode(errors="replace") for text in texts.values())
        self._note.close()
        killed = code == -signal.SIGKILL
        return Ended(HUNG if hung else code, out, err, last, int(count), bool(struck) or (killed and not hung))


def _child(command: Sequence[str], fault: Fault, roles: dict[str, str], note: mmap.mmap, pipes: list) -> None:
    """The life of a forked process. Never returns."""
    code = BROKEN
    try:
        gc.disable()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for target, (_, writing) in zip((1, 2), pipes, strict=True):
            os.dup2(writing, target)
        sys.stdout, sys.stderr = (open(target, "w", encoding="utf-8", closefd=False) for target in (1, 2))  # noqa: SIM115
        _arm(fault, roles, note)
        code = call(command)
    except BaseException:  # noqa: BLE001 - a process that ends otherwise is what we look for
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def call(command: Sequence[str]) -> int:
    """Runs the command line in this process; returns its exit code."""
    from labeldp.cli import main

    sys.argv = ["labeldp", *command]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def make_forks_cheap() -> None:
    """Builds the command line's parser once, and keeps the collector off the memory that forked processes share."""
    import typer

    from labeldp import cli

    cli.app = typer.main.get_command(cli.app)
    gc.collect()
    gc.freeze()


def _arm(fault: Fault, roles: dict[str, str], note: mmap.mmap) -> None:
    """Makes this process note its events and suffer the faults that come from inside."""
    count, busy = 0, False

    def tell(struck: str, event: str) -> None:
        text = f"{struck}|{count}|{event}".encode()[:255]
        note[: len(text) + 1] = text + b"\0"

    def watch(event: str, arguments: tuple) -> None:
        nonlocal count, busy
        if busy or event not in EVENTS:
            return
        where = _role(arguments, roles)
        if where is None:
            return
        count += 1
        struck = count >= fault.event > 0
        tell("struck" if struck else "", f"{event} {where}")
        if count != fault.event:
            return
        if fault.swap is not None:
            busy = True
            fault.swap[0].replace(fault.swap[1])
            busy = False
        elif fault.kind == "interrupt":
            raise KeyboardInterrupt
        else:
            os.kill(os.getpid(), signal.SIGKILL)

    if fault.bug is not None:
        fault.bug()
    if fault.jump:
        _jump(fault.jump)
    if fault.largest:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault.largest, resource.RLIM_INFINITY))
    sys.addaudithook(watch)


def _role(arguments: tuple, roles: dict[str, str]) -> str | None:
    """What an event is about. None for a file that is none of the scene's, such as a module."""
    text = " ".join(str(argument) for argument in arguments)
    for part, name in roles.items():
        if part in text:
            return name
    return None if text.startswith("/") else "other"  # shutil.rmtree gives names without their folder


def _jump(days: int) -> None:
    """Moves the clock of all of labeldp in this process; a little more at each look, now forward and now back."""
    true, steps = dt.datetime, random.Random(days)

    class Jumping(true):
        @classmethod
        def now(cls, zone=None):
            return true.now(zone) + dt.timedelta(days=days + steps.randint(-1000, 1000))

    for name, module in list(sys.modules.items()):
        if name.startswith("labeldp") and getattr(module, "datetime", None) is true:
            module.datetime = Jumping
    actual = time.time
    time.time = lambda: actual() + 86400.0 * days
