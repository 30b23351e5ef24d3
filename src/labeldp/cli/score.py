"""`labeldp score`: the labels party's answer to predictions. `labeldp report`: means and quantiles of labels by group, or rates of classes, for either party."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.console import line, note, print_json, print_table
from labeldp.cli.options import (
    CHARGED,
    BoundsOrClasses,
    Charging,
    EngineOptions,
    Label,
    Labels,
    OutputOption,
    Person,
    Shown,
    SmallestGroup,
    TextFiles,
    VerifyKey,
    comma_list,
    for_each,
    grouped,
    records_text,
    was_or_were,
)
from labeldp.errors import InvalidInput
from labeldp.formatting import count_of, plain, plain_number

if TYPE_CHECKING:
    from labeldp.evaluate.held_out_sums import HeldOutFigure
    from labeldp.evaluate.report import Report
    from labeldp.evaluate.score import Score

SHOWN = {
    "mse": "MSE",
    "r2": "R²",
    "mae": "MAE",
    "bias": "bias",
    "log_loss": "log loss",
    "gain": "gain over the mean",
    "brier": "Brier score",
    "auc": "AUC",
}


@grouped
def score(
    source: Annotated[
        str,
        typer.Argument(
            metavar="LABELS",
            help="Parquet (a file or a folder of parts), CSV or TSV (also .gz), Arrow IPC; for Spark also ORC and URIs.",
        ),
    ],
    label: Label,
    id_column: Annotated[str, typer.Option("--id", metavar="COL", help="The column of record ids in both files.")],
    predictions: Annotated[
        Path,
        typer.Option("--predictions", metavar="FILE", help="Predictions by id: Parquet, CSV, TSV or Arrow IPC."),
    ],
    epsilon: Annotated[str, typer.Option(metavar="E", help="What the score costs, for instance 0.1.")],
    answer: Annotated[Path, OutputOption("--out", metavar="DIR", help="The score: a folder that must not exist yet.")],
    predictions_id: Annotated[
        str | None,
        typer.Option(
            "--predictions-id", metavar="COL", help="The id column of the predictions, if it has another name."
        ),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            metavar="COL,…",
            help="The columns of predictions, one for each model. By default all other columns of numbers. For --classes, what the names of columns "
            "begin with: probability for probability_no and probability_yes.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Also score the groups by this column of the predictions. Takes half of ε."),
    ] = None,
    smallest_group: SmallestGroup = 20,
    person: Person = None,
    matching: Annotated[bool, typer.Option("--matching", help="Leave out predictions without a label.")] = False,
    *,
    text: TextFiles,
    bounds: BoundsOrClasses,
    charging: Charging,
    reader: EngineOptions,
    shown: Shown,
) -> None:
    """Answer predictions with their noisy error: how good a model is, for a small ε.

    The features party sent predictions for each id. It gets the mean squared error, R², the mean absolute error, the bias and
    the gain over answering the mean, each with a 95 % interval. For --classes it sent probabilities, and gets log loss, its gain over
    answering the mean probabilities, Brier score, AUC, the rate and a calibration table. Several models share ε.

    A second run draws fresh noise and costs ε again.

    \b
    Examples:
      labeldp score sales.parquet --label amount --id order
          --predictions predictions.parquet --epsilon 0.1
          --lower 0 --upper 400 --ledger ledger.db --dataset sales
          --out score
      labeldp score orders.parquet --label amount --id order
          --person customer --predictions predictions.parquet
          --epsilon 0.5 --lower 0 --upper 400 --out score
      labeldp score visits.parquet --label bought --id visit
          --predictions rates.parquet --epsilon 0.5
          --classes no,yes --out score
      labeldp score hdfs:///sales --label amount --id order
          --predictions predictions.parquet --epsilon 0.1
          --lower 0 --upper 400 --out score
          --engine spark --conf spark.master=yarn
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.evaluate.score import score as score_labels

    domain, charged = bounds.domain(), charging.arguments
    labels = Labels(source, label, id_column, text, person)
    reader.check(labels)
    with shown.running(CHARGED) as phase, reader.joins(labels, phase) as found:
        outcome = score_labels(
            found,
            predictions,
            answer,
            epsilon,
            domain,
            id=predictions_id or id_column,
            models=comma_list(models) or None,
            by=by,
            smallest_group=smallest_group,
            matching=matching,
            out_of_range=bounds.out_of_range,
            phase=phase,
            **charged,
        )
    shown.note_clipped(outcome.clipped, outcome.score.records, bounds.out_of_range)
    if outcome.moved_predictions and not shown.quiet:
        were = was_or_were(outcome.moved_predictions)
        where = f"lay outside the bounds and {were} moved to them, which only lowers errors"
        if domain.classes is not None:
            where = f"had a probability below 0.0001 or above 0.9999 and {were} moved there"
        note(f"{count_of(outcome.moved_predictions, 'prediction')} {where}")
    if shown.as_json:
        names = ("without_label", "without_prediction", "moved_predictions", "merged_groups", "outside_groups")
        counts = {name: getattr(outcome, name) for name in names}
        print_json(_score_record(outcome.score) | {"answer": str(outcome.answer)} | counts)
        return
    if shown.quiet:
        return
    line("answer", f"{answer}")
    line("records", records_text(outcome.score.records, outcome.score.persons))
    for count, title, words in (
        (outcome.without_label, "unpaired", "predictions had no label and were left out"),
        (outcome.without_prediction, "unpaired", "labels had no prediction and were not used"),
        (outcome.outside_groups, "groups", "records are in no group, since their groups are too small"),
    ):
        if count:
            line(title, f"{count:,} {words}")
    show_score(outcome.score)
    line("epsilon", f"{outcome.score.epsilon:g}{for_each(outcome.score.persons)}")
    charging.tell()
    line("next", f"send the folder. labeldp audit {answer} checks it and shows the score")


def show_score(found: Score) -> None:
    """Print the table of figures and what it says, and how well probabilities of classes are calibrated."""
    rows: list[list[str]] = []
    several = len(found.models) > 1
    width = None if found.domain.classes else found.domain.upper - found.domain.lower
    figures = next(iter(found.overall.values())).figures
    shown = [key for key in SHOWN if key in figures]
    shown += [key for key in figures if key not in SHOWN] if found.domain.classes else []
    for group, scored in [("all records", found.overall), *found.by_group.items()]:
        for number, (model, one) in enumerate(scored.items()):
            name = ["" if number else group, model] if several else [group]
            rows.append([*name, f"{one.records:,}", *(_score_cell(key, one.figures[key], width) for key in shown)])
    names = [found.by or "", *(["model"] if several else []), "records", *(SHOWN.get(key, key) for key in shown)]
    print_table("95 % intervals in brackets", names, rows, left=[0, 1] if several else [0])
    bins = [
        [model, part.of, f"{part.records:,}", plain(part.predicted, 3), _score_cell("", part.share)]
        for model, one in found.overall.items()
        for part in getattr(one, "calibration", ())
    ]
    if bins:
        print_table(
            "calibration", ["model", "class", "records", "mean probability", "share of the class"], bins, left=[0, 1]
        )
    for number, text in enumerate(found.sentences()):
        line("" if number else "verdict", text)


def _score_cell(name: str, one: HeldOutFigure, width: float | None = None) -> str:
    """A figure with its interval, where that says something: for labels that are `width` apart, or for classes. Of R² below −100 % at most the upper end is known."""
    from labeldp.evaluate.held_out_sums import WIDEST

    value, low, high = (plain(end, 3) for end in (one.value, one.lower, one.upper))
    if name == "r2" and not one.lower > -1:
        return "not known" if one.upper >= 1 else f"at most {high}"
    possible = math.inf if name in ("r2", "log_loss", "gain") else 1.0
    if width is not None:
        possible = {"mse": width**2, "mae": width, "bias": 2 * width, "gain": width**2}.get(name, math.inf)
    return "not known" if one.upper - one.lower > WIDEST * possible else f"{value} ({low} to {high})"


def _score_record(found: Score) -> dict[str, Any]:
    """Return a score for `--json`."""
    return {
        "records": found.records,
        "persons": found.persons,
        "epsilon": found.epsilon_exact,
        "figures": found.to_arrow().to_pylist(),
        "differences": [
            {"first": one.first, "second": one.second, "better": one.better, **vars(one.error)}
            for one in found.differences
        ],
        "sentences": list(found.sentences()),
    }


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
    from labeldp.evaluate.groups import csv_text
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

            of_labels = {"label": label, "epsilon": epsilon, "out": folder, "person": person}
            of_labels |= {**vars(charging), **vars(bounds), **vars(text)}
            of_labels |= {"quantiles": quantiles, "out_of_range": None, "delimiter": None}
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
            wanted = [] if quantiles == "none" else [plain_number(one, "--quantiles") for one in comma_list(quantiles)]
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
    records = sum(row.records for row in found.rows)
    shown.note_clipped(clipped, records, bounds.out_of_range)
    if csv is not None:
        csv.write_bytes(csv_text(found.to_arrow()))
    if picture is not None:
        from labeldp.plots import save

        what = "Means" if found.domain.classes is None else "Rates"
        save(found.plot(), picture, alt=f"{what} by {found.by} with 95 % intervals")
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
            line("records", records_text(records, found.persons))
        paid = ", paid before: this report costs nothing" if is_message else ""
        line("epsilon", f"{found.epsilon:g}{for_each(found.persons)}{paid}")
        charging.tell()
        if folder is not None:
            line("report", f"{folder}, with the table in figures.csv. labeldp audit {folder} proves its ε")


def show_report(found: Report) -> None:
    """Print the table of groups."""
    names = list(found.rows[0].figures)
    titles = {"quantile 0.5": "median"}
    rows = [[row.group, f"{row.records:,}", *(_cell(found, row.figures[name]) for name in names)] for row in found.rows]
    unit = "" if found.domain.unit is None else f", in {found.domain.unit}"
    heads = [found.by or "", "records", *(titles.get(name, name) for name in names)]
    print_table(f"95 % intervals in brackets{unit}", heads, rows, left=[0])
    if any(not found.is_known(one) for row in found.rows for one in row.figures.values()):
        note(
            "not known: the interval covers most of the bounds. Ask for a larger ε, larger groups or narrower public bounds"
        )


def _cell(found: Report, one: HeldOutFigure) -> str:
    value, low, high = (plain(end) for end in (one.value, one.lower, one.upper))
    return f"{value} ({low} to {high})" if found.is_known(one) else f"not known ({low} to {high})"


def _check_files(csv: Path | None, picture: Path | None) -> None:
    """Raise `InvalidInput`, before anything is charged, for files that cannot be written."""
    if picture is not None and picture.suffix.lower() not in (".svg", ".png"):
        raise InvalidInput(f"--picture must end in .svg or .png, got {picture}")
    for path in (csv, picture):
        if path is not None and path.exists():
            raise InvalidInput(f"{path} exists and is not overwritten: choose another file")
        if path is not None and not path.absolute().parent.is_dir():
            raise InvalidInput(f"the folder {path.absolute().parent} does not exist: make it first")
