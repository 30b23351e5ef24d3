"""From a message and a table of features to a trained model: everything that `labeldp train` does."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from labeldp.errors import InvalidInput
from labeldp.evaluation.summary import estimates_of_mean, estimates_of_model
from labeldp.losses import LossLike, get_loss, seeks_mean
from labeldp.mechanisms import FiniteMechanism, PrivateLabels
from labeldp.message.reader import Message
from labeldp.training.columns import ColumnKey
from labeldp.training.files import column, read_table
from labeldp.training.joining import join
from labeldp.training.learners import LEARNERS, Learner, LearnerRequest
from labeldp.training.recipe import Recipe
from labeldp.training.saved import SavedModel


def train_on_message(
    message: Message | str | Path,
    features: pa.Table | str | Path,
    id_column: str,
    *,
    learner: Learner | str = "boosting",
    loss: LossLike | None = None,
    target_values: str | None = None,
    categorical: Sequence[ColumnKey] | None = None,
    numeric: Sequence[ColumnKey] | None = None,
    exclude: Sequence[str] = (),
    epochs: int | None = None,
    seed: int | None = None,
    folds: int = 5,
    progress: bool = False,
    delimiter: str | None = None,
) -> SavedModel:
    """Join a message with features by id and train a model on the private labels.

    Parameters
    ----------
    message : Message, str or Path
        The message from the labels party, or its folder.
    features : pyarrow.Table, str or Path
        The features, or a file that `read_table` reads.
    id_column : str
        The column of record ids in the features. If the message's ids are row numbers, "row" need not be a column.
    learner : Learner or str
        An entry of the catalogue `labeldp.training.learners.LEARNERS`, or its name.
    loss : str, Loss or callable, optional
        The loss that predictions should keep small. By default the one that the message was made for, if it has a name.
    target_values : {"auto", "bins", "debiased", "positive"}, optional
        The values that stand for the codes, see `code_values`. By default, and for "auto", the best recipe for the loss. Other
        values are for the losses that the learner itself can train with.
    categorical, numeric : sequence of str or int, optional
        Columns to read as categories or as numbers whatever their type.
    exclude : sequence of str
        Columns to leave out.
    epochs : int, optional
        The number of passes over the data, for learners that count them.
    seed : int, optional
        The seed of the learner.
    folds : int
        The number of folds for the estimate of the test error. Below 2 there is no estimate.
    progress : bool
        Whether the learner shows its progress.
    delimiter : str, optional
        What separates the columns of a text file of features. By default its header line shows it.

    Returns
    -------
    SavedModel
        The fitted model and its facts, not saved yet.

    Privacy
    -------
    Costs nothing: the message is private already, and the features are the reader's own.

    """
    message = message if isinstance(message, Message) else Message.open(message)
    learner = learner if isinstance(learner, Learner) else LEARNERS[learner]
    if folds == 1:
        raise InvalidInput("one fold leaves nothing to train on: give 2 folds or more, or 0 for no estimate")
    mechanism = message.mechanism
    recipe = Recipe.of(mechanism, loss if loss is not None else loss_of(mechanism), target_values)
    _check_values(recipe, learner)
    where = "the table of features" if isinstance(features, pa.Table) else features
    table = features if isinstance(features, pa.Table) else read_table(Path(features), delimiter)
    joined = join(message, _ids(table, id_column, where, message))
    for name in exclude:
        column(table, name, where)
    used = table.select([name for name in table.schema.names if name not in {id_column, *exclude}]).take(joined.rows)
    if not used.num_columns:
        raise InvalidInput(f"{where} has no column left to learn from besides {id_column!r}")
    native = "squared" if recipe.conditional else recipe.loss.name
    model = recipe.model(
        learner.make(
            LearnerRequest(joined.rows.size, recipe.share, native, categorical, numeric, seed, epochs, progress)
        )
    )
    targets = recipe.targets(joined.codes)
    private = PrivateLabels(joined.codes, mechanism)
    estimates = estimates_of_mean(private)
    if estimates and folds >= 2 and seeks_mean(recipe.loss):
        estimates |= estimates_of_model(model, used, targets, private, folds)
    model.fit(used, targets)
    domain = mechanism.domain
    facts = {
        "model": learner.name,
        "loss": recipe.loss.name,
        "target_values": recipe.decoder,
        "records": int(joined.rows.size),
        "features_without_label": joined.without_label,
        "labels_without_features": joined.without_features,
        "columns": used.schema.names,
        "epsilon": float(message.epsilon_exact),
        "mechanism": mechanism.kind,
        "mechanism_digest": mechanism.digest,
        "release": message.header.release,
        "bounds": None if domain is None else [domain.lower, domain.upper],
        "unit": message.unit,
        "estimates": estimates,
    }
    return SavedModel(model, facts)


def loss_of(mechanism: FiniteMechanism) -> str:
    """The named loss that a mechanism was designed for; squared where it has none."""
    name = mechanism.loss or "squared"
    try:
        get_loss(name)
    except InvalidInput:  # the name of a function that only the labels party has
        return "squared"
    return name


def _check_values(recipe: Recipe, learner: Learner) -> None:
    """Refuse values that the learner cannot take with that loss, and name the way that works."""
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
            f"Poisson loss takes no negative targets, and the {recipe.decoder} values of this message reach down to "
            f"{recipe.values.min():.4g}. Leave target_values (--target-values) out: then they are not needed"
        )


def _ids(table: pa.Table, id_column: str, where: object, message: Message) -> pa.ChunkedArray | pa.Array:
    """The ids of the features. Where the message's ids are row numbers, those of the features need no column."""
    named = message.header.row_numbers and id_column == message.header.id_column
    if not named or id_column in table.schema.names:
        return column(table, id_column, where)
    if table.num_rows != message.records:
        raise InvalidInput(
            f"the ids of {message.path} are the row numbers of the labels, but {where} has {table.num_rows:,} rows and the message "
            f"{message.records:,}. Give the features of the same records in the same order, with a column {id_column!r} of row "
            "numbers from 0 if some are left out, or ask for a message that was made with --id"
        )
    return pa.array(range(table.num_rows), pa.int64())
