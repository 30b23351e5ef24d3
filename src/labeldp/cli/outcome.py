"""What the labels party's commands share: their common options, and how an outcome is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from labeldp.budget import decimal_text
from labeldp.cli.console import complain, note
from labeldp.errors import InvalidInput

OUTPUT = "Output"
Label = Annotated[str, typer.Option("--label", metavar="COL", help="The column of sensitive numbers.")]
Id = Annotated[
    str | None,
    typer.Option("--id", metavar="COL", help="The column of record ids, integers or text. Left out: the row number."),
]
IdType = Annotated[
    str | None,
    typer.Option("--id-type", metavar="int|str", help="Read the ids as this, where a text file leaves it open."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.", rich_help_panel=OUTPUT)]
Json = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.", rich_help_panel=OUTPUT)]


@contextmanager
def stoppable(advice: str) -> Iterator[None]:
    """Ctrl-C leaves no partial message either; say how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        complain(f"stopped. {advice}")
        raise typer.Exit(130) from None


def check_id_type(id_type: str | None) -> None:
    if id_type not in (None, "int", "str"):
        raise InvalidInput(f"--id-type must be int or str, got {id_type!r}")


def private_note(outcome: Any) -> None:
    if outcome.clipped:
        note(
            f"{outcome.clipped:,} labels lay outside the bounds and were moved to them. Keep this number to yourself: it is "
            "not part of what ε covers"
        )


def outcome_record(outcome: Any) -> dict[str, Any]:
    prior = outcome.mechanism.prior
    return {
        "message": str(outcome.message),
        "records": outcome.records,
        "already_held": outcome.already_held,
        "resumed": outcome.resumed,
        "epsilon": decimal_text(outcome.mechanism.epsilon_exact + (prior.epsilon_exact if prior is not None else 0)),
        "epsilon_prior": float(prior.epsilon_exact) if prior is not None else 0.0,
        "epsilon_labels": float(outcome.mechanism.epsilon_exact),
        "outputs": int(outcome.mechanism.outputs.size),
        "digest": outcome.mechanism.digest,
    }
