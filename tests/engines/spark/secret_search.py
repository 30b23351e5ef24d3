"""Looks for secrets in all that a Spark application writes, while it runs and afterwards.

A secret is looked for in parts of 16 bytes, in the forms in which bytes get into files and texts. A label is looked for as a
number: its eight bytes and its digits.
"""

from __future__ import annotations

import base64
import contextlib
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from threading import Event, Thread
from typing import Self

PART = 16
LONGEST = 128
"""No pattern has more bytes."""
DIGITS = 8
"""So many leading digits make a label."""


def forms(secret: bytes) -> set[bytes]:
    """How parts of a secret may be written."""
    found = set()
    for start in range(0, len(secret) - PART + 1, PART):
        part = secret[start : start + PART]
        found |= {part, part.hex().encode(), part.hex().upper().encode(), part.hex(" ").encode()}
        found |= {part.decode("latin-1").encode(), repr(part)[2:-1].encode()}
        found |= {", ".join(map(str, numbers)).encode() for numbers in (part, struct.unpack(f"{PART}b", part))}
        for shift in range(3):  # where in a longer text of base64 the part begins
            text = base64.b64encode(bytes(shift) + part)
            found.add(text[4 if shift else 0 : 20])
    return found


def label_forms(label: float) -> set[bytes]:
    """How a label may be written."""
    return {struct.pack("<d", label), struct.pack(">d", label), repr(label)[: DIGITS + 1].encode()}


class Search:
    """What is looked for, by name."""

    def __init__(self) -> None:
        self._patterns: dict[bytes, str] = {}

    def secret(self, name: str, value: bytes) -> None:
        self._patterns |= dict.fromkeys(forms(value), name)

    def label(self, name: str, value: float) -> None:
        self._patterns |= dict.fromkeys(label_forms(value), name)

    @property
    def names(self) -> set[str]:
        return set(self._patterns.values())

    def __len__(self) -> int:
        return len(self._patterns)

    def names_in(self, data: bytes) -> set[str]:
        """The names of what is in these bytes."""
        return {name for pattern, name in self._patterns.items() if pattern in data}


class Watch:
    """Looks again and again into folders and at a process and its children while a block runs.

    Attributes
    ----------
    found : dict
        Names by the place where they were seen.
    looked_at : set of Path
        All files that were read.
    """

    def __init__(self, search: Search, folders: Iterable[Path], process: int, learn=lambda: None) -> None:
        self.found: dict[str, set[str]] = {}
        self.looked_at: set[Path] = set()
        self._search, self._folders, self._process, self._learn = search, list(folders), process, learn
        self._states: dict[Path, tuple[int, int]] = {}
        self._ended = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def look_at_all(self) -> None:
        """Reads all files that are there, from their beginnings."""
        self._states.clear()
        self.look()

    def look(self) -> None:
        """Reads what has changed since the last time: of a file that grew, what came after."""
        known = len(self._search)
        self._learn()
        if len(self._search) > known:
            self._states.clear()  # what was read before was not searched for this
        for folder in self._folders:
            for path in files_in(folder):
                with contextlib.suppress(OSError):
                    self._look_at(path)
        for number in descendants(self._process):
            for what in ("environ", "cmdline"):
                with contextlib.suppress(OSError):
                    self._note(f"{what} of a process", Path(f"/proc/{number}/{what}").read_bytes())

    def _look_at(self, path: Path) -> None:
        state = (path.stat().st_size, path.stat().st_mtime_ns)
        before = self._states.get(path, (0, 0))
        if state != before:
            with path.open("rb") as file:
                file.seek(max(0, before[0] - LONGEST) if state[0] > before[0] else 0)
                self._note(str(path), file.read() + os.fsencode(path))
            self._states[path] = state
            self.looked_at.add(path)

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            self.look()

    def _note(self, place: str, data: bytes) -> None:
        if names := self._search.names_in(data):
            self.found.setdefault(place, set()).update(names)


def files_in(folder: Path) -> list[Path]:
    """All files below a folder from which files may vanish."""
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]


def descendants(process: int) -> list[int]:
    """The process and all that it started, by their ids. Linux only."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found
