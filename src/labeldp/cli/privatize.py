"""`labeldp privatize`: a file of labels into one message."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.budget import decimal_text
from labeldp.cli.console import line, note, print_json
from labeldp.cli.lazy_help import LOSSES, MECHANISMS
from labeldp.cli.outcome import (
    OUTPUT,
    Id,
    IdType,
    Json,
    Label,
    Quiet,
    check_id_type,
    outcome_record,
    private_note,
    stoppable,
)
from labeldp.cli.progress import phases
from labeldp.errors import InvalidInput

if TYPE_CHECKING:
    from labeldp.domain import Domain
    from labeldp.randomizer import LabelRandomizer

BOUNDS, BUDGET, MECHANISM = "Public bounds", "Privacy budget", "Mechanism"

Input = Annotated[
    Path,
    typer.Argument(metavar="INPUT", help="Parquet (a file or a folder of parts), CSV or TSV (also .gz), Arrow IPC."),
]


def privatize(
    source: Input,
    label: Label,
    epsilon: Annotated[str, typer.Option(metavar="E", help="What each label may cost, for instance 1 or 0.5.")],
    message: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="The message: a folder that must not exist yet.", rich_help_panel=OUTPUT
        ),
    ] = None,
    id_column: Id = None,
    id_type: IdType = None,
    lower: Annotated[
        float | None, typer.Option(metavar="A", help="Lower bound of the labels.", rich_help_panel=BOUNDS)
    ] = None,
    upper: Annotated[
        float | None, typer.Option(metavar="B", help="Upper bound of the labels.", rich_help_panel=BOUNDS)
    ] = None,
    cells: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="Grid points from A to B for the private histogram. Left out: as many as the records carry.",
            rich_help_panel=BOUNDS,
        ),
    ] = None,
    integers: Annotated[
        str | None,
        typer.Option(metavar="A:B", help="Whole numbers from A to B, instead of the above.", rich_help_panel=BOUNDS),
    ] = None,
    out_of_range: Annotated[
        str,
        typer.Option(
            metavar="clip|error", help="Move labels beyond the bounds to them, or refuse.", rich_help_panel=BOUNDS
        ),
    ] = "clip",
    loss: Annotated[
        str,
        typer.Option(metavar="LOSS", help=f"What the mechanism keeps small: {LOSSES}.", rich_help_panel=MECHANISM),
    ] = "squared",
    mechanism: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Instead of --for. {MECHANISMS}.",
            rich_help_panel=MECHANISM,
        ),
    ] = None,
    purpose: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="labels|training",
            help="training chooses the mechanism whose labels train the best model (auto); labels, the one whose labels "
            "are nearest to the truth (rr-on-bins).",
            rich_help_panel=MECHANISM,
        ),
    ] = "labels",
    prior: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="A public prior (columns value, mass): nothing is spent on a private one.",
            rich_help_panel=MECHANISM,
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="F",
            help="Keep the key here, made if need be, to resume a run or add batches. As sensitive as the labels.",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="DB", help="Charge this ledger (labeldp ledger create).", rich_help_panel=BUDGET),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="The dataset to charge in it.", rich_help_panel=BUDGET)
    ] = None,
    keep_order: Annotated[
        bool,
        typer.Option(
            "--keep-order", help="Keep the order of the input, which may reveal labels.", rich_help_panel=OUTPUT
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and stop. Reads no label.", rich_help_panel=OUTPUT)
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Randomize a file of labels into one message that is safe to send.

    Give the public bounds with --lower and --upper, or with --integers: they are never read off the labels.

    With --key-file, a run that was killed goes on with the same command, at no further cost.

    \b
    Examples:
      labeldp privatize sales.parquet --label amount --id order
          --epsilon 1 --lower 0 --upper 400 --for training --out message
      labeldp privatize weeks.csv --label weeks --id person
          --epsilon 0.5 --integers 0:52 --out message --dry-run
      labeldp privatize sales.parquet --label amount --id order
          --epsilon 1 --lower 0 --upper 400 --out message
          --key-file sales.key --ledger ledger.db --dataset sales
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.engines.arrow.source import LabelSource
    from labeldp.losses import get_loss
    from labeldp.priors import Prior
    from labeldp.randomizer import LabelRandomizer
    from labeldp.release.ledger import Ledger
    from labeldp.release.privatize import privatize as run

    randomizer = LabelRandomizer(
        epsilon,
        _domain(lower, upper, cells, integers),
        loss,
        _mechanism(mechanism, purpose),
        None if prior is None else Prior.from_csv(prior),
        out_of_range,  # type: ignore[arg-type]
    )
    get_loss(loss)  # an unknown one shows now, not after the labels were read
    if out_of_range not in ("clip", "error"):
        raise InvalidInput(f"--out-of-range must be clip or error, got {out_of_range!r}")
    check_id_type(id_type)
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
    budget = None if ledger is None else Ledger(ledger)
    resumable = "Run the same command again to go on; what was charged is not charged again"
    lost = "If it was charged already, it stays so: without --key-file a run cannot be resumed"
    with stoppable(resumable if key_file is not None else lost), phases(quiet=quiet) as phase:
        outcome = run(
            labels,
            randomizer,
            message,
            ledger=budget,
            dataset=dataset,
            key_file=key_file,
            keep_order=keep_order,
            phase=phase,
        )
    private_note(outcome)
    if as_json:
        print_json(outcome_record(outcome))
    elif not quiet:
        _report(outcome)
        if budget is not None and dataset is not None:
            line("ledger", f"{dataset} has ε = {decimal_text(budget.remaining(dataset))} left")
        if key_file is not None:
            line("key", f"{key_file} can undo the noise: guard it like the labels, and keep one copy only")
        line("next", "send the folder. The other side trains with:")
        line("", f"labeldp train {message} --features FILE --id {labels.id_name} --out MODEL")


def _mechanism(name: str | None, purpose: str) -> str:
    if purpose not in ("labels", "training"):
        raise InvalidInput(f"--for must be labels or training, got {purpose!r}")
    if purpose == "training" and name not in (None, "auto"):
        raise InvalidInput(
            f"--for training chooses the mechanism itself: leave out --mechanism {name}, or leave out --for"
        )
    return name or ("auto" if purpose == "training" else "rr-on-bins")


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
    from labeldp.engines.arrow.source import count_rows
    from labeldp.mechanisms import Request, design
    from labeldp.priors import Prior

    rows = count_rows(source)
    grid, split = randomizer.plan(rows)
    if split is not None:
        split.warn()
    assumed = randomizer.prior if randomizer.prior is not None else Prior.uniform(grid)
    left = randomizer.epsilon if split is None else split.epsilon_labels
    expected = design(randomizer.mechanism, Request(grid, left, randomizer.loss, assumed, rows))
    loss = randomizer.loss
    plan = {
        "rows": rows,
        "cells": len(grid.grid),
        "lower": Domain.of(randomizer.domain).lower,
        "upper": Domain.of(randomizer.domain).upper,
        "mechanism": randomizer.mechanism,
        "loss": str(loss),
        "epsilon_prior": 0.0 if split is None else float(split.epsilon_prior),
        "epsilon_labels": float(expected.epsilon_exact),
        "assumed_prior": "given" if randomizer.prior is not None else "flat",
        "expected_loss": expected.expected_loss(assumed, loss),
        "outputs": expected.outputs.tolist() if expected.outputs.size <= 100 else expected.outputs.size,
    }
    if as_json:
        print_json(plan)
        return
    line("plan", f"for {rows:,} rows; no label was read, nothing is written or charged")
    line("cells", f"{plan['cells']:,} from {plan['lower']:g} to {plan['upper']:g}")
    line(
        "ε₁",
        f"{plan['epsilon_prior']:.4g} for {'a private prior' if split else 'the prior: it is public, or not needed'}",
    )
    line("ε₂", f"{plan['epsilon_labels']:.4g} for the labels")
    flat = "the prior given" if randomizer.prior is not None else "a flat prior; the real one will be drawn privately"
    line("error", f"expected {loss} loss {plan['expected_loss']:,.6g} under {flat}")
    line("outputs", _values(expected.outputs))


def _report(outcome: Any) -> None:
    mechanism = outcome.mechanism
    spent = mechanism.prior.epsilon_exact if mechanism.prior is not None else 0
    line(
        "message",
        f"{outcome.message}{' (the same release as before: nothing was charged again)' if outcome.resumed else ''}",
    )
    line("records", f"{outcome.records:,}")
    line(
        "epsilon",
        f"{float(mechanism.epsilon_exact + spent):g} = {float(spent):.4g} prior + {float(mechanism.epsilon_exact):.4g} labels",
    )
    line("outputs", _values(mechanism.outputs))


def _values(outputs: Any) -> str:
    return ", ".join(f"{value:.4g}" for value in outputs) if outputs.size <= 20 else f"{outputs.size:,} values"
