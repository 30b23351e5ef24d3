"""Help and completion that name what the catalogues have. They are read when they are needed, so that commands start fast."""

from collections.abc import Callable, Iterable
from typing import Any

from rich.markup import escape
from typer.core import TyperCommand

LOSSES = "{losses}"
"""In the help of an option: represents the names of the losses."""


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
    from labeldp.learn.learners import learners

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


Offers = list[tuple[str, str]]
"""Values, each with its line of help, which some shells show."""


def mechanism_offers(incomplete: str) -> Offers:
    """The mechanisms that can be released."""
    return _beginning(exact_mechanisms().items(), incomplete)


def several_mechanism_offers(incomplete: str) -> Offers:
    """All mechanisms, for a list with commas: the last name is completed."""
    before, comma, last = incomplete.rpartition(",")
    return [(before + comma + name, text) for name, text in _beginning(mechanisms().items(), last)]


def model_offers(incomplete: str) -> Offers:
    """The learners."""
    return _beginning(models().items(), incomplete)


def loss_offers(incomplete: str) -> Offers:
    """The losses; those with a number are shown with an example of it."""
    from labeldp.losses import loss_examples

    return _beginning(((name, "") for name in loss_examples()), incomplete)


def _beginning(values: Iterable[tuple[str, str]], incomplete: str) -> Offers:
    return [(value, escape(text)) for value, text in values if value.startswith(incomplete)]  # typer reads markup
