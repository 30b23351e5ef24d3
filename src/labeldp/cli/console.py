"""What the commands share on the terminal: results on standard output, everything else on standard error.

Names and texts may come from a message, which anybody may have written. A terminal obeys control characters, so none of them is
printed: they show as escapes, the way Python source has them.
"""

import codecs
import json
import signal
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from fractions import Fraction
from functools import partial
from threading import current_thread, main_thread
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from labeldp.budget import decimal_text


class Screen(Console):
    """A console that shows control characters as escapes and never sends them to the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render into segments. Texts and tables lose their control characters."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def visible(text: str, *, keep: str = "\n") -> str:
    """The text, with escapes as in Python source for characters that are neither printed nor spaces nor to be kept."""
    if text.isprintable():
        return text
    return "".join(sign if sign in keep or _is_shown(sign) else sign.encode("unicode_escape").decode() for sign in text)


out = Screen(highlight=False)
err = Screen(stderr=True, highlight=False)

WIDE = 240
"""The width of tables in files and pipes, where nothing needs to fit a screen."""

Cell = str | Text
"""A text to print; `Text` has its own style."""

FEW_ROWS = 1000
"""A bar of fewer steps shows no speed: it is over at once, or counts trained models and not rows."""


def line(name: str, text: Cell, *, width: int = 8) -> None:
    """Print one line of a result: a name, padded to `width` columns, and a text.

    It is never wrapped and has no markup, so that paths and commands can be copied.
    """
    shown = text if isinstance(text, Text) else visible(text, keep="")
    out.print(Text.assemble(f"{name:<{width}} ", shown), soft_wrap=True)


def complain(text: str) -> None:
    """Print an error in a form that both people and `2>&1 | grep` can read."""
    err.print(f"[bold red]error:[/bold red] {escape(_indented(text))}", soft_wrap=True)


def note(text: str) -> None:
    """Print something that the user should know while the command goes on."""
    err.print(f"[yellow]note:[/yellow] {escape(_indented(text))}", soft_wrap=True)


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning without the path of the code that raised it."""
    note(str(message))


class _Terminated(KeyboardInterrupt):
    """Someone sent SIGTERM, as schedulers do before they kill."""


@contextmanager
def stoppable(advice: str) -> Iterator[None]:
    """On Ctrl-C or SIGTERM, clean up, print how to continue, and end with exit code 130 or 143."""
    before = None
    if current_thread() is main_thread():  # no other may set it
        before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except KeyboardInterrupt as stopped:
        complain(f"stopped. {advice}")
        raise typer.Exit(143 if isinstance(stopped, _Terminated) else 130) from None
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _terminate(*_: object) -> None:
    raise _Terminated


@contextmanager
def phases(*, quiet: bool = False) -> Iterator[Callable[[str, int | None], Callable[[int], None] | None]]:
    """Give a function that begins a phase and returns the callback for its rows. Without a terminal nothing is shown.

    A phase without a name shows its progress itself: the bars stop before it.
    """
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

        def begin(name: str, rows: int | None) -> Callable[[int], None] | None:
            _end(progress)
            if not name:
                progress.stop()
                return None
            progress.start()
            task = progress.add_task(name, total=rows)
            return lambda done: progress.advance(task, done)

        yield begin
        _end(progress)


def print_json(data: Any) -> None:
    """Print a result as JSON, which must be all of standard output.

    Fractions become exact text and times ISO text. Infinity and NaN, which JSON does not know, become null. JSON's escapes stand
    for control characters and for letters that the output cannot take.
    """
    plain = not encodes_everything()
    write = partial(json.dumps, indent=2, ensure_ascii=plain, allow_nan=False, default=_exact_text)
    try:
        text = write(data)
    except ValueError:
        note("figures that are infinite or undefined are null in the JSON")
        text = write(json.loads(json.dumps(data, default=_exact_text), parse_constant=lambda _: None))
    print("".join(sign if sign == "\n" or _is_shown(sign) else json.dumps(sign)[1:-1] for sign in text))


def print_table(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    bold: Sequence[int] = (),
    left: Sequence[int] = (),
    together: int = 1,
) -> None:
    """Print a table whose cells are never cut: columns that do not fit go below, with the first one repeated.

    On a screen too narrow for the first column and another next to it, each row becomes a list of its cells. A row whose first cell is empty belongs to the row above it, and such groups are set apart.

    Parameters
    ----------
    title : str
        The title.
    head : sequence of str
        The headings.
    rows : sequence of sequence of str or Text
        The cells.
    bold : sequence of int
        For each row the column to print in bold, or -1.
    left : sequence of int
        The columns to align to the left.
    together : int
        The columns after the first stay together in groups of so many.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    head = [visible(text, keep="") for text in head]  # here, because escapes are wider than what they represent
    rows = [[cell if isinstance(cell, Text) else visible(cell, keep="") for cell in row] for row in rows]
    console = out if out.is_terminal else Screen(file=out.file, width=WIDE, highlight=False)
    grouped = any(not row[0] for row in rows)
    console.print(Text(f"\n{title}", style="italic"))
    first, *others = (_width(head, rows, column) for column in range(len(head)))
    if first + max(others, default=0) + 6 > console.width:
        _print_lists(console, head, rows, bold)
        return
    for part in column_parts(head, rows, console.width, together):
        columns = (0, *part)
        natural = sum(max(len(head[column]), _width(head, rows, column)) + 2 for column in columns) + 2
        squeezed = natural > console.width  # then headings are wrapped, and no cell is ever narrowed
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for column in columns:
            justify = "left" if column in left else "right"
            width = _width(head, rows, column)
            table.add_column(head[column], justify=justify, min_width=width, width=width if squeezed else None)  # type: ignore[arg-type]
        for number, row in enumerate(rows):
            if grouped and number and row[0]:
                table.add_section()
            best = bold[number] if bold else -1
            table.add_row(*(_shown(row[column], bold=column == best) for column in columns))
        console.print(table)


def column_parts(head: Sequence[str], rows: Sequence[Sequence[Cell]], width: int, together: int) -> Iterator[list[int]]:
    """The columns after the first, in parts that fit next to it."""
    part: list[int] = []
    widths = [_width(head, rows, column) + 2 for column in range(len(head))]
    room = free = width - widths[0] - 2
    if any(sum(widths[first : first + together]) > free for first in range(1, len(head), together)):
        together = 1
    for first in range(1, len(head), together):
        group = list(range(first, first + together))
        need = sum(widths[column] for column in group)
        if part and need > room:
            yield part
            part, room = [], free
        part += group
        room -= need
    yield part


def _print_lists(
    console: Console, head: Sequence[str], rows: Sequence[Sequence[Cell]], bold: Sequence[int] = ()
) -> None:
    """Print each row as lines of a heading and a cell. A cell that is too wide even for that is folded."""
    widest = max(map(cell_len, head)) + 2
    first: Cell = ""
    for number, row in enumerate(rows):
        console.print()
        first = row[0] or first
        for column, cell in enumerate((first, *row[1:])):
            heading = Text(head[column] + " " * (widest - cell_len(head[column])))
            shown = _shown(cell, bold=bool(bold) and column == bold[number])
            console.print(Text.assemble(heading, shown), overflow="fold")


def _is_shown(sign: str) -> bool:
    return sign.isprintable() or unicodedata.category(sign) == "Zs"


def _indented(text: str) -> str:
    """Further lines are set in, so that none of them looks like a line of the command's own."""
    return text.replace("\n", "\n  ")


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if not speed or (task.total is not None and task.total < FEW_ROWS):
            return Text("")
        return Text(f"{speed / 1e6:.2f} M rows/s" if speed >= 1e5 else f"{speed:,.0f} rows/s")


def _end(progress: Progress) -> None:
    """Fill the bars of phases of unknown length, which are over when the next one begins."""
    for task in progress.tasks:
        if task.total is None:
            progress.update(task.id, total=task.completed)


def _width(head: Sequence[str], rows: Sequence[Sequence[Cell]], column: int) -> int:
    """The width of a column: its longest cell, or the longest word of its heading."""
    return max(cell_len(str(text)) for text in [*head[column].split(), *(row[column] for row in rows)])


def _shown(cell: Cell, *, bold: bool) -> Text:
    return cell if isinstance(cell, Text) else Text(cell, style="bold" if bold else "")


def _exact_text(value: Fraction | datetime) -> str:
    return decimal_text(value) if isinstance(value, Fraction) else value.isoformat()


HANDLER = "labeldp-plain"
WORDS = {
    "ε": "epsilon",
    "τ": "tau",
    "δ": "delta",
    "…": "...",
    "−": "-",
    "–": "-",
    "—": "-",
    "×": "x",
    "·": "*",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "±": "+-",
    "√": "sqrt",
    "→": "->",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "•": "*",
    "█": "#",
    "━": "-",
    "╸": "-",
    "╺": "-",
}
"""ASCII replacements of the signs that labeldp prints. Others lose their accents or become a question mark."""


def degrade_output() -> None:
    """Make standard output and standard error replace characters that they cannot encode."""
    codecs.register_error(HANDLER, _plain)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=HANDLER)


def encodes_everything() -> bool:
    """Whether standard output takes any text, as UTF-8 does."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_word(sign) for sign in error.object[error.start : error.end]), error.end


def _word(sign: str) -> str:
    if sign in WORDS:
        return WORDS[sign]
    bare = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()  # ₁ is 1, é is e
    return bare or "?"
