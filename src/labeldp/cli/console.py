"""What the commands share on the terminal: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def line(name: str, text: str) -> None:
    """A line of a result. Paths and names as they are, lines as long as they are: both can be copied."""
    out.print(f"{name:<8} {text}", markup=False, soft_wrap=True)


def complain(text: str) -> None:
    """An error, in a form that both people and `2>&1 | grep` can read."""
    err.print(f"[bold red]error:[/bold red] {escape(text)}", soft_wrap=True)


def note(text: str) -> None:
    """Something the user should know while the command goes on."""
    err.print(f"[yellow]note:[/yellow] {escape(text)}", soft_wrap=True)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Warnings without the path of the code that raised them."""
    del category, filename, lineno, file, line
    note(str(message))


def print_json(data: Any) -> None:
    """Machine-readable results: nothing else may be on standard output."""
    print(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))
