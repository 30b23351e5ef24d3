"""`labeldp cells`: the features party's question for one round of noisy sums."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from labeldp.cli.console import line, phases, print_json, stoppable
from labeldp.cli.options import Delimiter, IdType, Json, OutputOption, Quiet, comma_list
from labeldp.cli.train import ColumnsOption, Features
from labeldp.formatting import count_of

if TYPE_CHECKING:
    import pyarrow as pa

CELLS, PLAN = "cells.parquet", "plan.json"


def cells(
    features: Features,
    id_column: Annotated[str, typer.Option("--id", metavar="COL", help="The column of record ids, integers or text.")],
    epsilon: Annotated[str, typer.Option(metavar="E", help="What the labels party will spend, for instance 1 or 0.5.")],
    folder: Annotated[Path, OutputOption("--out", metavar="DIR", help="A folder that must not exist yet.")],
    categorical: Annotated[
        str | None, ColumnsOption(help="Read these as categories, regardless of their type.")
    ] = None,
    numeric: Annotated[str | None, ColumnsOption(help="Read these as numbers, regardless of their type.")] = None,
    exclude: Annotated[str | None, ColumnsOption(help="Leave these out: nothing about them is revealed.")] = None,
    id_type: IdType = None,
    delimiter: Delimiter = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Choose the sums of labels that tell most about these features, and write what to send for them.

    Send DIR/cells.parquet and nothing else. It holds the ids, and columns of −1 and +1 or of cell numbers.

    The labels party learns from it which records share a cell. It does not see the features themselves.

    Keep DIR/plan.json, which describes the columns: labeldp train needs it.

    \b
    Examples:
      labeldp cells clicks.parquet --id order --epsilon 1 --out cells
      labeldp cells clicks.csv --id order --epsilon 0.5 --out cells
          --categorical shop --exclude user
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.artifact.staging import publish, staging
    from labeldp.errors import InvalidInput
    from labeldp.learn.saved import check_new
    from labeldp.learn.sums.cells_to_send import cells_of_file
    from labeldp.release.cells_file import write_cells

    target = folder.absolute()
    check_new(target)
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder {target.parent} does not exist: make it first")
    with stoppable("Nothing was written"), phases(quiet=quiet or as_json) as phase, staging(target) as place:
        plan, table = cells_of_file(
            features,
            id_column,
            epsilon,
            categorical=comma_list(categorical),
            numeric=comma_list(numeric),
            exclude=comma_list(exclude),
            id_type=id_type,
            delimiter=delimiter,
            phase=phase,
        )
        made = place / "cells"
        made.mkdir()
        write_cells(table, made / CELLS)
        (made / PLAN).write_text(plan.to_json(), encoding="utf-8")
        publish(made, target)
    told, alone = plan.disclosed_features, _alone(table)
    if as_json:
        print_json(
            {
                "cells": str(folder / CELLS),
                "plan": str(folder / PLAN),
                "records": table.num_rows,
                "signs": len(plan.signs),
                "partitions": len(plan.whole),
                "features_told": list(told),
                "records_told_apart": alone,
            }
        )
    elif not quiet:
        line("send", f"{folder / CELLS}: {count_of(table.num_rows, 'record')}, {_columns(len(plan.signs), plan.whole)}")
        line("keep", f"{folder / PLAN}: the meaning of the columns")
        line("told", f"something about {count_of(len(told), 'feature')}: {', '.join(told):.300}")
        line(
            "",
            f"{count_of(alone, 'record')} of {table.num_rows:,} {'has' if alone == 1 else 'have'} a unique combination",
        )
        line("next", "send cells.parquet. The other side answers with:")
        amount = quote(epsilon)
        line(
            "",
            f"labeldp sums LABELS --label COL --id COL --cells cells.parquet --epsilon {amount} --lower A --upper B --out sums",
        )


def _columns(signs: int, whole: tuple[int, ...]) -> str:
    parts = [f"{count_of(signs, 'column')} of signs"] if signs else []
    parts += [f"{len(whole)} of cell numbers"] if whole else []
    return " and ".join(parts)


def _alone(table: pa.Table) -> int:
    """How many records have a combination of numbers that no other record has."""
    counts = table.drop_columns(table.schema.names[0]).group_by(table.schema.names[1:]).aggregate([([], "count_all")])
    return sum(1 for count in counts["count_all"].to_pylist() if count == 1)
