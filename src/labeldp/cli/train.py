"""`labeldp train`, `predict` and `evaluate`: the features party's commands."""

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from labeldp.cli.console import err, line, note, out, phases, print_json, stoppable
from labeldp.cli.options import LOSSES, Delimiter, Json, Quiet, VerifyKey, comma_list, losses, models, offers
from labeldp.errors import InvalidInput
from labeldp.formatting import count_of, plain

ModelOption = partial(typer.Option, rich_help_panel="Model")
ColumnsOption = partial(typer.Option, metavar="COL,…", rich_help_panel="Columns of the features")
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that labeldp train wrote.")]
TrustPickle = Annotated[
    bool,
    typer.Option(
        "--trust-pickle",
        help="Load the model even if it is a pickle. Loading a pickle runs the code in the file, with your rights. "
        "Only for models from people whom you would let run programs here.",
    ),
]
Features = Annotated[Path, typer.Argument(metavar="FILE", help="Features: Parquet, CSV, TSV (also .gz) or Arrow IPC.")]


def train(
    message: Annotated[
        Path, typer.Argument(metavar="MESSAGE", help="The message from the labels party, or its answer with sums.")
    ],
    features: Annotated[
        Path, typer.Option(metavar="FILE", help="Parquet (a file or a folder), CSV, TSV (also .gz) or Arrow IPC.")
    ],
    id_column: Annotated[
        str,
        typer.Option(
            "--id", metavar="COL", help="The id column of the features; row, if the message's ids are row numbers."
        ),
    ],
    model_path: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The model: a folder that must not exist yet.")
    ],
    model: Annotated[
        str | None,
        ModelOption(
            metavar="NAME", help="One of the models listed below.", autocompletion=offers(models), show_default="stack"
        ),
    ] = None,
    fast: Annotated[
        bool, ModelOption("--fast", help="Train a small model quickly, as --model boosting does. It is less accurate.")
    ] = False,
    loss: Annotated[
        str | None,
        ModelOption(
            metavar="LOSS",
            help=f"The loss that predictions minimise: {LOSSES}. By default the one that the message was made for.",
            autocompletion=offers(losses),
        ),
    ] = None,
    target_values: Annotated[
        Literal["auto", "bins", "debiased", "positive"] | None,
        ModelOption(
            metavar="VALUES",
            help="The values to train on: auto, bins, debiased or positive. auto, the default, chooses by the loss.",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        ModelOption(
            min=1,
            metavar="N",
            help="Epochs of the network. By default the number follows from the noise of the labels.",
        ),
    ] = None,
    seed: Annotated[int | None, ModelOption(min=0, max=2**32 - 1, metavar="N", help="The seed of the model.")] = None,
    folds: Annotated[
        int | None,
        ModelOption(
            min=0,
            max=50,
            metavar="N",
            help="Folds for the estimate of the test error; 0 for no estimate.",
            show_default="5",
        ),
    ] = None,
    assume_nothing: Annotated[
        bool,
        ModelOption(
            "--assume-nothing", help="Intervals that hold for any labels and any model, however odd. Much wider."
        ),
    ] = False,
    categorical: Annotated[
        str | None, ColumnsOption(help="Read these as categories, regardless of their type.")
    ] = None,
    numeric: Annotated[str | None, ColumnsOption(help="Read these as numbers, regardless of their type.")] = None,
    exclude: Annotated[str | None, ColumnsOption(help="Leave these out.")] = None,
    delimiter: Delimiter = None,
    verify_key: VerifyKey = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="FILE", help="For an answer of labeldp sums: the plan.json that labeldp cells wrote."
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Join a message with features by id and train a model on the private labels.

    Training costs no privacy: everything that is computed from a message is as private as the message.

    \b
    Examples:
      labeldp train message --features clicks.parquet --id order --out model
      labeldp train message --features clicks.csv --id order --out model
          --model network --categorical shop,country
      labeldp train sums --features clicks.parquet --id order
          --plan cells/plan.json --out model
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.learn.saved import check_new
    from labeldp.learn.train import train as train_model

    check_new(model_path)
    if fast and model not in (None, "boosting"):
        raise InvalidInput(f"--fast is the model boosting, and --model names {model}: give one of them")
    silent = quiet or as_json
    with stoppable("No model was written"), phases(quiet=silent) as phase:
        result = train_model(
            message,
            features,
            id=id_column,
            plan=plan,
            model="boosting" if fast else model,
            loss=loss,
            target_values=target_values,
            categorical=comma_list(categorical) or None,
            numeric=comma_list(numeric) or None,
            exclude=comma_list(exclude) or None,
            epochs=epochs,
            seed=seed,
            folds=folds,
            assume=() if assume_nothing else None,
            verify_key=verify_key,
            delimiter=delimiter,
            progress=not silent and err.is_terminal,
            phase=phase,
        )
    result.model.save(model_path)
    if as_json:
        print_json(result.model.facts)
    elif not quiet:
        for title, text in result.report:
            line(title, f"{model_path}: {text}" if title == "model" else text)
        ids = "" if result.id_column is None else f" --id {shlex.quote(result.id_column)}"
        line("next", f"labeldp predict {model_path} FILE{ids} --out predictions.parquet")


def predict(
    model_path: ModelPath,
    features: Features,
    predictions: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Predictions: .parquet or .csv, a new file.")
    ],
    id_column: Annotated[
        str | None, typer.Option("--id", metavar="COL", help="Copy this column next to the predictions.")
    ] = None,
    delimiter: Delimiter = None,
    trust_pickle: TrustPickle = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict for every row of a features file. For classes, their probabilities are written too.

    Example: labeldp predict model clicks.parquet --id order --out predictions.parquet
    """
    from labeldp.learn.prediction_files import predict_file
    from labeldp.learn.saved import SavedModel

    saved = SavedModel.load(model_path, trust_pickle=trust_pickle)
    with stoppable("No predictions were written"), phases(quiet=quiet or as_json) as phase:
        rows = predict_file(saved, features, predictions, id_column, delimiter, phase=phase)
    unit = saved.facts.get("unit")
    if as_json:
        print_json({"predictions": str(predictions), "rows": rows, "id_column": id_column, "unit": unit})
    elif not quiet:
        line("written", f"{count_of(rows, 'prediction')}{f' ({unit})' if unit else ''} to {predictions}")


def evaluate(
    model_path: ModelPath,
    features: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Features and true labels together: Parquet, CSV, TSV (also .gz) or Arrow IPC."
        ),
    ],
    label: Annotated[str, typer.Option("--label", metavar="COL", help="The column of true labels in FILE.")],
    delimiter: Delimiter = None,
    trust_pickle: TrustPickle = False,
    as_json: Json = False,
) -> None:
    """Compare predictions with true labels, if you have them: for classes, log loss, AUC, Brier score and calibration.

    These figures are computed from true labels and are not private.

    Example: labeldp evaluate model test.parquet --label amount
    """
    from labeldp.evaluate.scoring import calibration, class_metrics, metrics
    from labeldp.learn.prediction_files import predictions_beside
    from labeldp.learn.saved import SavedModel

    saved = SavedModel.load(model_path, trust_pickle=trust_pickle)
    with phases(quiet=as_json) as phase:
        predictions, truth = predictions_beside(saved, features, label, delimiter, phase=phase)
    groups: list[dict[str, float]] = []
    if saved.classes is None:
        figures = metrics(predictions, truth, saved.facts.get("loss", "squared"))
    else:
        positions = truth.astype(int)
        figures, groups = class_metrics(predictions, positions), calibration(predictions, positions)
    note("these figures are computed from true labels and are not private")
    if as_json:
        print_json(figures | ({"calibration": groups} if groups else {}))
        return
    name, epsilon = saved.facts.get("model", "a model"), saved.facts.get("epsilon")
    out.print(
        f"{count_of(truth.size, 'row')}, {name}{'' if epsilon is None else f' trained at ε = {epsilon:g}'}",
        markup=False,
    )
    for name, value in figures.items():
        out.print(f"{name:<26} {'undefined' if value is None else plain(value, 6)}")
    if groups and saved.classes is not None:
        out.print(f"calibration, by the rate of {saved.classes[-1]}: records, mean rate, share", markup=False)
        for group in groups:
            out.print(f"  {group['records']:>9,}  {group['rate']:.4f}  {group['share']:.4f}")
