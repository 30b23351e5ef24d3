"""The command line, one file per command. Commands parse their options, call the library and print the result.

Exit codes: 0 done; 2 bad usage or bad input; 3 the ledger refuses; 1 anything else.
"""

import atexit
import gc
import sys
import warnings
from collections.abc import Callable
from typing import Annotated

import typer

from labeldp.cli.advise import advise
from labeldp.cli.audit import audit
from labeldp.cli.compare import compare, explore
from labeldp.cli.console import complain, degrade_output, show_warning
from labeldp.cli.demo import demo, reproduce, sample_data
from labeldp.cli.ledger import app as ledger
from labeldp.cli.ledger import signing_keys
from labeldp.cli.options import exact_mechanisms, help_with, mechanisms, models
from labeldp.cli.privatize import apply, privatize
from labeldp.cli.score import report, score
from labeldp.cli.sums import cells, sums
from labeldp.cli.train import evaluate, predict, train
from labeldp.errors import LabelDPError

app = typer.Typer(
    name="labeldp",
    help="Train models of numbers and of classes when the labels are private.",
    epilog="Try [bold]labeldp demo[/bold] first: it runs every step on generated data.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "The labels party": (privatize, apply, sums, score, report, signing_keys),
    "The features party": (train, predict, evaluate, cells, audit),
    "Choose and compare": (advise, compare, explore),
    "Try it": (demo, sample_data, reproduce),
}
"""The commands in the panels of the help."""
LISTED = {
    privatize: help_with("Mechanisms", exact_mechanisms),
    train: help_with("Models", models),
    compare: help_with("Mechanisms", mechanisms),
}
app.add_typer(ledger, name="ledger", rich_help_panel=next(iter(COMMANDS)))
for _panel, _commands in COMMANDS.items():
    for _command in _commands:
        _name = _command.__name__.replace("_", "-")
        app.command(_name, rich_help_panel=_panel, cls=LISTED.get(_command))(_command)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version as installed

        typer.echo(f"labeldp {installed('labeldp')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Run the `labeldp` script. Errors go to standard error, and each kind has its exit code."""
    _spare_garbage_collection()
    warnings.showwarning = show_warning
    degrade_output()
    try:
        app()
    except LabelDPError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except (MemoryError, RecursionError) as error:  # NumPy and Arrow raise subclasses
        complain(_out_of_memory(error))
        sys.exit(1)
    except OSError as error:
        complain(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        sys.exit(1)
    except KeyboardInterrupt:
        complain("stopped")
        sys.exit(130)


def _spare_garbage_collection() -> None:
    """Imports make a million objects that stay. Python would search them for garbage again and again, and once more at the end."""
    gc.set_threshold(100_000, 50, 100)
    atexit.register(gc.freeze)


def _out_of_memory(error: MemoryError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "something in the input is nested too deeply to be read: check the files that were given"
    return (
        "there is not enough memory for this. Use a machine, or a limit (ulimit -v), with more memory, or ask for less: fewer cells "
        "(--cells), or fewer records at a time"
    )


__all__ = ["app", "main"]
