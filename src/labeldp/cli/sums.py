"""`labeldp sums`: the labels party's answer to a file of cells."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.budget import decimal_text
from labeldp.cli.console import line, phases, print_json, stoppable
from labeldp.cli.options import (
    Dataset,
    DecimalMark,
    Delimiter,
    IdType,
    Integers,
    Json,
    Label,
    LedgerFile,
    Lower,
    OutOfRangeLabels,
    OutputOption,
    Person,
    Quiet,
    SignKey,
    Upper,
    domain_of,
)
from labeldp.cli.run_summary import for_each, no_share, note_clipped, records_text
from labeldp.errors import InvalidInput
from labeldp.formatting import count_of

if TYPE_CHECKING:
    from labeldp.release.sums import SumsOutcome, SumsPlan

WIDTH = 10
"""The columns for the names of a plan, of which "histogram" is the longest."""


def sums(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="LABELS", help="Parquet (a file or a folder of parts), CSV or TSV (also .gz), Arrow IPC."
        ),
    ],
    label: Label,
    id_column: Annotated[str, typer.Option("--id", metavar="COL", help="The column of record ids in LABELS.")],
    cells: Annotated[
        Path, typer.Option("--cells", metavar="FILE", help="The cells.parquet that the features party sent.")
    ],
    epsilon: Annotated[str, typer.Option(metavar="E", help="What the whole answer costs, for instance 1 or 0.5.")],
    answer: Annotated[
        Path | None, OutputOption("--out", metavar="DIR", help="The answer: a folder that must not exist yet.")
    ] = None,
    id_type: IdType = None,
    person: Person = None,
    delimiter: Delimiter = None,
    decimal: DecimalMark = ".",
    matching: Annotated[
        bool,
        typer.Option(
            "--matching",
            help="Leave out records of the cells that have no label. The answer lists the ids that were summed.",
        ),
    ] = False,
    lower: Lower = None,
    upper: Upper = None,
    integers: Integers = None,
    out_of_range: OutOfRangeLabels = "clip",
    ledger: LedgerFile = None,
    dataset: Dataset = None,
    sign_key: SignKey = None,
    dry_run: Annotated[bool, OutputOption("--dry-run", help="Show the plan and stop. Reads no label.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
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
    from labeldp.engines.arrow.source import LabelSource, count_rows
    from labeldp.release.cells_file import CellsFile
    from labeldp.release.ledger import Ledger
    from labeldp.release.sums import SumsPlan, sums_for_cells

    amount = exact_epsilon(epsilon)
    domain = domain_of(lower, upper, None, integers)
    if dataset is not None and ledger is None:
        raise InvalidInput("--dataset names a dataset in a ledger: give --ledger too")
    if dry_run:
        sent = CellsFile.read(cells, id_type)
        _show_plan(SumsPlan(amount, sent.columns, sent.columns.records), sent.names, as_json=as_json)
        return
    if answer is None:
        raise InvalidInput("give --out DIR, the folder to write the answer to")
    labels = LabelSource(source, label, id_column, id_type, delimiter, decimal=decimal, person_column=person)
    sent = CellsFile.read(cells, id_type, count_rows(labels))
    budget = None if ledger is None else Ledger(ledger)
    with stoppable("If it was charged already, it stays so"), phases(quiet=quiet) as phase, no_share(quiet=quiet):
        outcome = sums_for_cells(
            labels,
            sent,
            answer,
            epsilon,
            domain,
            matching=matching,
            out_of_range=out_of_range,
            ledger=budget,
            dataset=dataset,
            sign_key=sign_key,
            phase=phase,
        )
    note_clipped(outcome.clipped, outcome.sums.records, out_of_range, quiet=quiet)
    if as_json:
        print_json(_record(outcome, answer))
    elif not quiet:
        _report(outcome, answer)
        if budget is not None and dataset is not None:
            line("ledger", f"{dataset} has ε = {decimal_text(budget.remaining(dataset))} left")
        line("next", "send the folder. The other side trains with:")
        verify = "" if sign_key is None else " --verify-key YOUR_PUBLIC_KEY"
        line("", f"labeldp train {quote(str(answer))} --features FILE --id COL --plan PLAN --out MODEL{verify}")


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


def _report(outcome: SumsOutcome, answer: Path) -> None:
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
