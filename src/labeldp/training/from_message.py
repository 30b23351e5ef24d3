"""From a message and a table of features to a trained model: everything that `labeldp train` does."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from labeldp.errors import InvalidInput, described
from labeldp.evaluation.intervals import ASSUMPTIONS
from labeldp.evaluation.scoring import estimate_loss
from labeldp.evaluation.summary import estimates_of_mean, estimates_of_model, made_assumptions, predicted_out_of_fold
from labeldp.features.columns import ColumnKey
from labeldp.losses import LossLike, get_loss, seeks_mean
from labeldp.mechanisms import FiniteMechanism, PrivateLabels
from labeldp.message.reader import Message
from labeldp.release.outcome import Phase
from labeldp.training.joined_features import joined_features
from labeldp.training.learners import LEARNERS, Learner, LearnerRequest
from labeldp.training.recipe import Recipe
from labeldp.training.saved import SavedModel
from labeldp.training.suspects import warn_of_lost_records, warn_of_suspects
from labeldp.training.ticking import counted


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
    assume: Collection[str] = tuple(ASSUMPTIONS),
    progress: bool = False,
    delimiter: str | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> SavedModel:
    """Join a message with features by id and train a model on the private labels.

    Parameters
    ----------
    message : Message, str or Path
        The message from the labels party, or its folder.
    features : pyarrow.Table, str or Path
        The features, or a file of them: Parquet (also a folder of parts), CSV or TSV (also gzipped), Arrow IPC. A file is
        read in batches, and only the columns to learn from.
    id_column : str
        The column of record ids in the features. If the message's ids are row numbers, it is "row", which need not be a column.
        The ids of a text file are taken as they are written: as integers if those of the message are, as text if not.
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
        The seed of the learner, from 0 to 2^32 - 1.
    folds : int
        The number of folds for the estimate of the test error. Below 2 there is no estimate.
    assume : collection of {"tails", "part"}
        What the intervals of the estimates may rest on, see `estimate_error`. By default both; `()` for neither.
    progress : bool
        Whether the learner shows its progress.
    delimiter : str, optional
        What separates the columns of a text file of features. By default its header line shows it.
    phase : callable, optional
        For progress bars: called with the name and the number of rows (or None) of each phase, and at last with "training"
        and the number of models to train. Returns None or a function that is called with the number of rows or models done.
        A learner that shows its own progress trains in a phase without a name.

    Returns
    -------
    SavedModel
        The fitted model and its facts, not saved yet.

    Warns
    -----
    FeatureWarning
        If a column is left out because it is an index of pandas, or is probably an id or the label itself. Also if more than half
        of the features and more than half of the private labels have no partner.

    Privacy
    -------
    Costs nothing: the message is private already, and the features are the reader's own.

    """
    message = message if isinstance(message, Message) else Message.open(message)
    learner = learner if isinstance(learner, Learner) else LEARNERS[learner]
    if folds == 1:
        raise InvalidInput("one fold leaves nothing to train on: give 2 folds or more, or 0 for no estimate")
    if seed is not None and not 0 <= seed < 2**32:
        raise InvalidInput(f"seed must be a whole number from 0 to 2^32 - 1, got {described(seed)}")
    mechanism = message.mechanism
    recipe = Recipe.of(mechanism, loss if loss is not None else loss_of(mechanism), target_values)
    _check_values(recipe, learner)
    found = joined_features(
        message,
        features,
        id_column,
        exclude=exclude,
        categorical=categorical or (),
        numeric=numeric or (),
        delimiter=delimiter,
        phase=phase,
    )
    used, joined = found.table, found.joined
    warn_of_lost_records(joined.rows.size, joined.without_label, joined.without_features, stacklevel=2)
    warn_of_suspects(
        used,
        index=found.index,
        label_column=message.header.label_column,
        rows=joined.rows,
        numeric=numeric or (),
        stacklevel=2,
    )
    native = "squared" if recipe.conditional else recipe.loss.name
    model = recipe.model(
        learner.make(
            LearnerRequest(joined.rows.size, recipe.share, native, categorical, numeric, seed, epochs, progress)
        )
    )
    targets = recipe.targets(joined.codes)
    counts = None if mechanism.prior is None else mechanism.prior.counts
    later_batches = counts is not None and joined.rows.size + joined.without_features > counts.records
    private = PrivateLabels(joined.codes, mechanism.without_counts() if later_batches else mechanism)
    estimates = estimates_of_mean(private, assume)
    cross_validated = folds >= 2 and (recipe.conditional or bool(estimates))
    models = folds + 1 if cross_validated else 1
    tick = phase("", None) if progress and learner.own_progress else phase("training", models)
    lost: dict[str, float] = {}
    if cross_validated:
        predictions = predicted_out_of_fold(counted(model, tick), used, targets, private, folds)
        if predictions is not None and estimates and seeks_mean(recipe.loss):
            estimates |= estimates_of_model(private, predictions, assume)
        if predictions is not None and recipe.conditional:
            lost = asdict(estimate_loss(private, predictions, recipe.loss))
    model.fit(used, targets)
    if tick is not None:
        tick(1)
    domain = mechanism.domain
    facts = {
        "model": learner.name,
        "loss": recipe.loss.name,
        "target_values": recipe.decoder,
        "records": int(joined.rows.size),
        "features_without_label": joined.without_label,
        "labels_without_features": joined.without_features,
        "columns": used.schema.names,
        "index_columns_left_out": found.index,
        "epsilon": float(message.epsilon_exact),
        "mechanism": mechanism.kind,
        "mechanism_digest": mechanism.digest,
        "release": message.header.release,
        "bounds": None if domain is None else [domain.lower, domain.upper],
        "unit": message.unit,
        "estimates": estimates,
        "estimated_loss": lost,
        "assumptions": made_assumptions(private, assume) if estimates else [],
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
