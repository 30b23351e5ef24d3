"""A progress bar for training, with the loss and the speed."""

import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class TrainingProgress:
    """A progress bar on standard error over all rows of all epochs, for a `with` statement. Call it after each batch."""

    def __init__(self, rows: int, epochs: int, console: Console | None = None) -> None:
        self._epochs = epochs
        self._seen = 0
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TextColumn("{task.fields[speed]} rows/s"),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
        )
        self._task = self._bar.add_task("training", total=rows * epochs, epoch=f"0/{epochs}", loss="–", speed="–")

    def __call__(self, epoch: int, rows: int, loss: float) -> None:
        self._seen += rows
        speed = self._seen / max(time.perf_counter() - self._start, 1e-9)
        self._bar.update(
            self._task, advance=rows, epoch=f"{epoch + 1}/{self._epochs}", loss=f"{loss:.5g}", speed=f"{speed:,.0f}"
        )

    def __enter__(self) -> Self:
        self._start = time.perf_counter()
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
