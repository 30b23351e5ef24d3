"""The record of finished trainings: one JSON line each, so that an interrupted reproduction goes on where it stopped."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Run:
    """One training: a method at one ε (infinite where nothing is private), with one seed for split, noise and network."""

    method: str
    epsilon: float
    seed: int


@dataclass(frozen=True)
class TrainedRun:
    """What one training gave: the error of its private labels, its loss on the test rows, and what it took."""

    run: Run
    mechanism_loss: float
    test_loss: float
    test_squared_error: float
    seconds: float
    cpu_seconds: float


class TrainingLog:
    """A file of outcomes, each beside the settings it was made under. Lines of other settings are kept and not read.

    A line is written by a single call and flushed to the disk, so a run that dies loses only what was being trained; a
    line cut off in the middle is skipped.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings: dict[str, Any] = json.loads(json.dumps(settings))

    def read(self) -> dict[Run, TrainedRun]:
        """The finished runs of these settings; of two outcomes of one run the first counts."""
        if not self.path.exists():
            return {}
        found: dict[Run, TrainedRun] = {}
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(record, dict) and record.pop("settings", None) == self.settings:
                run = Run(record.pop("method"), float(record.pop("epsilon")), record.pop("seed"))
                found.setdefault(run, TrainedRun(run, **record))
        return found

    def append(self, outcome: TrainedRun) -> None:
        """Adds a line, after a line break if the last line was cut off."""
        record = asdict(outcome)
        record = {**record.pop("run"), **record, "settings": self.settings}
        record["epsilon"] = repr(outcome.run.epsilon)  # JSON knows no infinity
        with self.path.open("ab+", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            torn = file.read(1) not in (b"", b"\n")
            file.write((("\n" if torn else "") + json.dumps(record) + "\n").encode())
            os.fsync(file.fileno())
