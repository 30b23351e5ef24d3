"""`labeldp sums`: the labels party's answer to a file of cells. `labeldp cells`: the features party's question."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.console import line, phases, print_json, stoppable
from labeldp.cli.options import (
    CHARGED,
    Bounds,
    Charging,
    Delimiter,
    IdType,
    Json,
    Label,
    LabelsArgument,
    OutputOption,
    Person,
    Quiet,
    Shown,
    TextFiles,
    comma_list,
    for_each,
    grouped,
    records_text,
    was_or_were,
)
from labeldp.cli.train import ColumnsOption, Features
from labeldp.errors import InvalidInput
from labeldp.formatting import count_of

if TYPE_CHECKING:
    from labeldp.release.sums import SumsOutcome, SumsPlan


@grouped
def sums(
    source: LabelsArgument,
    label: Label,
    id_column: Annotated[str, typer.Option("--id", metavar="COL", help="The column of record ids in LABELS.")],
    cells: Annotated[
        Path, typer.Option("--cells", metavar="FILE", help="The cells.parquet that the features party sent.")
    ],
    epsilon: Annotated[str, typer.Option(metavar="E", help="What the whole answer costs, for instance 1 or 0.5.")],
    answer: Annotated[
        Path | None, OutputOption("--out", metavar="DIR", help="The answer: a folder that must not exist yet.")
    ] = None,
    person: Person = None,
    matching: Annotated[
        bool,
        typer.Option(
            "--matching",
            help="Leave out records of the cells without a label. The answer lists the ids that were summed.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, OutputOption("--dry-run", help="Show the plan and stop, without reading the labels.")
    ] = False,
    *,
    text: TextFiles,
    bounds: Bounds,
    charging: Charging,
    shown: Shown,
) -> None:
    """Answer a file of cells with noisy sums of the labels, which are safe to send.

    The features party sent numbers for each id: −1 or +1, or a cell. You see these numbers and not its features.

    All sums together cost ε, for any columns that were made without your labels.

    A second run draws fresh noise and costs ε again.

    \b
    Examples:
      labeldp sums sales.parquet --label amount --id order
          --cells cells.parquet --epsilon 1 --lower 0 --upper 400
          --ledger ledger.db --dataset sales --out sums
      labeldp sums orders.parquet --label amount --id order
          --person customer --cells cells.parquet --epsilon 1
          --lower 0 --upper 400 --out sums
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.budget import exact_epsilon
    from labeldp.engines.arrow.source import count_rows
    from labeldp.release.cells_file import CellsFile
    from labeldp.release.sums import SumsPlan, sums_for_cells

    amount = exact_epsilon(epsilon)
    domain, charged = bounds.domain(), charging.arguments
    if dry_run:
        sent = CellsFile.read(cells, text.id_type)
        _show_plan(SumsPlan(amount, sent.columns, sent.columns.records), sent.names, as_json=shown.as_json)
        return
    if answer is None:
        raise InvalidInput("give --out DIR, the folder to write the answer to")
    labels = text.source(source, label, id_column, person)
    sent = CellsFile.read(cells, text.id_type, count_rows(labels))
    with shown.running(CHARGED) as phase:
        outcome = sums_for_cells(
            labels,
            sent,
            answer,
            epsilon,
            domain,
            matching=matching,
            out_of_range=bounds.out_of_range,
            phase=phase,
            **charged,
        )
    shown.note_clipped(outcome.clipped, outcome.sums.records, bounds.out_of_range)
    if shown.as_json:
        print_json(_record(outcome, answer))
    elif not shown.quiet:
        _show(outcome, answer)
        charging.tell()
        line("next", "send the folder. The other side trains with:")
        command = f"labeldp train {quote(str(answer))} --features FILE --id COL --plan PLAN --out MODEL"
        line("", command + charging.verify_option())


def _record(outcome: SumsOutcome, answer: Path) -> dict[str, Any]:
    from labeldp.release.label_range import clip_text
    from labeldp.release.private_sums import cells_in

    return {
        "answer": str(answer),
        "clip": clip_text(outcome.sums) or None,
        "records": outcome.sums.records,
        "persons": None if outcome.sums.weighting is None else outcome.sums.size,
        "without_label": outcome.without_label,
        "without_cells": outcome.without_cells,
        "cells_of_one_record": cells_in(outcome.sums.answers)[0],
        "epsilon": outcome.sums.epsilon_exact,
        "sums": [{"kind": one.kind, "numbers": int(one.values.size)} for one in outcome.sums.answers],
    }


def _show(outcome: SumsOutcome, answer: Path) -> None:
    from labeldp.release.label_range import clip_text
    from labeldp.release.private_sums import cells_in, single_text

    line("answer", f"{answer}")
    persons = None if outcome.sums.weighting is None else outcome.sums.size
    line("records", records_text(outcome.sums.records, persons))
    if clip := clip_text(outcome.sums):
        line("clip", clip)
    for count, noun, text in (
        (outcome.without_label, "record", "of the cells had no label and"),
        (outcome.without_cells, "label", "had no cells and"),
    ):
        if count:
            line("unpaired", f"{count_of(count, noun)} {text} {was_or_were(count)} left out")
    if single := single_text(*cells_in(outcome.sums.answers), persons=persons is not None):
        line("single", single)
    costs = " + ".join(f"{float(one.epsilon_exact):.4g} {one.kind}" for one in outcome.sums.answers)
    line("epsilon", f"{float(outcome.sums.epsilon_exact):g} = {costs}{',' if persons else ''}{for_each(persons)}")


def _show_plan(plan: SumsPlan, names: tuple[str, ...], *, as_json: bool) -> None:
    from labeldp.release.private_sums import single_text

    columns, first, part = plan.columns, plan.epsilon_histogram, plan.epsilon_each
    if as_json:
        print_json(
            {
                "records": columns.records,
                "signs": len(columns.signs),
                "cells": list(columns.sizes),
                "cells_in_all": sum(columns.sizes),
                "cells_of_one_record": columns.single,
                "epsilon_histogram": float(first),
                "epsilon_each": float(part),
            }
        )
        return
    tell = partial(line, width=len("histogram") + 1)
    tell("plan", f"for {count_of(columns.records, 'record')}; no label was read, nothing is written or charged")
    tell("histogram", f"{float(first):.4g} of ε for where the labels are")
    if columns.signs:
        tell("signs", f"{float(part):.4g} of ε for {count_of(len(columns.signs), 'sum')} together")
    for place, size in zip(columns.whole, columns.sizes, strict=True):
        tell("cells", f"{float(part):.4g} of ε for {count_of(size, 'sum')} over {names[place]!r:.60}")
    if columns.whole:
        tell("in all", f"{count_of(sum(columns.sizes), 'sum')} over cells")
    if single := single_text(columns.single, sum(columns.sizes)):
        tell("single", single)


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
    from labeldp.learn.saved import check_new
    from labeldp.learn.sums.cells_to_send import cells_of_file
    from labeldp.release.cells_file import write_cells

    target = folder.absolute()
    check_new(target)
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
    names = table.schema.names[1:]
    counts = table.select(names).group_by(names).aggregate([([], "count_all")])["count_all"].to_pylist()
    told, alone = plan.disclosed_features, counts.count(1)
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
        columns = [f"{count_of(len(plan.signs), 'column')} of signs"] if plan.signs else []
        columns += [f"{len(plan.whole)} of cell numbers"] if plan.whole else []
        line("send", f"{folder / CELLS}: {count_of(table.num_rows, 'record')}, {' and '.join(columns)}")
        line("keep", f"{folder / PLAN}: the meaning of the columns")
        line("told", f"something about {count_of(len(told), 'feature')}: {', '.join(told):.300}")
        have = "has" if alone == 1 else "have"
        line("", f"{count_of(alone, 'record')} of {table.num_rows:,} {have} a unique combination")
        line("next", "send cells.parquet. The other side answers with:")
        command = "labeldp sums LABELS --label COL --id COL --cells cells.parquet"
        line("", f"{command} --epsilon {quote(epsilon)} --lower A --upper B --out sums")
