"""A progress bar for training, with the loss and the speed."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def training_progress(
    rows: int, epochs: int, console: Console | None = None
) -> Iterator[Callable[[int, int, float], None]]:
    """A progress bar on standard error over all rows of all epochs. Yields what to call after each batch."""
    columns = (
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TextColumn("{task.fields[speed]} rows/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console or Console(stderr=True)) as bar:
        task = bar.add_task("training", total=rows * epochs, epoch=f"0/{epochs}", loss="–", speed="–")
        start, seen = time.perf_counter(), 0

        def update(epoch: int, rows: int, loss: float) -> None:
            nonlocal seen
            seen += rows
            speed = f"{seen / max(time.perf_counter() - start, 1e-9):,.0f}"
            bar.update(task, advance=rows, epoch=f"{epoch + 1}/{epochs}", loss=f"{loss:.5g}", speed=speed)

        yield update
