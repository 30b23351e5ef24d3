"""`labeldp train`, `predict` and `evaluate`: the features party's commands."""

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from labeldp.cli.completion import loss_offers, model_offers
from labeldp.cli.console import err, line, note, out, phases, print_json, stoppable
from labeldp.cli.lazy_help import LOSSES, learners
from labeldp.cli.options import Delimiter, Json, Quiet, VerifyKey, comma_list
from labeldp.cli.train_sums import train_from_sums
from labeldp.errors import InvalidInput
from labeldp.shown import count_of, plain

ModelOption = partial(typer.Option, rich_help_panel="Model")
ColumnsOption = partial(typer.Option, metavar="COL,…", rich_help_panel="Columns of the features")
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that labeldp train wrote.")]
TrustPickle = Annotated[
    bool,
    typer.Option(
        "--trust-pickle",
        help="Load the model even if it is a pickle. Loading a pickle runs whatever code the file holds, with your rights. "
        "Only for a model of somebody whom you would let run programs here.",
    ),
]
FOLDS = 5
ALL = 99.5
"""A share in percent that is printed as 100 %. No model explains more, so that "at most 100 %" says nothing."""
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
    learner: Annotated[
        str,
        ModelOption("--model", metavar="NAME", help="One of the models listed below.", autocompletion=model_offers),
    ] = "boosting",
    loss: Annotated[
        str | None,
        ModelOption(
            metavar="LOSS",
            help=f"The loss that predictions should keep small: {LOSSES}. By default the one that the message was made for.",
            autocompletion=loss_offers,
        ),
    ] = None,
    target_values: Annotated[
        Literal["auto", "bins", "debiased", "positive"] | None,
        ModelOption(
            metavar="VALUES",
            help="The values to train on: auto, bins, debiased or positive. auto, the default, is the best way for the loss.",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        ModelOption(min=1, metavar="N", help="Epochs of the network. By default as many as labels this noisy deserve."),
    ] = None,
    seed: Annotated[int | None, ModelOption(min=0, max=2**32 - 1, metavar="N", help="The seed of the model.")] = None,
    folds: Annotated[
        int,
        ModelOption(min=0, max=50, metavar="N", help="Folds for the estimate of the test error; 0 for no estimate."),
    ] = FOLDS,
    assume_nothing: Annotated[
        bool,
        ModelOption(
            "--assume-nothing", help="Intervals that hold for any labels and any model, however odd. Much wider."
        ),
    ] = False,
    categorical: Annotated[str | None, ColumnsOption(help="Read these as categories, whatever their type.")] = None,
    numeric: Annotated[str | None, ColumnsOption(help="Read these as numbers, whatever their type.")] = None,
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

    Nothing here costs privacy: whatever is computed from a message stays as private as the message.

    \b
    Examples:
      labeldp train message --features clicks.parquet --id order --out model
      labeldp train message --features clicks.csv --id order --out model
          --model network --categorical shop,country
      labeldp train sums --features clicks.parquet --id order
          --plan cells/plan.json --out model
    """  # noqa: D301 - the escape keeps the lines of the examples
    from labeldp.central.sums_release import is_answer
    from labeldp.evaluation.intervals.assumptions import ASSUMPTIONS
    from labeldp.message.reader import Message
    from labeldp.training.from_message import train_on_message
    from labeldp.training.saved import check_new

    check_new(model_path)
    silent = quiet or as_json
    if is_answer(message):
        given = {
            "--model": learner != "boosting",
            "--loss": loss not in (None, "squared"),
            "--target-values": target_values is not None,
            "--epochs": epochs is not None,
            "--seed": seed is not None,
            "--folds": folds != FOLDS,
            "--assume-nothing": assume_nothing,
            "--categorical": categorical is not None,
            "--numeric": numeric is not None,
            "--exclude": exclude is not None,
        }
        train_from_sums(
            message,
            features,
            id_column,
            plan,
            model_path,
            delimiter,
            given,
            verify_key=verify_key,
            quiet=quiet,
            as_json=as_json,
        )
        return
    if plan is not None:
        raise InvalidInput(
            f"--plan is for an answer of labeldp sums, and {message} is none: it has no sums.json. For a message of labeldp privatize "
            "leave --plan out"
        )
    chosen = learners()[learner]
    with stoppable("No model was written"), phases(quiet=silent) as phase:
        opened = Message.open(message, verify_key=verify_key)
        saved = train_on_message(
            opened,
            features,
            id_column,
            learner=chosen,
            loss=loss,
            target_values=target_values,
            categorical=comma_list(categorical) or None,
            numeric=comma_list(numeric) or None,
            exclude=comma_list(exclude),
            epochs=epochs,
            seed=seed,
            folds=folds,
            assume=() if assume_nothing else tuple(ASSUMPTIONS),
            progress=not silent and err.is_terminal,
            delimiter=delimiter,
            phase=phase,
        )
    saved.save(model_path)
    if as_json:
        print_json(saved.facts)
    elif not quiet:
        _report(saved.facts, model_path)
        ids = "" if opened.header.row_numbers else f" --id {shlex.quote(id_column)}"
        line("next", f"labeldp predict {model_path} FILE{ids} --out predictions.parquet")


def predict(
    model_path: ModelPath,
    features: Features,
    predictions: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Predictions: .parquet or .csv, a new file.")
    ],
    id_column: Annotated[
        str | None, typer.Option("--id", metavar="COL", help="Copy this column beside the predictions.")
    ] = None,
    delimiter: Delimiter = None,
    trust_pickle: TrustPickle = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict for every row of a features file.

    Example: labeldp predict model clicks.parquet --id order --out predictions.parquet
    """
    from labeldp.training.files import predict_file
    from labeldp.training.saved import SavedModel

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
    """Compare predictions with true labels, where somebody has them.

    These figures are computed from true labels and are not private.

    Example: labeldp evaluate model test.parquet --label amount
    """
    from labeldp.evaluation.metrics import metrics
    from labeldp.training.files import predictions_beside
    from labeldp.training.saved import SavedModel

    saved = SavedModel.load(model_path, trust_pickle=trust_pickle)
    with phases(quiet=as_json) as phase:
        predictions, truth = predictions_beside(saved, features, label, delimiter, phase=phase)
    figures = metrics(predictions, truth, saved.facts.get("loss", "squared"))
    note("these figures are computed from true labels and are not private")
    if as_json:
        print_json(figures)
        return
    name, epsilon = saved.facts.get("model", "a model"), saved.facts.get("epsilon")
    out.print(
        f"{count_of(truth.size, 'row')}, {name}{'' if epsilon is None else f' trained at ε = {epsilon:g}'}",
        markup=False,
    )
    for name, value in figures.items():
        out.print(f"{name:<26} {'undefined' if value is None else plain(value, 6)}")


def _report(facts: dict[str, Any], path: Path) -> None:
    line(
        "model",
        f"{path}: {facts['model']} for {facts['loss']} loss on {count_of(facts['records'], 'record')}{_named_values(facts)}, "
        f"ε = {facts['epsilon']:g}",
    )
    for name, noun, text in (
        ("features_without_label", "row", "of features had no private label"),
        ("labels_without_features", "private label", "had no features"),
    ):
        if facts[name]:
            were = "was" if facts[name] == 1 else "were"
            line("unpaired", f"{count_of(facts[name], noun)} {text} and {were} not used")
    for name, text in verdict(facts):
        line(name, text)


def _named_values(facts: dict[str, Any]) -> str:
    named = facts["target_values"] not in ("auto", "distribution")
    return f" with {facts['target_values']} values" if named else ""


def verdict(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """What the private labels say about the model, as lines of a report: a title and a sentence each."""
    from labeldp.evaluation.intervals.assumptions import ASSUMPTIONS

    estimates, lost = facts["estimates"], facts.get("estimated_loss")
    lines = _verdict_of_loss(facts["loss"], lost) if lost else []
    if "r2" in estimates:
        share = {key: None if value is None else 100 * value for key, value in estimates["r2"].items()}
        lines.append(("" if lines else "verdict", _explained(share)))
        lines.append(("", f"its mean squared test error is {_interval(estimates['error'])}"))
    if not estimates and not lost:
        lines.append(
            ("verdict", "none: these private labels do not tell how good a model is (labeldp evaluate needs true ones)")
        )
    if "r2" in estimates or (estimates and not lost):
        if "error_of_mean" in estimates:
            error = _interval(estimates["error_of_mean"])
            lines.append(("", f"always answering the mean has a mean squared error of {error}"))
        lines.append(("", f"the labels' mean is {_interval(estimates['mean'])}"))
        made = [f"that {ASSUMPTIONS[name]}" for name in facts["assumptions"]]
        besides = f", and {', and '.join(made)} (--assume-nothing does without)" if made else ""
        bare = "95 % intervals, from the private labels alone; they assume that labels lie within the bounds"
        lines.append(("", f"({bare}{besides})"))
    first, *others = lines
    return [(first[0] or "labels", first[1]), *others]  # without a verdict the figures are about the labels alone


def _verdict_of_loss(name: str, lost: dict[str, float]) -> list[tuple[str, str]]:
    from labeldp.evaluation.other_losses import LossEstimate

    better = LossEstimate(**lost).better
    judged = "these labels do not show whether it is better than"
    if better is not None:
        judged = "it is better than" if better else "it is worse than"
    model, constant, chance = (plain(lost[key], 4) for key in ("model", "constant", "chance"))
    return [
        (
            "verdict",
            f"the model's {name} loss is about {model}, that of the best single answer about {constant}: {judged} that",
        ),
        (
            "",
            f"(from the private labels alone; the difference is uncertain by ±{chance}, and by what they hide of this loss)",
        ),
    ]


def _explained(share: dict[str, float | None]) -> str:
    lower, upper = share["lower"], share["upper"]
    if lower is not None and lower > 0:
        judged = "it is better than always answering the mean"
    elif upper is not None and upper < 0:
        judged = "it is worse than always answering the mean"
    else:
        known = (("at least", lower), ("at most", None if upper is None or upper >= ALL else upper))
        ends = [f"{word} {_figure(end, ' %', 2)}" for word, end in known if end is not None]
        share_known = f": it explains {' and '.join(ends)} of the labels' variation" if ends else ""
        return f"too noisy to say whether the model is better than always answering the mean{share_known}"
    return f"the model explains {_interval(share, ' %', digits=2)} of the labels' variation: {judged}"


def _interval(figure: dict[str, float | None], unit: str = "", digits: int = 4) -> str:
    value, lower, upper = (figure[key] for key in ("value", "lower", "upper"))
    lower = 0.0 if lower is not None and value is not None and abs(lower) < 1e-6 * abs(value) else lower
    if lower is not None and upper is not None and value in (lower, upper):  # cut off there: it is no estimate
        most = _figure(upper, unit, digits)
        return f"at most {most}" if lower == 0 else f"between {_figure(lower, unit, digits)} and {most}"
    ends = f"to {_figure(upper, unit, digits)}" if lower is not None else f"at most {_figure(upper, unit, digits)}"
    return f"about {_figure(value, unit, digits)} ({'' if lower is None else _figure(lower, unit, digits) + ' '}{ends})"


def _figure(value: float | None, unit: str, digits: int) -> str:
    return "unknown" if value is None else f"{plain(value, digits)}{unit}"
