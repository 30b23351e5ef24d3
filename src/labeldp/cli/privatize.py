"""`labeldp privatize`: a file of labels into one message; and `labeldp apply`: a later batch for it."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from labeldp.budget import decimal_text, exact_epsilon
from labeldp.cli.console import line, note, phases, print_json
from labeldp.cli.options import (
    LOSSES,
    OUT_OF_RANGE,
    BoundsOption,
    BoundsOrClasses,
    BudgetOption,
    Charging,
    EngineOptions,
    Labels,
    OutOfRange,
    OutputOption,
    Shown,
    SignKey,
    TextFiles,
    exact_mechanisms,
    grouped,
    losses,
    offers,
)
from labeldp.errors import InvalidInput
from labeldp.formatting import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from labeldp.arrays import Floats
    from labeldp.domain import Domain
    from labeldp.release.labels import ReleaseOutcome

MechanismOption = partial(typer.Option, rich_help_panel="Mechanism")


@grouped
def privatize(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="Parquet (a file or a folder of parts), CSV or TSV (also .gz), Arrow IPC; for Spark also ORC and URIs.",
        ),
    ],
    label: Annotated[
        list[str],
        typer.Option(
            "--label",
            metavar="COL",
            help="The column of sensitive numbers. Repeat it for several labels of the same persons.",
        ),
    ],
    epsilon: Annotated[
        str, typer.Option(metavar="E", help="What each label, or each person, may cost, for instance 1 or 0.5.")
    ],
    message: Annotated[
        Path | None, OutputOption("--out", metavar="DIR", help="The message: a folder that must not exist yet.")
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COL",
            help="The column of record ids, integers or text. By default row numbers, which show the order of the input.",
        ),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="The column with the person of each row. Then ε is for all labels of a person together, and a few rows of each "
            "person are chosen for the message.",
        ),
    ] = None,
    cells: Annotated[
        str | None,
        BoundsOption(
            metavar="K",
            help="Grid points from A to B for the private histogram. By default it follows from the number of records and ε.",
        ),
    ] = None,
    own_bounds: Annotated[
        list[str] | None,
        BoundsOption(
            "--bounds",
            metavar="COL=A:B",
            help="With several labels: the bounds of one of them. Repeat it for others.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="COL=N,…",
            help="With several labels: how often each is chosen, in proportion, as in amount=2,days=1.",
        ),
    ] = None,
    loss: Annotated[
        str,
        MechanismOption(
            metavar="LOSS", help=f"The loss that the mechanism minimises: {LOSSES}.", autocompletion=offers(losses)
        ),
    ] = "squared",
    mechanism: Annotated[
        str | None,
        MechanismOption(
            metavar="NAME",
            help="Instead of --for: one of the mechanisms listed below.",
            autocompletion=offers(exact_mechanisms),
        ),
    ] = None,
    purpose: Annotated[
        Literal["training", "labels"] | None,
        MechanismOption(
            "--for",
            help="training makes the model trained on the private labels good (auto); labels keeps the labels themselves "
            "close to the truth, as in the paper (rr-on-bins).",
            show_default="training",
        ),
    ] = None,
    prior: Annotated[
        Path | None,
        MechanismOption(
            metavar="CSV", help="A public prior (columns value, mass). Then no part of ε is spent on a private one."
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        BudgetOption(
            metavar="F",
            help="Keep the key in this file, to resume a run or add batches. It is as sensitive as the labels.",
        ),
    ] = None,
    keep_order: Annotated[
        bool, OutputOption("--keep-order", help="Keep the order of the input, which may reveal labels.")
    ] = False,
    dry_run: Annotated[
        bool, OutputOption("--dry-run", help="Show the plan and stop, without reading the labels.")
    ] = False,
    *,
    text: TextFiles,
    bounds: BoundsOrClasses,
    charging: Charging,
    reader: EngineOptions,
    shown: Shown,
) -> None:
    """Randomize a file of labels into one message that is safe to send.

    Give the public bounds with --lower and --upper, or with --integers, or name --classes: they are never read off the labels.

    With --key-file, a run that was killed continues if you repeat the same command, at no further cost.

    \b
    Examples:
      labeldp privatize sales.parquet --label amount --id order
          --epsilon 1 --lower 0 --upper 400 --out message
      labeldp privatize weeks.csv --label weeks --id person
          --epsilon 0.5 --integers 0:52 --out message --dry-run
      labeldp privatize visits.csv --label bought --id visit
          --epsilon 1 --classes no,yes --out message
      labeldp privatize sales.parquet --label amount --id order
          --epsilon 1 --lower 0 --upper 400 --out message
          --key-file sales.key --ledger ledger.db --dataset sales
      labeldp privatize hdfs:///sales --label amount --id order
          --epsilon 1 --lower 0 --upper 400 --out message
          --engine spark --conf spark.master=yarn
          --conf spark.labeldp.scratch=hdfs:///tmp
      labeldp privatize orders.parquet --label amount --id order
          --person customer --epsilon 1 --lower 0 --upper 400 --out message
      labeldp privatize orders.parquet --label amount --label days
          --id order --person customer --epsilon 1 --bounds amount=0:400
          --bounds days=0:60 --out messages --key-file orders.key
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.priors import Prior
    from labeldp.release.labels import expected_figures
    from labeldp.release.labels import privatize as release_labels
    from labeldp.release.randomizer import LabelRandomizer

    domains = _domains(label, own_bounds or (), bounds, cells, weights)
    known = None if prior is None else Prior.from_csv(prior)
    randomizers = {
        name: LabelRandomizer(epsilon, domain, loss, _mechanism(mechanism, purpose), known, bounds.out_of_range)
        for name, domain in domains.items()
    }
    randomizer = randomizers[label[0]]
    labels = Labels(source, label[0], id_column, text, person, classes=bounds.classes is not None)
    reader.check(labels, keep_order=keep_order)
    several = len(randomizers) > 1
    if several:
        reader.check_arrow("several labels are not possible with --engine spark yet")
        if dry_run or keep_order:
            raise InvalidInput("--dry-run and --keep-order are for one label: leave out the others")
        if message is not None and key_file is None:
            raise InvalidInput("several labels share the persons by a key: give --key-file F, which keeps it")
    charged = charging.arguments
    if dry_run:
        with phases(quiet=shown.quiet) as phase:
            plan = randomizer.plan(*reader.count(labels, phase))
        plan.warn()
        _show_plan(expected_figures(plan), as_json=shown.as_json)
        return
    if message is None:
        raise InvalidInput("give --out DIR, the folder to write the message to")
    if key_file is None and message.exists():  # before Spark takes its seconds to start
        raise InvalidInput(f"{message} exists and is not overwritten: choose another --out")
    _note_order(id_column, keep_order=keep_order)
    resumable = "Run the same command again to go on; what was charged is not charged again"
    lost = "If it was charged already, it stays so: without --key-file a run cannot be resumed"
    advice = resumable if key_file is not None else lost
    with shown.running(advice) as phase:
        if several:
            from labeldp.release.several import privatize_several

            outcomes = privatize_several(
                labels.file(),
                randomizers,
                message,
                key_file=key_file,  # type: ignore[arg-type] # checked before
                weights=_weights(weights),
                phase=phase,
                **charged,
            )
        else:
            with reader.reads(labels, phase) as found:
                outcome = release_labels(
                    found, randomizer, message, key_file=key_file, keep_order=keep_order, phase=phase, **charged
                )
            outcomes = {label[0]: outcome}
    tell_outcomes(outcomes, _show_message, bounds.out_of_range, shown, several=several)
    if shown.quiet or shown.as_json:
        return
    if several:
        line("in all", f"ε = {decimal_text(exact_epsilon(epsilon))} for all labels of a person, charged once")
    charging.tell()
    if not several:
        if key_file is not None:
            line("key", f"{key_file} can undo the noise: guard it like the labels, and keep one copy only")
        line("next", "send the folder. The other side trains with:")
        command = f"labeldp train {quote(str(message))} --features FILE --id {quote(found.id_name)} --out MODEL"
        line("", command + charging.verify_option())


def _domains(
    labels: list[str], bounds: Sequence[str], common: BoundsOrClasses, cells: str | None, weights: str | None
) -> dict[str, Domain]:
    """Return the domain of each label: its --bounds, or else the common ones."""
    from labeldp.domain import Domain
    from labeldp.formatting import plain_number

    if len(set(labels)) < len(labels):
        raise InvalidInput("a label column was given twice: name each --label once")
    if len(labels) == 1 and (bounds or weights is not None):
        raise InvalidInput(
            "--bounds and --weights are for several labels: give --lower and --upper, or a second --label"
        )
    own: dict[str, Domain] = {}
    for text in bounds:
        name, sign, ends = text.rpartition("=")
        if not sign or ends.count(":") != 1 or name not in labels:
            raise InvalidInput(
                f"--bounds takes one of the labels and its bounds, as in {labels[0]}=0:400, got {text!r:.80}"
            )
        first, last = (plain_number(end, "each bound") for end in ends.split(":"))
        own[name] = Domain(first, last, unit=common.unit)
    missing = [name for name in labels if name not in own]
    given = any(each is not None for each in (common.lower, common.upper, common.integers, common.classes, cells))
    if own and missing and not given:
        raise InvalidInput(f"the label {missing[0]!r} has no bounds: give --bounds {missing[0]}=A:B")
    if given and not missing:
        raise InvalidInput(
            "every label has its own --bounds: leave out --lower, --upper, --cells, --integers and --classes"
        )
    return {name: own[name] if name in own else common.domain(cells) for name in labels}


def _weights(text: str | None) -> dict[str, int]:
    from labeldp.formatting import whole_number

    found: dict[str, int] = {}
    for part in [] if text is None else text.split(","):
        name, sign, weight = part.strip().rpartition("=")
        if not sign or name in found:
            raise InvalidInput(
                f"--weights takes each label once with a whole number, as in amount=2,days=1, got {text!r:.80}"
            )
        found[name] = whole_number(weight, f"the weight of {name!r}")
    return found


def _mechanism(name: str | None, purpose: str | None) -> str:
    meant = "rr-on-bins" if purpose == "labels" else "auto"
    if purpose is not None and name not in (None, meant):
        raise InvalidInput(
            f"--for {purpose} chooses the mechanism itself, {meant}: leave out --mechanism {name}, or leave out --for"
        )
    return name or meant


def _show_plan(plan: dict[str, Any], *, as_json: bool) -> None:
    outputs, spent = plan["outputs"], plan["epsilon_prior"]
    if as_json:
        print_json(plan | {"outputs": outputs.tolist() if outputs.size <= 100 else outputs.size})
        return
    line("plan", f"for {plan['rows']:,} rows; no label was read, nothing is written or charged")
    if plan["entries"] > 1:
        line(
            "",
            f"of each person up to {plan['entries']} rows; the figures are for one row, and a person costs {plan['entries']} times as much",
        )
    if plan["classes"]:
        line("classes", ", ".join(plan["classes"]))
        line("ε", f"{plan['epsilon_labels']:.4g} for the labels; no prior is needed")
        kept = 1 / (1 + (len(plan["classes"]) - 1) * math.exp(-plan["epsilon_labels"]))
        line("kept", f"{kept:.1%} of the labels keep their class, the others get another one at random")
        return
    unit = "" if plan["unit"] is None else f" {plan['unit']}"
    line("cells", f"{plan['cells']:,} from {plan['lower']:g} to {plan['upper']:g}{unit}")
    line("ε₁", f"{spent:.4g} for {'a private prior' if spent else 'the prior: none is drawn'}")
    line("ε₂", f"{plan['epsilon_labels']:.4g} for the labels")
    later = "; the real one will be drawn privately" if spent else ""
    prior = "the prior given" if plan["assumed_prior"] == "given" else f"a flat prior{later}"
    loss = f"{plan['expected_loss']:,.6g}" if math.isfinite(plan["expected_loss"]) else "infinite"
    line("error", f"expected {plan['loss']} loss of a label {loss} under {prior}")
    if plan["model_error"] is not None:
        line(
            "",
            f"and of a model trained on them {plan['model_error']:,.6g}, if features explain {plan['explained']:g} of the labels' variance",
        )
    elif plan["loss"] != "squared":
        line("", "(a model averages the noise of single labels: labeldp train estimates its own loss)")
    line("outputs", _values(outputs))


def _note_order(id_column: str | None, *, keep_order: bool) -> None:
    """Tell the labels party if the message will show the order of the input, which may follow the labels."""
    reveals = "if the rows are sorted by anything that follows the labels, their order reveals them."
    if keep_order:
        note(f"--keep-order: {reveals}")
    elif id_column is None:
        note(f"without --id a record's id is its row number, so the message shows the order of the input: {reveals}")


def _show_message(outcome: ReleaseOutcome) -> None:
    record = outcome_record(outcome)
    again = " (the same release as before: nothing was charged again)" if outcome.resumed else ""
    line("message", f"{outcome.message}{again}")
    later = outcome.message_records - outcome.records
    line("records", f"{outcome.message_records:,}{f', {later:,} of them from later batches' if later else ''}")
    note_left_out(outcome)
    parts = f"{record['epsilon_prior']:.4g} prior + {record['epsilon_labels']:.4g} labels"
    line(
        "epsilon", f"{float(record['epsilon']):g} = {parts}{', for each person' if record['unit'] == 'person' else ''}"
    )
    domain = outcome.mechanism.domain
    if domain is not None and domain.classes is not None:
        line("classes", ", ".join(domain.classes))
        return
    unit = "" if domain is None or domain.unit is None else f" {domain.unit}"
    line("outputs", f"{_values(outcome.mechanism.outputs)}{unit}")


def _values(outputs: Floats) -> str:
    return ", ".join(f"{value:.4g}" for value in outputs) if outputs.size <= 20 else f"{outputs.size:,} values"


def note_left_out(outcome: ReleaseOutcome) -> None:
    """Print how many rows have no private label, if a person is the unit of privacy."""
    if outcome.unit == "person":
        most = f"at most {count_of(outcome.entries, 'row')}"
        line(
            "left out",
            f"{count_of(outcome.left_out, 'row')}: the message has {most} of each person, chosen without looking at labels",
        )


def tell_outcomes(
    outcomes: dict[str, ReleaseOutcome],
    tell: Callable[[ReleaseOutcome], None],
    out_of_range: str,
    shown: Shown,
    *,
    several: bool,
) -> None:
    """Print the outcome of a release for each label, in words or as JSON, and how many labels were clipped."""
    for outcome in outcomes.values():
        read = outcome.records + outcome.already_held + outcome.left_out
        shown.note_clipped(outcome.clipped, read, out_of_range)
    if shown.as_json:
        records = {name: outcome_record(outcome) for name, outcome in outcomes.items()}
        print_json({"messages": records} if several else next(iter(records.values())))
    elif not shown.quiet:
        for outcome in outcomes.values():
            tell(outcome)


def outcome_record(outcome: ReleaseOutcome) -> dict[str, Any]:
    """The outcome for `--json`."""
    mechanism = outcome.mechanism
    spent = mechanism.prior.epsilon_exact if mechanism.prior is not None else 0
    counted = ("records", "already_held", "message_records", "left_out", "unit")
    return {
        "message": str(outcome.message),
        **{name: getattr(outcome, name) for name in counted},
        "labels_per_unit": outcome.entries,
        "resumed": outcome.resumed,
        "epsilon": outcome.entries * (mechanism.epsilon_exact + spent),
        "epsilon_prior": float(outcome.entries * spent),
        "epsilon_labels": float(outcome.entries * mechanism.epsilon_exact),
        "outputs": int(mechanism.outputs.size),
        "digest": mechanism.digest,
    }


@grouped
def apply(
    message: Annotated[
        Path,
        typer.Argument(metavar="MESSAGE", help="The message to add to, or the folder of messages of several labels."),
    ],
    source: Annotated[
        str,
        typer.Argument(metavar="NEW_FILE", help="The new records, in any format that privatize reads."),
    ],
    key_file: Annotated[Path, typer.Option(metavar="F", help="The key file that privatize was given.")],
    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="DB",
            help="The ledger that privatize charged, if it did. The batch is recorded there, at no charge.",
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COL", help="The column of labels. By default named as in the message.")
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", metavar="COL", help="The column of record ids. By default named as in the message."),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            metavar="COL", help="The column of persons. By default named as in the message, if it has persons."
        ),
    ] = None,
    out_of_range: Annotated[OutOfRange, typer.Option(help=OUT_OF_RANGE)] = "clip",
    sign_key: SignKey = None,
    *,
    text: TextFiles,
    reader: EngineOptions,
    shown: Shown,
) -> None:
    """Add new records to a message, with the same mechanism and at no further cost.

    A new id must be a new record. If the same labels come under new ids, they cost ε again, and no software can notice it.

    In a test, 99.85 % of the labels could be recovered after they had come under new ids 40 times.

    Records that are already in the message keep their private label, even if their label has changed since.

    If the message has persons, rows of persons who are in it already are left out.

    Only a new release, which is charged again, can contain a changed label.

    Messages of several labels get one batch with all label columns: give their folder.

    \b
    Examples:
      labeldp apply message tuesday.parquet --label amount --key-file sales.key
          --ledger ledger.db
      labeldp apply messages later.parquet --key-file several.key
    """  # noqa: D301 - the escape keeps the line of the example
    from labeldp.artifact.description import read_description
    from labeldp.artifact.manifest import MANIFEST, inner_releases, release_folder
    from labeldp.release.apply import apply as add_batch
    from labeldp.release.ledger import Ledger
    from labeldp.release.several import apply_several, shared_labels
    from labeldp.release_kind import LABELS

    record = None if ledger is None else Ledger(ledger)
    several = not (message / MANIFEST).exists() and bool(inner_releases(message))
    first = message / shared_labels(message)[0] if several else message
    mechanism, header = read_description(release_folder(first) / LABELS.description)
    ids = header.id_column if id_column is None else id_column
    named = header.label_column if label is None else label
    owner = None if header.persons is None else header.persons.column
    classes = mechanism.domain is not None and mechanism.domain.classes is not None
    labels = Labels(source, named, ids, text, owner if person is None else person, classes=classes)
    reader.check(labels)
    if several:
        reader.check_arrow("several labels are not possible with --engine spark yet")
        if label is not None:
            raise InvalidInput(
                "a batch for several labels has all label columns, named as in the messages: leave out --label"
            )
    given: dict[str, Any] = {"key_file": key_file, "ledger": record, "out_of_range": out_of_range, "sign_key": sign_key}
    with shown.running("Run the same command again to go on") as phase:
        if several:
            outcomes = apply_several(message, labels.file(), phase=phase, **given)
        else:
            with reader.reads(labels, phase) as found:
                outcomes = {named: add_batch(message, found, phase=phase, **given)}
    tell_outcomes(outcomes, _show_batch, out_of_range, shown, several=several)


def _show_batch(outcome: ReleaseOutcome) -> None:
    now = count_of(outcome.message_records, "record")
    line("added", f"{count_of(outcome.records, 'new record')} to {outcome.message}, which has {now} now")
    if outcome.already_held:
        were, they = ("was", "it") if outcome.already_held == 1 else ("were", "they")
        held = count_of(outcome.already_held, "record")
        line("kept", f"{held} that {were} there already, with the private label {they} had")
    note_left_out(outcome)
    if outcome.records:
        line("next", "send the folder again")
