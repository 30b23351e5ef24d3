"""`labeldp report`: means and quantiles of labels by group, or rates of classes, for either party."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labeldp.cli.console import line, note, print_json, print_table
from labeldp.cli.options import (
    CHARGED,
    BoundsOrClasses,
    Charging,
    OutputOption,
    Person,
    Shown,
    SmallestGroup,
    TextFiles,
    VerifyKey,
    comma_list,
    grouped,
)
from labeldp.cli.run_summary import for_each, note_clipped, records_text
from labeldp.errors import InvalidInput
from labeldp.formatting import count_of, plain

if TYPE_CHECKING:
    from labeldp.evaluate.report import Report


@grouped
def report(
    source: Annotated[
        Path,
        typer.Argument(metavar="LABELS|MESSAGE", help="A file of labels (Parquet, CSV, TSV, Arrow IPC), or a message."),
    ],
    by: Annotated[
        str | None,
        typer.Option(metavar="COL", help="The public column of groups. Without it all records are one group."),
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", metavar="COL", help="The column of sensitive numbers or classes in LABELS.")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(metavar="E", help="What a report of LABELS costs, for instance 0.2.")
    ] = None,
    folder: Annotated[
        Path | None,
        OutputOption("--out", metavar="DIR", help="The report of LABELS: a folder that must not exist yet."),
    ] = None,
    quantiles: Annotated[
        str, typer.Option(metavar="Q,…", help="Quantiles of LABELS, which take half of ε; none for means only.")
    ] = "0.5",
    smallest_group: SmallestGroup = 20,
    person: Person = None,
    features: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For a MESSAGE: the features, with the column of groups.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", metavar="COL", help="For a MESSAGE: the id column of the features.")
    ] = None,
    verify_key: VerifyKey = None,
    csv: Annotated[
        Path | None, OutputOption("--csv", metavar="FILE", help="Also write the table to this new file.")
    ] = None,
    picture: Annotated[
        Path | None,
        OutputOption("--picture", metavar="FILE", help="Also draw the means with their intervals: .svg or .png."),
    ] = None,
    *,
    text: TextFiles,
    bounds: BoundsOrClasses,
    charging: Charging,
    shown: Shown,
) -> None:
    """Report the mean and quantiles of labels by group, or the rates of classes, each with a 95 % interval.

    The labels party reports its labels for a small ε: each label is in one group only, so ε is not divided among groups. The
    features party reports means or rates from private labels, at no cost.

    \b
    Examples:
      labeldp report visits.parquet --by ward --label stay --epsilon 0.2
          --lower 0 --upper 60 --quantiles 0.5,0.9 --out report
      labeldp report visits.parquet --by ward --label stay --person patient
          --epsilon 0.5 --lower 0 --upper 60 --out report
      labeldp report visits.parquet --by ward --label readmitted --epsilon 0.2
          --classes no,yes --out rates
      labeldp report message --features visits.parquet --id visit --by ward
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.artifact.manifest import MANIFEST
    from labeldp.evaluate.report import report_labels
    from labeldp.learn.group_report import report as report_groups
    from labeldp.learn.verdict import unpaired

    _check_files(csv, picture)
    is_message = (source / MANIFEST).is_file()
    clipped = 0
    charged = charging.arguments
    with shown.running(CHARGED) as phase:
        if is_message:
            from labeldp.artifact.reader import Message

            of_labels = {
                "label": label,
                "epsilon": epsilon,
                "out": folder,
                "person": person,
                **vars(charging),
                **vars(bounds),
            }
            of_labels |= vars(text) | {"quantiles": quantiles, "out_of_range": None, "delimiter": None}
            usual = {"quantiles": "0.5", "decimal": "."}
            for name, value in of_labels.items():
                if value not in (None, usual.get(name)):
                    option = f"--{name.replace('_', '-')}"
                    raise InvalidInput(f"{option} is for a report of labels, and {source} is a message: leave it out")
            found = report_groups(
                Message.open(source, verify_key=verify_key),
                by=by,
                features=features,
                id=id_column,
                delimiter=text.delimiter,
                smallest_group=smallest_group,
                phase=phase,
            )
        else:
            if label is None or epsilon is None or folder is None:
                raise InvalidInput(
                    "a report of labels needs --label, --epsilon and --out, or give the folder of a message"
                )
            wanted = [] if quantiles == "none" else [_number(one) for one in comma_list(quantiles)]
            if features is not None or id_column is not None or verify_key is not None:
                raise InvalidInput(
                    f"--features, --id and --verify-key are for a message, and {source} is not one: leave them out"
                )
            found, clipped = report_labels(
                text.source(source, label, None, person),
                by,
                folder,
                epsilon,
                bounds.domain(),
                quantiles=wanted,
                smallest_group=smallest_group,
                out_of_range=bounds.out_of_range,
                phase=phase,
                **charged,
            )
    note_clipped(clipped, sum(row.records for row in found.rows), bounds.out_of_range, quiet=shown.quiet)
    _write(found, csv, picture)
    if shown.as_json:
        data = {"epsilon": found.epsilon_exact, "by": found.by, "persons": found.persons}
        data["figures"] = found.to_arrow().to_pylist()
        unused = {"features_without_label": found.without_label, "labels_without_features": found.without_features}
        print_json(data | (unused if is_message else {}))
    elif not shown.quiet:
        show_report(found)
        for title, words in unpaired(found.without_label, found.without_features):
            line(title, words)
        if found.left_out:
            line("groups", f"{count_of(found.left_out, 'record')} left out: their groups are too small, even together")
        if found.persons is not None:
            line("records", records_text(sum(row.records for row in found.rows), found.persons))
        line(
            "epsilon",
            f"{found.epsilon:g}{for_each(found.persons)}{', paid before: this report costs nothing' if is_message else ''}",
        )
        charging.tell()
        if folder is not None:
            line("report", f"{folder}, with the table in figures.csv. labeldp audit {folder} proves its ε")


def show_report(found: Report) -> None:
    """Print the table of groups."""
    names = list(found.rows[0].figures)
    titles = {"quantile 0.5": "median"}
    rows = [
        [row.group, f"{row.records:,}", *(_cell(found, name, place) for name in names)]
        for place, row in enumerate(found.rows)
    ]
    unit = "" if found.domain.unit is None else f", in {found.domain.unit}"
    print_table(
        f"95 % intervals in brackets{unit}",
        [found.by or "", "records", *(titles.get(name, name) for name in names)],
        rows,
        left=[0],
    )
    if any(not found.is_known(one) for row in found.rows for one in row.figures.values()):
        note(
            "not known: the interval covers most of the bounds. Ask for a larger ε, larger groups or narrower public bounds"
        )


def _cell(found: Report, name: str, place: int) -> str:
    one = found.rows[place].figures[name]
    value, low, high = (plain(end) for end in (one.value, one.lower, one.upper))
    return f"{value} ({low} to {high})" if found.is_known(one) else f"not known ({low} to {high})"


def _number(text: str) -> float:
    from labeldp.formatting import plain_number

    return plain_number(text, "--quantiles")


def _check_files(csv: Path | None, picture: Path | None) -> None:
    """Raise `InvalidInput`, before anything is charged, for files that cannot be written."""
    if picture is not None and picture.suffix.lower() not in (".svg", ".png"):
        raise InvalidInput(f"--picture must end in .svg or .png, got {picture}")
    for path in (csv, picture):
        if path is not None and path.exists():
            raise InvalidInput(f"{path} exists and is not overwritten: choose another file")
        if path is not None and not path.absolute().parent.is_dir():
            raise InvalidInput(f"the folder {path.absolute().parent} does not exist: make it first")


def _write(found: Report, csv: Path | None, picture: Path | None) -> None:
    from labeldp.evaluate.groups import csv_text

    if csv is not None:
        csv.write_bytes(csv_text(found.to_arrow()))
    if picture is not None:
        from labeldp.plots import save

        save(
            found.plot(),
            picture,
            alt=f"{'Means' if found.domain.classes is None else 'Rates'} by {found.by} with 95 % intervals",
        )
