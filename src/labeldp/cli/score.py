"""`labeldp score`: the labels party's answer to predictions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.console import line, note, print_json, print_table
from labeldp.cli.engine import EngineOptions, Labels
from labeldp.cli.options import (
    CHARGED,
    BoundsOrClasses,
    Charging,
    Label,
    OutputOption,
    Person,
    Shown,
    SmallestGroup,
    TextFiles,
    comma_list,
    grouped,
)
from labeldp.cli.run_summary import for_each, note_clipped, records_text
from labeldp.formatting import count_of, plain

if TYPE_CHECKING:
    from labeldp.evaluate.held_out_sums import HeldOutFigure
    from labeldp.evaluate.score import Score, ScoreOutcome

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
    matching: Annotated[bool, typer.Option("--matching", help="Leave out predictions that have no label.")] = False,
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
    note_clipped(outcome.clipped, outcome.score.records, bounds.out_of_range, quiet=shown.quiet)
    if outcome.moved_predictions and not shown.quiet:
        were = "was" if outcome.moved_predictions == 1 else "were"
        where = "lay outside the bounds and {} moved to them, which only lowers errors"
        if domain.classes is not None:
            where = "had a probability below 0.0001 or above 0.9999 and {} moved there"
        note(f"{count_of(outcome.moved_predictions, 'prediction')} {where.format(were)}")
    if shown.as_json:
        print_json(score_record(outcome.score) | _counts(outcome))
        return
    if shown.quiet:
        return
    line("answer", f"{answer}")
    line("records", records_text(outcome.score.records, outcome.score.persons))
    for count, words in (
        (outcome.without_label, "predictions had no label and were left out"),
        (outcome.without_prediction, "labels had no prediction and were not used"),
        (outcome.outside_groups, "records are in no group, since their groups are too small"),
    ):
        if count:
            line("unpaired" if "group" not in words else "groups", f"{count:,} {words}")
    show_score(outcome.score)
    line("epsilon", f"{outcome.score.epsilon:g}{for_each(outcome.score.persons)}")
    charging.tell()
    line("next", f"send the folder. labeldp audit {answer} checks it and shows the score")


def show_score(found: Score) -> None:
    """Print the table of figures and what it says, and how well probabilities of classes are calibrated."""
    rows: list[list[str]] = []
    shown: dict[str, str] = {}
    width = None if found.domain.classes else found.domain.upper - found.domain.lower
    for group, scored in [("all records", found.overall), *found.by_group.items()]:
        for number, (model, one) in enumerate(scored.items()):
            name = [group if not number else "", model] if len(found.models) > 1 else [group]
            shown = shown or {
                key: SHOWN.get(key, key)
                for key in sorted(one.figures, key=_order)
                if key in SHOWN or found.domain.classes
            }
            rows.append([*name, f"{one.records:,}", *(_cell(key, one.figures[key], width) for key in shown)])
    names = [found.by or "", *(["model"] if len(found.models) > 1 else []), "records", *shown.values()]
    print_table("95 % intervals in brackets", names, rows, left=[0, 1] if len(found.models) > 1 else [0])
    bins = [
        [model, part.of, f"{part.records:,}", plain(part.predicted, 3), _cell("", part.share)]
        for model, one in found.overall.items()
        for part in getattr(one, "calibration", ())
    ]
    if bins:
        print_table(
            "calibration", ["model", "class", "records", "mean probability", "share of the class"], bins, left=[0, 1]
        )
    for number, text in enumerate(found.sentences()):
        line("" if number else "verdict", text)


def _order(name: str) -> int:
    return list(SHOWN).index(name) if name in SHOWN else len(SHOWN)


def _cell(name: str, one: HeldOutFigure, width: float | None = None) -> str:
    """A figure with its interval, where that says something: for labels that are `width` apart, or for classes. Of R² below −100 % at most the upper end is known."""
    from labeldp.evaluate.held_out_sums import WIDEST

    value, low, high = (plain(end, 3) for end in (one.value, one.lower, one.upper))
    if name == "r2" and not one.lower > -1:
        return "not known" if one.upper >= 1 else f"at most {high}"
    possible = math.inf if name in ("r2", "log_loss", "gain") else 1.0
    if width is not None:
        possible = {"mse": width**2, "mae": width, "bias": 2 * width, "gain": width**2}.get(name, math.inf)
    return "not known" if one.upper - one.lower > WIDEST * possible else f"{value} ({low} to {high})"


def score_record(found: Score) -> dict[str, Any]:
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


def _counts(outcome: ScoreOutcome) -> dict[str, Any]:
    names = ("without_label", "without_prediction", "moved_predictions", "merged_groups", "outside_groups")
    return {"answer": str(outcome.answer)} | {name: getattr(outcome, name) for name in names}
