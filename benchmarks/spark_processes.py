"""Memory and processor time of a Spark driver, its Java machine and its Python workers. Linux only: it reads /proc."""

from __future__ import annotations

import os
import re
from pathlib import Path
from threading import Event, Thread
from typing import Self

EVERY_SECONDS = 0.2
GIB = 1 << 30
ROLES = {"java": "Java", "python": "largest worker"}


class Peaks:
    """While the block runs, watches the resident memory of a process and all its descendants.

    Java's heap grows to what it is given whether it needs it or not, so only the Python processes say something about the rows.
    """

    def __init__(self, driver: int) -> None:
        self._driver = driver
        self._most = {"driver": 0, "Java": 0, "largest worker": 0}
        self._ended = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def __str__(self) -> str:
        return ", ".join(f"{name} {size / GIB:.2f} GiB" for name, size in self._most.items())

    def _watch(self) -> None:
        while not self._ended.wait(EVERY_SECONDS):
            for process in (self._driver, *descendants(self._driver)):
                role = "driver" if process == self._driver else ROLES.get(name_of(process)[:6])
                if role is not None:  # else one that Java is just starting, which still has Java's memory
                    self._most[role] = max(self._most[role], resident(process))


def processor_seconds(driver: int) -> float:
    """What a process and all its descendants have used so far."""
    fields = [read(Path(f"/proc/{one}/stat")).rpartition(")")[2].split() for one in (driver, *descendants(driver))]
    return sum(int(ticks) for found in fields for ticks in found[11:15]) / os.sysconf(
        "SC_CLK_TCK"
    )  # with ended children


def descendants(process: int) -> list[int]:
    """The processes that this one started, and those that they started."""
    found = []
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in read(children).split():
            found += [int(child), *descendants(int(child))]
    return found


def name_of(process: int) -> str:
    return read(Path(f"/proc/{process}/comm")).strip()


def resident(process: int) -> int:
    match = re.search(r"VmRSS:\s+(\d+) kB", read(Path(f"/proc/{process}/status")))
    return 0 if match is None else 1024 * int(match[1])


def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has ended
        return ""
