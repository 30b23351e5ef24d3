"""`labeldp sums`: the labels party's answer to a file of cells."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.console import line, print_json
from labeldp.cli.options import (
    CHARGED,
    Bounds,
    Charging,
    Label,
    LabelsArgument,
    OutputOption,
    Person,
    Shown,
    TextFiles,
    grouped,
)
from labeldp.cli.run_summary import for_each, note_clipped, records_text
from labeldp.errors import InvalidInput
from labeldp.formatting import count_of

if TYPE_CHECKING:
    from labeldp.release.sums import SumsOutcome, SumsPlan

WIDTH = 10
"""The width of the names of a plan; "histogram" is the longest."""


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
    note_clipped(outcome.clipped, outcome.sums.records, bounds.out_of_range, quiet=shown.quiet)
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
            line("unpaired", f"{count_of(count, noun)} {text} {'was' if count == 1 else 'were'} left out")
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
    line(
        "plan",
        f"for {count_of(columns.records, 'record')}; no label was read, nothing is written or charged",
        width=WIDTH,
    )
    line("histogram", f"{float(first):.4g} of ε for where the labels are", width=WIDTH)
    if columns.signs:
        line("signs", f"{float(part):.4g} of ε for {count_of(len(columns.signs), 'sum')} together", width=WIDTH)
    for place, size in zip(columns.whole, columns.sizes, strict=True):
        line("cells", f"{float(part):.4g} of ε for {count_of(size, 'sum')} over {names[place]!r:.60}", width=WIDTH)
    if columns.whole:
        line("in all", f"{count_of(sum(columns.sizes), 'sum')} over cells", width=WIDTH)
    if single := single_text(columns.single, sum(columns.sizes)):
        line("single", single, width=WIDTH)
