"""`labeldp apply`: a later batch for the same message."""

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli.console import line, print_json, stoppable
from labeldp.cli.options import IdType, Json, Label, Quiet
from labeldp.cli.outcome import note_clipped, outcome_record
from labeldp.cli.progress import phases


def apply(
    message: Annotated[Path, typer.Argument(metavar="MESSAGE", help="The message to add to.")],
    source: Annotated[
        Path, typer.Argument(metavar="NEW_FILE", help="The new records, in any format that privatize reads.")
    ],
    label: Label,
    key_file: Annotated[Path, typer.Option(metavar="F", help="The key file that privatize was given.")],
    id_column: Annotated[
        str | None,
        typer.Option("--id", metavar="COL", help="The column of record ids. By default named as in the message."),
    ] = None,
    id_type: IdType = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Add new records to a message, with the same mechanism and at no further cost.

    Records that the message holds already keep their private label, even if their label has changed since.

    Only a new release, charged anew, can show a changed label.

    \b
    Example:
      labeldp apply message tuesday.parquet --label amount --key-file sales.key
    """  # noqa: D301 - the escape keeps the line of the example
    from labeldp.engines.arrow.source import LabelSource
    from labeldp.message.reader import Message
    from labeldp.release.apply import apply as run

    ids = id_column if id_column is not None else Message.open(message).header.id_column
    with stoppable("Run the same command again to go on"), phases(quiet=quiet) as phase:
        outcome = run(message, LabelSource(source, label, ids, id_type), key_file=key_file, phase=phase)
    note_clipped(outcome)
    if as_json:
        print_json(outcome_record(outcome))
    elif not quiet:
        line("added", f"{outcome.records:,} new records to {outcome.message}")
        if outcome.already_held:
            line("kept", f"{outcome.already_held:,} records that were there already, with the private label they had")
        if outcome.records:
            line("next", "send the folder again")
