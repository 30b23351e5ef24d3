"""From a message and a table of features to a trained model: everything that `labeldp train` does."""

from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow as pa

from labeldp.errors import InvalidInput
from labeldp.evaluation.intervals.assumptions import ASSUMPTIONS
from labeldp.evaluation.summary import estimates_of_mean, estimates_of_model, made_assumptions
from labeldp.mechanisms import PrivateLabels
from labeldp.mechanisms.decoding import code_values
from labeldp.message.reader import Message
from labeldp.training.columns import ColumnKey
from labeldp.training.files import column, read_table
from labeldp.training.joining import join
from labeldp.training.learners import LEARNERS, Learner, LearnerRequest
from labeldp.training.saved import SavedModel
from labeldp.training.sizing import label_share


def train_on_message(
    message: Message | str | Path,
    features: pa.Table | str | Path,
    id_column: str,
    *,
    learner: Learner | str = "boosting",
    loss: str = "squared",
    target_values: str | None = None,
    categorical: Sequence[ColumnKey] | None = None,
    numeric: Sequence[ColumnKey] | None = None,
    exclude: Sequence[str] = (),
    epochs: int | None = None,
    seed: int | None = None,
    folds: int = 5,
    assume: Collection[str] = tuple(ASSUMPTIONS),
    progress: bool = False,
) -> SavedModel:
    """Join a message with features by id and train a model on the private labels.

    Parameters
    ----------
    message : Message, str or Path
        The message from the labels party, or its folder.
    features : pyarrow.Table, str or Path
        The features, or a file that `read_table` reads.
    id_column : str
        The column of record ids in the features.
    learner : Learner or str
        An entry of the catalogue `labeldp.training.learners.LEARNERS`, or its name.
    loss : str
        The loss to train with, one of those that the learner knows.
    target_values : {"auto", "bins", "debiased", "positive"}, optional
        The values that stand for the codes, see `code_values`. By default "positive" for Poisson loss, else "auto".
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
    assume : collection of {"tails", "part"}
        What the intervals of the estimates may rest on, see `estimate_error`. By default both; `()` for neither.
    progress : bool
        Whether the learner shows its progress.

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
    if loss not in learner.losses:
        raise InvalidInput(f"the model {learner.name} trains with the loss {' or '.join(learner.losses)}, not {loss!r}")
    decoder = target_values or ("positive" if loss == "poisson" else "auto")
    mechanism = message.mechanism
    values = code_values(mechanism, decoder)
    if loss == "poisson" and values.min() < 0:
        raise InvalidInput(f"Poisson loss takes no negative targets: use the target values positive, not {decoder}")
    where = "the table of features" if isinstance(features, pa.Table) else features
    table = features if isinstance(features, pa.Table) else read_table(Path(features))
    joined = join(message, column(table, id_column, where))
    for name in exclude:
        column(table, name, where)
    used = table.select([name for name in table.schema.names if name not in {id_column, *exclude}]).take(joined.rows)
    if not used.num_columns:
        raise InvalidInput(f"{where} has no column left to learn from besides {id_column!r}")
    model = learner.make(
        LearnerRequest(
            joined.rows.size, label_share(mechanism, values), loss, categorical, numeric, seed, epochs, progress
        )
    )
    targets = values[joined.codes]
    counts = None if mechanism.prior is None else mechanism.prior.counts
    later_batches = counts is not None and joined.rows.size + joined.without_features > counts.records
    private = PrivateLabels(joined.codes, mechanism.without_counts() if later_batches else mechanism)
    estimates = estimates_of_mean(private, assume)
    if estimates and folds >= 2 and loss == "squared":
        estimates |= estimates_of_model(model, used, targets, private, folds, assume)
    model.fit(used, targets)
    domain = mechanism.domain
    facts = {
        "model": learner.name,
        "loss": loss,
        "target_values": decoder,
        "records": int(joined.rows.size),
        "features_without_label": joined.without_label,
        "labels_without_features": joined.without_features,
        "columns": used.schema.names,
        "epsilon": float(message.epsilon_exact),
        "mechanism": mechanism.kind,
        "mechanism_digest": mechanism.digest,
        "release": message.header.release,
        "bounds": None if domain is None else [domain.lower, domain.upper],
        "estimates": estimates,
        "assumptions": made_assumptions(private, assume) if estimates else [],
    }
    return SavedModel(model, facts)
