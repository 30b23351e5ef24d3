"""The log of finished trainings, one JSON line each, so that an interrupted reproduction continues where it stopped."""

import json
import os
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from labeldp.errors import InvalidInput
from labeldp.json_text import parse_json


@dataclass(frozen=True)
class Run:
    """One training to do: a method at one ε (infinite without privacy), with one seed for split, noise and model."""

    method: str
    epsilon: float
    seed: int


@dataclass(frozen=True)
class TrainedRun:
    """The result of one training: the error of its private labels, its loss on the test rows, and the time it took."""

    run: Run
    mechanism_loss: float
    test_loss: float
    test_squared_error: float
    seconds: float
    cpu_seconds: float


class TrainingLog:
    """A file of trained runs, each with the settings it was trained under. Lines of other settings are kept and not read.

    A line is written by a single call and flushed to the disk, so a crash loses only the runs in progress. An incomplete
    line is skipped.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings: dict[str, Any] = json.loads(json.dumps(settings))

    def read(self) -> dict[Run, TrainedRun]:
        """The finished runs of these settings. If a run was logged twice, the first counts."""
        if not self.path.exists():
            return {}
        found: dict[Run, TrainedRun] = {}
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            trained = self._trained(line)
            if trained is not None:
                found.setdefault(trained.run, trained)
        return found

    def _trained(self, line: str) -> TrainedRun | None:
        """The run of a line; None if it has other settings, is incomplete or damaged."""
        try:
            record = parse_json(line, self.path)
            if not isinstance(record, dict) or record.pop("settings", None) != self.settings:
                return None
            run = Run(str(record.pop("method")), float(record.pop("epsilon")), int(record.pop("seed")))
            return TrainedRun(run, **{name: float(figure) for name, figure in record.items()})
        except (InvalidInput, KeyError, TypeError, ValueError):
            return None

    def append(self, trained: TrainedRun) -> None:
        """Add a line, after a line break if the last line is incomplete."""
        record = asdict(trained)
        record = {**record.pop("run"), **record}
        # JSON has no infinity and no NaN, so these are text
        beyond = {n: repr(figure) for n, figure in record.items() if isinstance(figure, float) and not isfinite(figure)}
        record |= beyond | {"epsilon": repr(trained.run.epsilon), "settings": self.settings}
        with self.path.open("ab+", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            incomplete = file.read(1) not in (b"", b"\n")
            file.write((("\n" if incomplete else "") + json.dumps(record) + "\n").encode())
            os.fsync(file.fileno())
