"""`labeldp.train`: from a message or an answer with sums, and a file of features, to a trained model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from labeldp.arrays import Floats
from labeldp.artifact.id_join import match_ids
from labeldp.artifact.labels_file import id_kind
from labeldp.artifact.reader import Message
from labeldp.errors import InvalidInput, described
from labeldp.evaluate.estimates import (
    estimates_of_classes,
    estimates_of_mean,
    estimates_of_model,
    evaluated_labels,
    made_assumptions,
    out_of_fold_predictions,
)
from labeldp.evaluate.foreseen import score_epsilon, score_within
from labeldp.evaluate.intervals import ASSUMPTIONS
from labeldp.evaluate.scoring import estimate_loss
from labeldp.formatting import count_of
from labeldp.learn.conditional import Recipe
from labeldp.learn.feature_columns import ColumnKey
from labeldp.learn.feature_tables import FeatureTable
from labeldp.learn.joined_features import joined_features, read_features, warn_of_lost_records, warn_of_suspects
from labeldp.learn.learners import Learner, LearnerRequest, learners
from labeldp.learn.saved import SavedModel
from labeldp.learn.sums.cells_plan import model_from_answer
from labeldp.learn.sums.cells_to_send import read_plan
from labeldp.learn.sums.sums_model import SumsModel
from labeldp.learn.verdict import Line, report_lines
from labeldp.losses import LossLike, get_loss, seeks_mean
from labeldp.mechanisms import FiniteMechanism, PrivateLabels
from labeldp.release.label_range import part_places
from labeldp.release.private_sums import PrivateSums
from labeldp.release.sums import SumsAnswer, is_answer
from labeldp.tables.files import Phase

FOLDS = 5
FOR_LABELS = (
    *("model", "loss", "target_values", "epochs", "seed", "folds", "assume"),
    *("categorical", "numeric", "exclude"),
)
"""Options of `train` that do not fit an answer with sums."""


@dataclass(frozen=True)
class TrainingResult:
    """A trained model and estimates of its quality, from `train`.

    Attributes
    ----------
    model : SavedModel
        The fitted model and the facts of its training. It is not saved yet: `model.save(path)` writes it.
    report : tuple of (str, str)
        What `labeldp train` prints: a title and a sentence for each line. `print(result)` shows them.
    id_column : str or None
        The column of ids in the features; None if the message's ids are row numbers.

    Examples
    --------
    >>> from labeldp import SavedModel
    >>> from labeldp.learn import TrainingResult
    >>> result = TrainingResult(SavedModel(None, {}), (("model", "a line"), ("verdict", "it is good")), "order")
    >>> print(result)
    model    a line
    verdict  it is good
    >>> result.verdict
    'it is good'
    """

    model: SavedModel
    report: tuple[Line, ...]
    id_column: str | None

    @property
    def estimator(self) -> Any:
        """The fitted scikit-learn regressor, or the `SumsModel`."""
        return self.model.model

    @property
    def verdict(self) -> str:
        """What the private labels or sums show about the quality of the model, in one sentence. Empty if nothing."""
        return next((text for title, text in self.report if title == "verdict"), "")

    def __str__(self) -> str:
        return "\n".join(f"{title:<8} {text}" for title, text in self.report)


def train(
    message: Message | SumsAnswer | str | Path,
    features: Any,
    *,
    id: str,  # noqa: A002 - as the option --id
    plan: str | Path | None = None,
    model: Learner | str | None = None,
    loss: LossLike | None = None,
    target_values: str | None = None,
    categorical: Sequence[ColumnKey] | None = None,
    numeric: Sequence[ColumnKey] | None = None,
    exclude: Sequence[str] | None = None,
    epochs: int | None = None,
    seed: int | None = None,
    folds: int | None = None,
    assume: Collection[str] | None = None,
    verify_key: Any = None,
    delimiter: str | None = None,
    progress: bool = False,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> TrainingResult:
    """Join private labels with features by id and train a model: what `labeldp train` does.

    An answer of `labeldp sums` takes `plan`, `delimiter` and `phase` of the options, since its columns and its model were chosen with
    the cells. A message of `labeldp privatize` takes all others.

    Parameters
    ----------
    message : Message, SumsAnswer, str or Path
        The message or the answer from the labels party, or its folder.
    features : table, str or Path
        The features as a pandas, polars or Arrow table, or a file of them: Parquet (also a folder of parts), CSV or TSV (also gzipped), Arrow IPC. A file is
        read in batches, and only the columns to learn from. For an answer it must be a file.
    id : str
        The column of record ids in the features. If the message's ids are row numbers, it is "row", which need not be a
        column. The ids of a text file are read like the ids of the message: as integers or as text.
    plan : str or Path, optional
        For an answer: the `plan.json` that `labeldp cells` wrote together with the cells.
    model : str or Learner, optional
        The name of a learner: "stack" (several models, weighted by validation on the private labels), "boosting" (a line and small
        trees: less accurate, and 70 times as fast), or "network". By default a stack; for more than four classes "boosting".
    loss : str, Loss or callable, optional
        The loss that predictions should keep small. By default the one that the message was made for, if it has a name.
    target_values : {"auto", "bins", "debiased", "positive"}, optional
        The values that represent the codes, see `code_values`. By default, and for "auto", the best recipe for the loss. Other
        values are for the losses that the learner itself can train with.
    categorical, numeric : sequence of str or int, optional
        Columns to read as categories or as numbers regardless of their type.
    exclude : sequence of str, optional
        Columns to leave out.
    epochs : int, optional
        The number of passes over the data, for learners that count them.
    seed : int, optional
        The seed of the learner, from 0 to 2^32 - 1.
    folds : int, default 5
        The number of folds for the estimate of the test error; 0 for no estimate. A stack has its own folds.
    assume : collection of {"tails", "part", "batches"}, optional
        What the intervals of the estimates may rest on, see `estimate_error`. By default all; `()` for none.
    verify_key : str or Path, optional
        The public key that the message must be signed with, as in `Message.open`.
    delimiter : str, optional
        What separates the columns of a text file of features. By default its header line shows it.
    progress : bool
        Whether the learner shows its progress.
    phase : callable, optional
        For progress bars: called with the name and the number of rows (or None) of each phase, and finally with "training"
        and the number of models to train. Returns None or a function that is called with the number of rows or models done.
        A learner that shows its own progress trains in a phase without a name.

    Returns
    -------
    TrainingResult
        The model, not saved yet, and the report on it.

    Raises
    ------
    InvalidInput
        If the features do not fit the message, or an option does not fit the kind of the message.

    Warns
    -----
    FeatureWarning
        If a column is left out because it is an index of pandas, or is probably an id or the label itself. Also if more
        than half of the features and more than half of the private labels are unmatched.

    Privacy
    -------
    Costs nothing: the message is private already, and the features are the reader's own.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq
    >>> import labeldp
    >>> size = np.random.default_rng(0).normal(size=2000)
    >>> labels = pa.table({"order": np.arange(2000), "amount": np.clip(100 + 40 * size, 0, 400)})
    >>> randomizer = labeldp.LabelRandomizer(2, (0, 400))
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     pq.write_table(labels, folder / "labels.parquet")
    ...     source = labeldp.LabelSource(folder / "labels.parquet", "amount", "order")
    ...     outcome = labeldp.privatize(source, randomizer, folder / "message")  # the labels party
    ...     clicks = pa.table({"order": np.arange(2000), "size": size})  # the features party
    ...     result = labeldp.train(folder / "message", clicks, id="order", seed=0)
    >>> result.model.facts["records"], bool(result.verdict)
    (2000, True)
    >>> result.model.predict(clicks).shape
    (2000,)
    """
    given = {name for name, value in locals().items() if value is not None}
    if not isinstance(features, pa.Table | str | Path):
        table = FeatureTable.of(features)
        features = pa.table({name: table.column(name) for name in table.names})
    of_sums = isinstance(message, SumsAnswer) or (isinstance(message, str | Path) and is_answer(Path(message)))
    _check_options(message, given - {"loss"} if loss == "squared" else given, of_sums=of_sums)
    if of_sums:
        if not isinstance(message, SumsAnswer) or verify_key is not None:
            message = SumsAnswer.open(getattr(message, "path", message), verify_key=verify_key)  # type: ignore[arg-type]
        return _train_on_sums(message, features, id, Path(str(plan)), delimiter, phase)
    if not isinstance(message, Message) or verify_key is not None:
        message = Message.open(getattr(message, "path", message), verify_key=verify_key)  # type: ignore[arg-type]
    folds = FOLDS if folds is None else folds
    if folds == 1:
        raise InvalidInput("one fold leaves nothing to train on: give 2 folds or more, or 0 for no estimate")
    if seed is not None and not 0 <= seed < 2**32:
        raise InvalidInput(f"seed must be a whole number from 0 to 2^32 - 1, got {described(seed)}")
    assume = tuple(ASSUMPTIONS) if assume is None else assume
    mechanism = message.mechanism
    recipe = Recipe.of(mechanism, loss if loss is not None else loss_of(mechanism), target_values)
    stacked = (recipe.conditional or recipe.loss.name == "squared") and not recipe.many_classes
    default = "stack" if stacked else "boosting"
    learner = model if isinstance(model, Learner) else learners()[default if model is None else model]
    _check_values(recipe, learner)
    columns: dict[str, Any] = {"exclude": exclude or (), "categorical": categorical or (), "numeric": numeric or ()}
    found = joined_features(message, features, id, **columns, delimiter=delimiter, phase=phase)
    used, joined = found.table, found.joined
    warn_of_lost_records(joined.rows.size, joined.without_label, joined.without_features, stacklevel=2)
    about: dict[str, Any] = {"index": found.index, "label_column": message.header.label_column, "rows": joined.rows}
    warn_of_suspects(used, **about, numeric=columns["numeric"], stacklevel=2)
    native = "squared" if recipe.conditional else recipe.loss.name
    request = LearnerRequest(joined.rows.size, recipe.share, native, categorical, numeric, seed, epochs, progress)
    estimator, targets = recipe.model(learner.make(request)), recipe.targets(joined.codes)
    private, batches_differ = evaluated_labels(message, joined.codes, assume)
    estimates = estimates_of_mean(private, assume)
    cross_validated = folds >= 2 and len(private) >= 2 * folds and (recipe.conditional or bool(estimates))
    validates = hasattr(estimator, "fit_out_of_fold")
    models = estimator.steps(len(private)) if validates else folds + 1 if cross_validated else 1
    advance = phase("", None) if progress and learner.own_progress else phase("training", models)
    lost: dict[str, float] = {}
    domain = mechanism.domain
    if validates:
        rows, predictions = estimator.fit_out_of_fold(used, targets, advance=advance)
    else:
        rows = np.arange(len(private))
        if cross_validated:
            predictions = out_of_fold_predictions(_reporting(estimator, advance), used, targets, folds)
        estimator.fit(used, targets)
        if advance is not None:
            advance(1)
    if cross_validated:
        held = private if rows.size == len(private) else PrivateLabels(private.codes[rows], private.mechanism)
        if estimates and seeks_mean(recipe.loss):
            estimates |= estimates_of_model(held, predictions, assume)
        if message.classes is not None:
            estimates |= estimates_of_classes(held, predictions)
        elif recipe.conditional:
            lost = asdict(estimate_loss(held, predictions, recipe.loss))
    asked = _score(message, id, predictions) if cross_validated and "r2" in estimates else None
    facts = {
        "model": learner.name,
        "loss": recipe.loss.name if message.classes is None else "log",
        "target_values": recipe.decoder,
        "members": [asdict(member) for member in getattr(estimator, "members", ())],
        "records": int(joined.rows.size),
        "features_without_label": joined.without_label,
        "labels_without_features": joined.without_features,
        "columns": used.schema.names,
        "index_columns_left_out": found.index,
        "epsilon": float(message.epsilon_exact),
        "mechanism": mechanism.kind,
        "mechanism_digest": mechanism.digest,
        "release": message.header.release,
        "bounds": None if domain is None or message.classes else [domain.lower, domain.upper],
        "unit": message.unit,
        "classes": None if message.classes is None else list(message.classes),
        "estimates": estimates,
        "estimated_loss": lost,
        "assumptions": made_assumptions(private, assume, message.records) if "mean" in estimates else [],
        "batches_differ": batches_differ,
        "score": asked,
    }
    return _result(estimator, facts, None if message.header.row_numbers else id)


def _score(message: Message, id_column: str, predictions: Floats) -> dict[str, Any] | None:
    """Return what a score of the predictions for a tenth of the message's ε would tell, from public numbers."""
    domain, epsilon = message.mechanism.domain, score_epsilon(message.epsilon_exact)
    if domain is None or message.header.row_numbers or epsilon is None:
        return None
    width = domain.upper - domain.lower
    within = score_within(np.clip((predictions - domain.lower) / width, 0, 1), epsilon, predictions.size)
    prior = message.mechanism.prior
    if within is None or (prior is not None and within * width**2 > prior.variance):  # it would tell nothing
        return None
    names = {"label": message.header.label_column, "id": id_column}
    if message.header.persons is not None:
        names["person"] = message.header.persons.column
    return {"epsilon": float(epsilon), "within": within * width**2, **names}


def _result(estimator: Any, facts: dict[str, Any], id_column: str | None) -> TrainingResult:
    return TrainingResult(SavedModel(estimator, facts), tuple(report_lines(facts)), id_column)


def _check_options(message: object, given: set[str], *, of_sums: bool) -> None:
    """Raise `InvalidInput` for options that do not fit the kind of the message."""
    place = getattr(message, "path", message)
    if of_sums and "plan" not in given:
        raise InvalidInput(
            f"{place} is an answer with sums: give --plan too, the plan.json that labeldp cells wrote next to cells.parquet"
        )
    if of_sums and (wrong := [name for name in FOR_LABELS if name in given]):
        options = [f"{name} (--{'assume-nothing' if name == 'assume' else name.replace('_', '-')})" for name in wrong]
        is_are, it = ("is", "it") if len(wrong) == 1 else ("are", "them")
        raise InvalidInput(
            f"{' and '.join(options)} {is_are} for messages of labeldp privatize, and {place} is an answer with sums: leave {it} out. "
            "Columns are chosen with labeldp cells"
        )
    if not of_sums and "plan" in given:
        raise InvalidInput(
            f"--plan is for an answer of labeldp sums, and {place} is not one: it lacks sums.json. For a message of labeldp privatize "
            "leave --plan out"
        )


def loss_of(mechanism: FiniteMechanism) -> str:
    """Return the named loss that a mechanism was designed for; squared by default."""
    name = mechanism.loss or "squared"
    try:
        get_loss(name)
    except InvalidInput:  # the name of a function that only the labels party has
        return "squared"
    return name


def _check_values(recipe: Recipe, learner: Learner) -> None:
    """Raise `InvalidInput` for values that the learner cannot take with that loss."""
    if recipe.conditional:
        return
    name = recipe.loss.name
    if name not in learner.losses:
        raise InvalidInput(
            f"the model {learner.name} trains on {recipe.decoder} values with {' or '.join(learner.losses)} loss, not "
            f"{name}. Leave target_values (--target-values) out: then a model for {name} loss is trained another way"
        )
    if name == "poisson" and recipe.values.min() < 0:
        raise InvalidInput(
            f"Poisson loss does not accept negative targets, and the {recipe.decoder} values of this message reach down to "
            f"{recipe.values.min():.4g}. Leave target_values (--target-values) out: then they are not needed"
        )


def _reporting(estimator: Any, advance: Callable[[int], None] | None) -> Any:
    """Return an estimator like this one whose clones call `advance(1)` after each `fit`; itself without `advance`."""
    if advance is None:
        return estimator
    kind: Any = type(estimator)
    report: Callable[[int], None] = advance

    class Reporting(kind):  # type: ignore[misc]
        def fit(self, *data: Any, **options: Any) -> Self:
            super().fit(*data, **options)
            report(1)
            return self

    return Reporting(**estimator.get_params(deep=False))


def _train_on_sums(
    answer: SumsAnswer,
    features: pa.Table | str | Path,
    id_column: str,
    plan_path: Path,
    delimiter: str | None,
    phase: Phase,
) -> TrainingResult:
    plan = read_plan(plan_path)
    if isinstance(features, pa.Table):
        raise InvalidInput(
            "features must be the file from which the cells were made, not a table in memory: give its path"
        )
    encoder = plan.partitions.encoder
    found = read_features(
        Path(features),
        id_column,
        columns=encoder.columns,
        categorical=[vocabulary.name for vocabulary in encoder.categorical],
        id_type=id_kind(answer.ids.type),
        delimiter=delimiter,
        phase=phase,
    )
    rows = match_ids(answer.ids, found.ids, answer.path, found.path, distinct=True)
    if lost := int(np.count_nonzero(rows < 0)):
        raise InvalidInput(
            f"{count_of(lost, 'record')} of {answer.path} {'is' if lost == 1 else 'are'} not in {found.path}: give the features from "
            "which the cells were made"
        )
    order = np.argsort(rows)
    table = found.table.take(pa.array(rows[order]))
    phase("training", None)
    model = model_from_answer(plan, table, answer.sums, None if answer.weights is None else answer.weights[order])
    domain = answer.sums.domain
    facts = {
        "model": "sums",
        "loss": "squared",
        "records": answer.sums.records,
        "features_without_label": found.table.num_rows - table.num_rows,
        "columns": list(encoder.columns),
        "epsilon": float(answer.sums.epsilon_exact),
        "bounds": [domain.lower, domain.upper],
        "unit": domain.unit,
        "explained": _explained(model, answer.sums, table),
    }
    return _result(model, facts, id_column)


def _explained(model: SumsModel, sums: PrivateSums, table: pa.Table) -> dict[str, float]:
    """Return the share of the variation of clipped labels that the model expects to explain, with a 95 % interval for the histogram's noise.

    The model is a posterior mean, so its variance over the records is what it expects to explain. The variance of the labels is
    a sum of noisy counts, each times a square. That is not biased, and its own variance is known.
    """
    counts, domain = sums.answers[0], sums.domain
    first, last, _ = part_places(counts)
    middles = domain.lower + domain.step * np.clip((first + last) / 2, *model.range.clip)
    squares = np.square(middles - model.mean) / sums.size
    variance, error = float(squares @ counts.sums), float(np.sqrt(counts.sums_variance * np.square(squares).sum()))
    explained = float((model.predict(table) / model.range.factor).var())
    amounts = {"value": variance, "lower": variance + 1.96 * error, "upper": variance - 1.96 * error}
    return {name: min(1.0, explained / max(amount, explained, 1e-300)) for name, amount in amounts.items()}
