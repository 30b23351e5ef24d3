"""`labeldp privatize` and `labeldp apply`: the labels party's commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.console import err, note, out, print_json
from labeldp.cli.progress import phases
from labeldp.errors import InvalidInput

if TYPE_CHECKING:
    from labeldp.domain import Domain
    from labeldp.randomizer import LabelRandomizer

Input = Annotated[
    Path,
    typer.Argument(metavar="INPUT", help="Parquet (a file or a folder of parts), CSV or TSV (also .gz), Arrow IPC."),
]
Label = Annotated[str, typer.Option("--label", metavar="COL", help="The column of sensitive numbers.")]
Id = Annotated[
    str | None,
    typer.Option("--id", metavar="COL", help="The column of record ids, integers or text. Left out: the row number."),
]
IdType = Annotated[
    str | None,
    typer.Option("--id-type", metavar="int|str", help="Read the ids as this, where a text file leaves it open."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


def privatize(
    source: Input,
    label: Label,
    epsilon: Annotated[str, typer.Option(metavar="E", help="The privacy budget of each label, for instance 1 or 0.5.")],
    message: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The message: a folder that must not exist yet.")
    ] = None,
    id_column: Id = None,
    id_type: IdType = None,
    lower: Annotated[float | None, typer.Option(help="Public lower bound of the labels.")] = None,
    upper: Annotated[float | None, typer.Option(help="Public upper bound; labels beyond are moved to it.")] = None,
    cells: Annotated[
        int | None, typer.Option(help="Grid points from lower to upper for the private histogram.")
    ] = None,
    integers: Annotated[
        str | None, typer.Option(metavar="A:B", help="Whole-number labels from A to B, instead of bounds.")
    ] = None,
    loss: Annotated[
        str, typer.Option(help="squared, absolute, poisson, gamma, squared-log, pinball(q), huber(d).")
    ] = "squared",
    mechanism: Annotated[
        str, typer.Option(help="rr-on-bins, discrete-laplace, discrete-staircase, exponential …")
    ] = "rr-on-bins",
    prior: Annotated[
        Path | None, typer.Option(metavar="CSV", help="A public prior (columns value, mass): nothing is spent on one.")
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(metavar="F", help="Keep the key here, to resume or to add batches. As sensitive as the labels."),
    ] = None,
    ledger: Annotated[Path | None, typer.Option(metavar="DB", help="Charge this ledger.")] = None,
    dataset: Annotated[str | None, typer.Option(metavar="NAME", help="The dataset to charge in the ledger.")] = None,
    out_of_range: Annotated[
        str, typer.Option(metavar="clip|error", help="What to do with labels outside the bounds.")
    ] = "clip",
    keep_order: Annotated[
        bool, typer.Option("--keep-order", help="Keep the order of the input, which may reveal labels.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop. Reads no label.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Randomize a file of labels into one message that is safe to send.

    Give the public bounds with --lower and --upper (or --integers): they are never read off the labels.

    Examples:

      labeldp privatize sales.parquet --label amount --id order --epsilon 1 --lower 0 --upper 400 --out message

      labeldp privatize weeks.csv --label weeks --epsilon 0.5 --integers 0:52 --out message --dry-run

      labeldp privatize sales.parquet --label amount --id order --epsilon 1 --lower 0 --upper 400 --key-file sales.key
      --ledger ledger.db --dataset sales --out message
    """
    from labeldp.engines.source import LabelSource
    from labeldp.ledger import Ledger
    from labeldp.prior import Prior
    from labeldp.randomizer import LabelRandomizer
    from labeldp.release import privatize as run

    randomizer = LabelRandomizer(
        epsilon,
        _domain(lower, upper, cells, integers),
        loss,
        mechanism,
        None if prior is None else Prior.from_csv(prior),
        out_of_range,  # type: ignore[arg-type]
    )
    if id_type not in (None, "int", "str"):
        raise InvalidInput(f"--id-type must be int or str, got {id_type!r}")
    labels = LabelSource(source, label, id_column, id_type)
    if dry_run:
        _show_plan(labels, randomizer, as_json=as_json)
        return
    if message is None:
        raise InvalidInput("give --out DIR, the folder to write the message to")
    if dataset is not None and ledger is None:
        raise InvalidInput("--dataset names a dataset in a ledger: give --ledger too")
    if keep_order:
        note("--keep-order: if the rows are sorted by anything that follows the labels, their order reveals them.")
    with phases(quiet=quiet) as phase:
        outcome = run(
            labels,
            randomizer,
            message,
            ledger=None if ledger is None else Ledger(ledger),
            dataset=dataset,
            key_file=key_file,
            keep_order=keep_order,
            phase=phase,
        )
    if as_json:
        print_json(_outcome_record(outcome))
    elif not quiet:
        _report(outcome)


def apply(
    message: Annotated[Path, typer.Argument(metavar="MESSAGE", help="The message to add to.")],
    source: Annotated[
        Path, typer.Argument(metavar="NEW_FILE", help="The new records, in any format that privatize reads.")
    ],
    label: Label,
    key_file: Annotated[Path, typer.Option(metavar="F", help="The key file of the message.")],
    id_column: Id = None,
    id_type: IdType = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Add new records to a message, with the same mechanism and at no further cost.

    Records that the message holds already keep their private label, even if their label has changed since: only a new
    release, charged anew, can show a changed label.

    Example: labeldp apply message tuesday.parquet --label amount --id order --key-file sales.key
    """
    from labeldp.engines.source import LabelSource
    from labeldp.later_batch import apply as run

    with phases(quiet=quiet) as phase:
        outcome = run(message, LabelSource(source, label, id_column, id_type), key_file=key_file, phase=phase)
    if as_json:
        print_json(_outcome_record(outcome))
    elif not quiet:
        out.print(f"added    {outcome.records:,} new records to {outcome.message}")
        if outcome.already_held:
            out.print(f"kept     {outcome.already_held:,} records were there already and keep their private label")
        _private_note(outcome)


def _domain(lower: float | None, upper: float | None, cells: int | None, integers: str | None) -> Domain:
    from labeldp.domain import Domain

    if integers is not None:
        if lower is not None or upper is not None or cells is not None:
            raise InvalidInput("give either --integers A:B or --lower and --upper, not both")
        ends = integers.split(":")
        try:
            first, last = (int(end) for end in ends)
        except ValueError as error:
            raise InvalidInput(f"--integers takes two whole numbers as in 0:52, got {integers!r}") from error
        return Domain.integers(first, last)
    if lower is None or upper is None:
        raise InvalidInput(
            "give the public bounds of the labels: --lower A --upper B, or --integers A:B. They are yours to choose from what is "
            "publicly known; bounds read off the labels would reveal them"
        )
    return Domain(lower, upper, cells)


def _show_plan(source: Any, randomizer: LabelRandomizer, *, as_json: bool) -> None:
    """What would happen, from the number of rows and the settings alone."""
    from labeldp.domain import Domain
    from labeldp.engines.source import count_rows
    from labeldp.mechanisms import design
    from labeldp.prior import Prior

    rows = count_rows(source)
    grid, split = randomizer.plan(rows)
    assumed = randomizer.prior if randomizer.prior is not None else Prior.uniform(grid)
    left = randomizer.epsilon if split is None else split.labels
    expected = design(randomizer.mechanism, grid, left, prior=assumed, loss=randomizer.loss)
    loss = randomizer.loss
    plan = {
        "rows": rows,
        "cells": len(grid.grid),
        "lower": Domain.of(randomizer.domain).lower,
        "upper": Domain.of(randomizer.domain).upper,
        "mechanism": randomizer.mechanism,
        "loss": str(loss),
        "epsilon_prior": 0.0 if split is None else float(split.prior),
        "epsilon_labels": float(expected.epsilon_exact),
        "assumed_prior": "given" if randomizer.prior is not None else "flat",
        "expected_loss": expected.expected_loss(assumed, loss),
        "outputs": expected.outputs.tolist() if expected.outputs.size <= 100 else expected.outputs.size,
    }
    if as_json:
        print_json(plan)
        return
    out.print(f"plan for {rows:,} rows; no label was read, nothing is written or charged")
    out.print(f"cells    {plan['cells']:,} from {plan['lower']:g} to {plan['upper']:g}")
    out.print(
        f"ε₁       {plan['epsilon_prior']:.4g} for the private prior{'' if split else ' (nothing is spent on one)'}"
    )
    out.print(f"ε₂       {plan['epsilon_labels']:.4g} for the labels")
    flat = "the prior given" if randomizer.prior is not None else "a flat prior; the real one will be drawn privately"
    out.print(f"error    expected {loss} loss {plan['expected_loss']:,.6g} under {flat}")
    shown = plan["outputs"]
    values = ", ".join(f"{value:.4g}" for value in shown) if isinstance(shown, list) else f"{shown:,} values"
    out.print(f"outputs  {values}")


def _report(outcome: Any) -> None:
    mechanism = outcome.mechanism
    spent = mechanism.prior.epsilon_exact if mechanism.prior is not None else 0
    out.print(f"message  {outcome.message}{' (resumed: nothing was charged again)' if outcome.resumed else ''}")
    out.print(f"records  {outcome.records:,}")
    out.print(
        f"epsilon  {float(mechanism.epsilon_exact + spent):g} = {float(spent):.4g} prior + {float(mechanism.epsilon_exact):.4g} labels"
    )
    shown = mechanism.outputs
    out.print(f"outputs  {', '.join(f'{v:.4g}' for v in shown) if shown.size <= 20 else f'{shown.size:,} values'}")
    _private_note(outcome)
    out.print(
        f"next     send the folder; the other side runs: labeldp train {outcome.message} --features FILE --id COL --out MODEL"
    )


def _private_note(outcome: Any) -> None:
    if outcome.clipped:
        err.print(
            f"[yellow]note:[/yellow] {outcome.clipped:,} labels lay outside the bounds and were moved to them. Keep this number to yourself."
        )


def _outcome_record(outcome: Any) -> dict[str, Any]:
    prior = outcome.mechanism.prior
    return {
        "message": str(outcome.message),
        "records": outcome.records,
        "already_held": outcome.already_held,
        "resumed": outcome.resumed,
        "epsilon_prior": float(prior.epsilon_exact) if prior is not None else 0.0,
        "epsilon_labels": float(outcome.mechanism.epsilon_exact),
        "outputs": int(outcome.mechanism.outputs.size),
        "digest": outcome.mechanism.digest,
    }
