"""Progress bars with rows per second, on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from labeldp.cli.console import err


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if not speed else f"{speed / 1e6:.2f} M rows/s" if speed >= 1e5 else f"{speed:,.0f} rows/s")


@contextmanager
def phases(*, quiet: bool = False) -> Iterator[Callable[[str, int | None], Callable[[int], None] | None]]:
    """Give a function that begins a phase and returns the callback for its rows. Without a terminal nothing is shown."""
    if quiet or not err.is_terminal:
        yield lambda name, rows: None  # noqa: ARG005
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<12}"),
        BarColumn(),
        TextColumn("{task.completed:>13,.0f}"),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err) as progress:

        def begin(name: str, rows: int | None) -> Callable[[int], None]:
            _end(progress)
            task = progress.add_task(name, total=rows)
            return lambda done: progress.advance(task, done)

        yield begin
        _end(progress)


def _end(progress: Progress) -> None:
    """Fill the bars of phases of unknown length, which are over when the next one begins."""
    for task in progress.tasks:
        if task.total is None:
            progress.update(task.id, total=task.completed)
