"""Help that names what the catalogues hold. They are read when help is asked for, so that commands start fast."""

from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand

LOSSES = "{losses}"
"""In the help of an option: stands for the names of the losses."""


def help_with(title: str, entries: Callable[[], dict[str, str]]) -> type[TyperCommand]:
    """A class for commands whose help ends with a panel that explains the entries of a catalogue, one on each line."""

    class LazyHelp(TyperCommand):
        def format_help(self, ctx: Any, formatter: Any) -> None:
            from labeldp.losses import loss_examples

            for parameter in self.params:
                if LOSSES in (getattr(parameter, "help", None) or ""):
                    parameter.help = parameter.help.replace(LOSSES, ", ".join(loss_examples()))  # type: ignore[attr-defined]
            super().format_help(ctx, formatter)
            _print_panel(title, entries())

    return LazyHelp


def mechanisms() -> dict[str, str]:
    """All mechanisms, each with its line of help."""
    from labeldp.mechanisms import MECHANISMS

    return {entry.name: entry.help for entry in MECHANISMS}


def exact_mechanisms() -> dict[str, str]:
    """The mechanisms that can be released, each with its line of help."""
    from labeldp.mechanisms import MECHANISMS

    return {entry.name: entry.help for entry in MECHANISMS if entry.exact}


def models() -> dict[str, str]:
    """The learners, each with its line of help."""
    from labeldp.training.learners import learners

    return {entry.name: entry.help for entry in learners()}


def _print_panel(title: str, entries: dict[str, str]) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for name, explanation in entries.items():
        table.add_row(Text(name, style="bold cyan"), Text(explanation))
    Console().print(Panel(table, title=title, title_align="left", border_style="dim"))
