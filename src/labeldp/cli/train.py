"""`labeldp train`, `predict` and `evaluate`: the features party's commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from labeldp.cli.console import err, line, out, print_json
from labeldp.cli.lazy_help import LEARNERS, learners
from labeldp.errors import InvalidInput

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model that labeldp train wrote. Load only models you trust.")
]
Features = Annotated[Path, typer.Argument(metavar="FILE", help="Features: Parquet, CSV, TSV (also .gz) or Arrow IPC.")]
Names = Annotated[str | None, typer.Option(metavar="COL,…", help="Columns to read so, whatever their type.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def train(
    message_path: Annotated[Path, typer.Argument(metavar="MESSAGE", help="The message from the labels party.")],
    features: Annotated[
        Path, typer.Option(metavar="FILE", help="Parquet (a file or folder), CSV, TSV (also .gz), Arrow IPC.")
    ],
    id_column: Annotated[str, typer.Option("--id", metavar="COL", help="The id column of the features.")],
    model_path: Annotated[
        Path, typer.Option("--out", metavar="MODEL", help="The model: a folder that must not exist yet.")
    ],
    target_values: Annotated[
        str | None,
        typer.Option(
            metavar="auto|bins|debiased|positive",
            help="What stands for a code: auto, or positive with --loss poisson.",
        ),
    ] = None,
    kind: Annotated[str, typer.Option("--model", metavar="NAME", help=f"{LEARNERS}.")] = "boosting",
    loss: Annotated[str, typer.Option(metavar="squared|poisson", help="The loss to train with.")] = "squared",
    categorical: Names = None,
    numeric: Names = None,
    exclude: Annotated[str | None, typer.Option(metavar="COL,…", help="Columns to leave out.")] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Of the network; left out, as many as its noisy labels deserve.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the model's own randomness.")] = None,
    folds: Annotated[
        int, typer.Option(min=0, max=50, help="Estimate the test error by so many folds; 0 to leave that out.")
    ] = 5,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only errors.")] = False,
    as_json: Json = False,
) -> None:
    """Join a message with features by id and train a model on the private labels.

    Nothing here costs privacy: whatever is computed from a message stays as private as the message.

    Examples:

      labeldp train message --features clicks.parquet --id order --out model

      labeldp train message --features clicks.csv --id order --model network --categorical shop,country --out model
    """
    from labeldp.evaluation.summary import estimates_of_mean, estimates_of_model
    from labeldp.mechanisms import PrivateLabels
    from labeldp.mechanisms.decoding import code_values
    from labeldp.message.reader import Message
    from labeldp.training.files import column, read_table
    from labeldp.training.joining import join
    from labeldp.training.learners import LearnerRequest
    from labeldp.training.saved import SavedModel
    from labeldp.training.sizing import label_share

    if model_path.exists():
        raise InvalidInput(f"{model_path} exists: choose another --out, nothing is overwritten")
    learner = learners()[kind]
    if loss not in learner.losses:
        raise InvalidInput(f"--loss must be one of {', '.join(learner.losses)} for {kind}, got {loss!r}")
    decoder = target_values or ("positive" if loss == "poisson" else "auto")
    message = Message.open(message_path)
    values = code_values(message.mechanism, decoder)
    if loss == "poisson" and values.min() < 0:
        raise InvalidInput(
            f"--loss poisson needs targets that are not negative: use --target-values positive, not {decoder}"
        )
    table = read_table(features)
    joined = join(message, column(table, id_column, features))
    left_out = {id_column, *_split(exclude)}
    for name in _split(exclude):
        column(table, name, features)
    used = table.select([name for name in table.schema.names if name not in left_out]).take(joined.rows)
    if not used.num_columns:
        raise InvalidInput(f"{features} has no column left to learn from besides {id_column!r}")
    share = label_share(message.mechanism, values)
    model = learner.make(
        LearnerRequest(
            joined.rows.size,
            share,
            loss,
            _names(categorical),
            _names(numeric),
            seed,
            epochs,
            progress=not (quiet or as_json),
        )
    )
    targets = values[joined.codes]
    private = PrivateLabels(joined.codes, message.mechanism)
    estimates = estimates_of_mean(private)
    if estimates and folds >= 2 and loss == "squared":
        estimates |= estimates_of_model(model, used, targets, private, folds)
    model.fit(used, targets)
    domain = message.mechanism.domain
    facts = {
        "model": kind,
        "loss": loss,
        "target_values": decoder,
        "records": int(joined.rows.size),
        "features_without_label": joined.without_label,
        "labels_without_features": joined.without_features,
        "columns": used.schema.names,
        "epsilon": float(message.epsilon_exact),
        "mechanism": message.mechanism.kind,
        "mechanism_digest": message.mechanism.digest,
        "release": message.header.release,
        "bounds": None if domain is None else [domain.lower, domain.upper],
        "estimates": estimates,
    }
    SavedModel(model, facts).save(model_path)
    if as_json:
        print_json(facts)
    elif not quiet:
        _report(facts, model_path)


def predict(
    model_path: Model,
    features: Features,
    predictions: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Predictions: .parquet or .csv, a new file.")
    ],
    id_column: Annotated[
        str | None, typer.Option("--id", metavar="COL", help="Copy this column beside the predictions.")
    ] = None,
) -> None:
    """Predict for every row of a features file.

    Example: labeldp predict model clicks.parquet --id order --out predictions.parquet
    """
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    from labeldp.training.files import column, read_table
    from labeldp.training.saved import SavedModel

    if predictions.exists():
        raise InvalidInput(f"{predictions} exists: choose another --out, nothing is overwritten")
    writers = {".parquet": pq.write_table, ".csv": pa_csv.write_csv}
    if predictions.suffix not in writers:
        raise InvalidInput(f"--out must end in .parquet or .csv, got {predictions}")
    saved = SavedModel.load(model_path)
    table = read_table(features)
    kept = {} if id_column is None else {id_column: column(table, id_column, features)}
    result = pa.table({**kept, "prediction": saved.predict(table)})
    partial = predictions.with_name(f".{predictions.name}.partial")
    try:
        writers[predictions.suffix](result, partial)
        partial.rename(predictions)
    finally:
        partial.unlink(missing_ok=True)
    err.print(f"{result.num_rows:,} predictions in {predictions}", markup=False)


def evaluate(
    model_path: Model,
    features: Features,
    label: Annotated[str, typer.Option("--label", metavar="COL", help="The column of true labels.")],
    as_json: Json = False,
) -> None:
    """Compare predictions with true labels, where somebody has them.

    These figures are computed from true labels and are not private.

    Example: labeldp evaluate model test.parquet --label amount
    """
    from labeldp.arrays import label_array
    from labeldp.evaluation.metrics import metrics
    from labeldp.training.files import column, read_table
    from labeldp.training.saved import SavedModel

    saved = SavedModel.load(model_path)
    table = read_table(features)
    truth = label_array(column(table, label, features).combine_chunks(), f"the labels in {label!r}")
    figures = metrics(saved.predict(table), truth)
    if as_json:
        print_json(figures)
        return
    out.print(f"{truth.size:,} rows, {saved.facts['model']} trained at ε = {saved.facts['epsilon']:g}")
    for name, value in figures.items():
        out.print(f"{name:<26} {value:,.6g}" if value is not None else f"{name:<26} undefined")
    err.print("[yellow]note:[/yellow] these figures are computed from true labels and are not private")


def _report(facts: dict[str, Any], path: Path) -> None:
    line(
        "model",
        f"{path}: {facts['model']} on {facts['records']:,} records, {facts['target_values']} targets, ε = {facts['epsilon']:g}",
    )
    for name, text in (
        ("features_without_label", "rows of features had no private label and were not used"),
        ("labels_without_features", "private labels had no features and were not used"),
    ):
        if facts[name]:
            line("unpaired", f"{facts[name]:,} {text}")
    estimates = facts["estimates"]
    for title, words, name in (
        ("mean", "the labels' mean is", "mean"),
        ("", "the mean squared error of always answering the mean is", "error_of_mean"),
        ("error", "the model's mean squared test error is", "error"),
        ("gain", "the model's error is lower by", "gain"),
    ):
        if name in estimates:
            figure = estimates[name]
            line(
                title,
                f"{words} about {figure['value']:,.4g}, with 95 % confidence from {figure['lower']:,.4g} to "
                f"{figure['upper']:,.4g}",
            )
    if estimates:
        line(
            "",
            "(from private labels, their noise taken out; the intervals assume only that labels lie within the bounds)",
        )
    line("next", f"labeldp predict {path} FILE --out predictions.parquet")


def _split(names: str | None) -> list[str]:
    return [] if names is None else [name.strip() for name in names.split(",") if name.strip()]


def _names(names: str | None) -> list[str] | None:
    return None if names is None else _split(names)
