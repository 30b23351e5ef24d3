"""The paper's network as a scikit-learn regressor."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from labeldp.arrays import Floats, label_array
from labeldp.errors import InvalidInput, MissingExtra
from labeldp.learn.estimator_checks import QuietScore, without_values
from labeldp.learn.feature_columns import ColumnEncoder, ColumnKey, standardizer
from labeldp.learn.feature_tables import FeatureTable
from labeldp.learn.learners import LEARNERS, Learner, LearnerRequest
from labeldp.learn.record_checks import all_are, exactly, is_a
from labeldp.learn.stored.codec import State, StoredType, add
from labeldp.learn.stored.estimators import estimator
from labeldp.paper.network.weights import Singles, TrainingLoss, Weights, mean_loss

if TYPE_CHECKING:
    from labeldp.paper.network.trainer import Settings


@contextmanager
def training_progress(rows: int, epochs: int) -> Iterator[Callable[[int, int, float], None]]:
    """Show a progress bar on standard error over all rows of all epochs. Yield the function to call after each batch."""
    columns = (
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TextColumn("{task.fields[speed]} rows/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=rows * epochs, epoch=f"0/{epochs}", loss="–", speed="–")
        start, seen = time.perf_counter(), 0

        def update(epoch: int, rows: int, loss: float) -> None:
            nonlocal seen
            seen += rows
            speed = f"{seen / max(time.perf_counter() - start, 1e-9):,.0f}"
            bar.update(task, advance=rows, epoch=f"{epoch + 1}/{epochs}", loss=f"{loss:.5g}", speed=speed)

        yield update


class NetworkRegressor(QuietScore, BaseEstimator):  # type: ignore[misc]
    """A regressor on categorical and numeric columns. Its defaults are the paper's network and training.

    Each category has a trained vector of 8 numbers. All categories of a column with fewer than 5 training rows share one
    vector. The vectors and the standardised numbers go through dense layers of 128, 64 and 1 units with ReLU between
    them. Training takes 50 epochs of batches of 8,192 rows with RMSProp (Adam for Poisson loss), a learning rate that
    falls from 0.001 to 0 along a cosine, and L2 weight 1e-4 on the dense kernels. `labeldp.paper.network.trainer` lists what
    the paper leaves open, and `labeldp.learn.feature_columns` describes how columns are read.

    `X` may be a pandas, polars or Arrow table (columns are found by name) or an array. Targets are usually decoded
    private labels. With few rows, choose a smaller `batch_size`: at 8,192, 10,000 rows make only two steps in an epoch.

    Training needs torch (`pip install 'labeldp[torch]'`). Prediction does not.

    Parameters
    ----------
    categorical, numeric : sequence of str or int, optional
        Columns, by name or position, to read as categories or as numbers regardless of their type.
    loss : {"squared", "poisson"}
        "poisson" is for counts: the prediction is ŷ = exp(last value), the loss ŷ − y log ŷ, and targets must be 0 or more.
    optimizer : {"auto", "rmsprop", "adam"}
        "auto" is RMSProp for squared loss and Adam for Poisson loss, as in the paper.
    embedding_size : int
        The length of the category vectors.
    hidden : sequence of int
        The widths of the inner layers.
    min_count : int
        The number of rows a category needs to get its own vector.
    epochs, batch_size, learning_rate, l2 : int, int, float, float
        The training settings described above.
    early_stopping : bool
        Hold out `validation_fraction` of the rows, stop after `patience` epochs without a better loss on them, and keep the
        best epoch's network. Off as in the paper. The learning rate still falls over all `epochs`.
    validation_fraction, patience : float, int
        See `early_stopping`.
    threads : int, optional
        The largest number of cores to use, by default all (up to 8). The result does not depend on it.
    random_state : int, RandomState or None
        The seed of initial weights, batches and held-out rows. The same seed gives the same network.
    progress : bool
        Show a bar with loss and rows per second on standard error.

    Attributes
    ----------
    encoder_ : ColumnEncoder
        How columns become codes and numbers.
    scaler_ : Pipeline
        The scikit-learn transformers that standardise the numbers.
    weights_ : Weights
        The network as arrays. Prediction does not need torch.
    loss_curve_ : list of float
        The mean loss of each epoch, while it runs.
    validation_loss_curve_ : list of float or None
        The loss on held-out rows after each epoch.
    n_features_in_, feature_names_in_ : int, array of str
        The number of columns, and their names if the regressor was fitted on a table.

    Privacy
    -------
    The regressor does not add privacy, and this is not needed: everything computed from a private message stays private.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from labeldp.paper.network import NetworkRegressor
    >>> table = pa.table({"shop": ["a", "b"] * 100, "price": range(200)})
    >>> model = NetworkRegressor(batch_size=20, learning_rate=0.01, random_state=0).fit(table, [1.0, 3.0] * 100)
    >>> model.predict(table)[:2].round(1)
    array([1., 3.])

    """

    def __init__(
        self,
        *,
        categorical: Sequence[ColumnKey] | None = None,
        numeric: Sequence[ColumnKey] | None = None,
        loss: TrainingLoss = "squared",
        optimizer: Literal["auto", "rmsprop", "adam"] = "auto",
        embedding_size: int = 8,
        hidden: Sequence[int] = (128, 64),
        min_count: int = 5,
        epochs: int = 50,
        batch_size: int = 8192,
        learning_rate: float = 1e-3,
        l2: float = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 5,
        threads: int | None = None,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.categorical = categorical
        self.numeric = numeric
        self.loss = loss
        self.optimizer = optimizer
        self.embedding_size = embedding_size
        self.hidden = hidden
        self.min_count = min_count
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.l2 = l2
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.threads = threads
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn vocabularies, scales and the network from training rows.

        Parameters
        ----------
        X : table or array
            The features, one row for each target.
        y : array of float
            The targets.
        sample_weight : array of float, optional
            A weight for each row. Rows of weight 0 do not take part in the network's training.

        Returns
        -------
        NetworkRegressor
            The fitted regressor itself.

        Raises
        ------
        InvalidInput
            If a parameter or the data is not valid, torch is not installed, or training diverges.

        Examples
        --------
        >>> import numpy as np
        >>> from labeldp.paper.network import NetworkRegressor
        >>> X = np.arange(100.0)[:, None]
        >>> model = NetworkRegressor(epochs=2, batch_size=20, random_state=0).fit(X, X[:, 0])
        >>> len(model.loss_curve_)
        2

        """
        settings = self._settings()
        table, targets = self._read(X, y)
        weights = None if sample_weight is None else _checked_weights(sample_weight, len(targets))
        if self.loss == "poisson" and (targets.min() < 0 or not targets.any()):
            raise InvalidInput(
                "Poisson loss needs targets of 0 or more, with at least one above 0; "
                f"the smallest is {targets.min():g}. Decode the labels with values that stay in their range."
            )
        self.encoder_ = ColumnEncoder.fit(
            table, categorical=self.categorical, numeric=self.numeric, min_count=self.min_count
        )
        codes, numbers = self.encoder_.transform(table)
        self.scaler_ = standardizer()
        if numbers.size:  # scikit-learn refuses arrays without columns
            self.scaler_.fit(numbers)
        inputs = self._scaled(numbers)
        held_out = self._hold_out(len(targets), settings.seed)
        used = ~held_out if weights is None else ~held_out & (weights > 0)
        self.loss_curve_: list[float] = []
        self.validation_loss_curve_: list[float] | None = [] if self.early_stopping else None

        def validate(network: Weights) -> float:
            predictions = network.predict(codes[held_out], inputs[held_out])
            return mean_loss(self.loss, predictions, targets[held_out], None if weights is None else weights[held_out])

        rows = slice(None) if used.all() else used  # without a copy, if nothing is left out
        with training_progress(int(used.sum()), settings.epochs) if self.progress else nullcontext() as bar:
            final = _trainer().train(
                *(codes[rows], inputs[rows], targets[rows]),
                weights=None if weights is None else weights[rows],
                sizes=self.encoder_.sizes,
                settings=settings,
                after_batch=bar,
                after_epoch=partial(self._after_epoch, validate),
            )
        if self.validation_loss_curve_ is None:
            self.weights_: Weights = final
        return self

    def predict(self, X: Any) -> Floats:
        """Predict the target of each row. This needs NumPy only.

        Parameters
        ----------
        X : table or array
            Features with the columns of the training rows.

        Returns
        -------
        array of float
            One prediction for each row.

        Examples
        --------
        >>> import numpy as np
        >>> from labeldp.paper.network import NetworkRegressor
        >>> X = np.arange(100.0)[:, None]
        >>> NetworkRegressor(epochs=2, batch_size=20, random_state=0).fit(X, X[:, 0]).predict(X).shape
        (100,)

        """
        check_is_fitted(self)
        if not FeatureTable.is_frame(X):
            with without_values("the features"):
                X = validate_data(self, X, reset=False, dtype=None, ensure_all_finite="allow-nan")
        codes, numbers = self.encoder_.transform(X)
        return self.weights_.predict(codes, self._scaled(numbers))

    def _scaled(self, numbers: Floats) -> Singles:
        """Return the numeric inputs of the network."""
        return np.asarray(self.scaler_.transform(numbers) if numbers.size else numbers, np.float32)

    def _read(self, X: Any, y: Any) -> tuple[FeatureTable, Floats]:
        if y is None:
            raise InvalidInput("NetworkRegressor requires y to be passed, but the target y is None")
        if not FeatureTable.is_frame(X):
            with without_values():
                X, y = validate_data(self, X, y, dtype=None, ensure_all_finite="allow-nan", y_numeric=True)
            return FeatureTable.of(X), label_array(y, "y")
        table = FeatureTable.of(X)
        targets = label_array(column_or_1d(y, warn=True) if isinstance(y, np.ndarray) else y, "y")
        if table.rows != len(targets):
            raise InvalidInput(f"X has {table.rows:,} rows and y has {len(targets):,}: give one target for each row")
        if not table.rows:
            raise InvalidInput("X contains no rows: there is nothing to train on")
        self.n_features_in_ = len(table.names)
        self.feature_names_in_ = np.asarray(table.names, object)
        return table, targets

    def _after_epoch(self, validate: Callable[[Weights], float], loss: float, weights: Callable[[], Weights]) -> bool:
        """Extend the loss curves, and with held-out rows keep the best network. Whether to stop. Refuses a divergence."""
        if not math.isfinite(loss):
            epoch = len(self.loss_curve_) + 1
            raise InvalidInput(f"training diverged in epoch {epoch}: lower learning_rate, or check for extreme targets")
        self.loss_curve_.append(loss)
        curve = self.validation_loss_curve_
        if curve is None:
            return False
        network = weights()
        curve.append(validate(network))
        lowest = int(np.argmin(curve))
        if lowest == len(curve) - 1:
            self.weights_ = network
        return len(curve) - 1 - lowest >= self.patience

    def _hold_out(self, rows: int, seed: int) -> NDArray[np.bool_]:
        held_out = np.zeros(rows, bool)
        if self.early_stopping:
            count = math.ceil(self.validation_fraction * rows)
            if count >= rows:
                raise InvalidInput(f"{rows} rows are too few for early stopping: none are left to train on")
            held_out[np.random.default_rng(seed).choice(rows, count, replace=False)] = True
        return held_out

    def _settings(self) -> Settings:
        """Return the parameters, checked when fitting, as scikit-learn's conventions ask."""
        whole = {"embedding_size": 1, "epochs": 1, "batch_size": 1, "min_count": 1, "patience": 1}
        for name, least in whole.items():
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
                raise InvalidInput(f"{name} must be a whole number of at least {least}, got {value!r}")
        if any(not isinstance(width, (int, np.integer)) or width < 1 for width in self.hidden):
            raise InvalidInput(f"hidden must list layer widths of at least 1, got {self.hidden!r}")
        for name, good in (
            ("learning_rate", 0 < self.learning_rate < math.inf),
            ("l2", 0 <= self.l2 < math.inf),
            ("validation_fraction", 0 < self.validation_fraction < 1),
            ("threads", self.threads is None or self.threads >= 1),
            ("loss", self.loss in {"squared", "poisson"}),
            ("optimizer", self.optimizer in {"auto", "rmsprop", "adam"}),
        ):
            if not good:
                raise InvalidInput(f"{name} cannot be {getattr(self, name)!r}")
        default: Literal["rmsprop", "adam"] = "rmsprop" if self.loss == "squared" else "adam"
        settings: Settings = _trainer().Settings(
            loss=self.loss,
            optimizer=default if self.optimizer == "auto" else self.optimizer,
            embedding_size=int(self.embedding_size),
            hidden=tuple(int(width) for width in self.hidden),
            epochs=int(self.epochs),
            batch_size=int(self.batch_size),
            learning_rate=float(self.learning_rate),
            l2=float(self.l2),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            threads=self.threads,
        )
        return settings

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _checked_weights(sample_weight: Any, rows: int) -> Floats:
    weights = label_array(sample_weight, "sample_weight")
    if len(weights) != rows:
        raise InvalidInput(f"sample_weight has {len(weights):,} entries for {rows:,} rows: give one for each")
    if weights.min() < 0:
        raise InvalidInput(f"sample weights must be 0 or more, the smallest is {weights.min():g}")
    if not weights.any():
        raise InvalidInput("every sample weight is zero: there is nothing to train on")
    return weights


def _trainer() -> Any:
    """Return the module that needs torch, imported when a network is trained."""
    try:
        from labeldp.paper.network import trainer
    except ImportError as error:
        raise MissingExtra("training a network needs torch: pip install 'labeldp[torch]'") from error
    return trainer


def network_settings(records: int, share: float = 1.0, batch_size: int = 8192) -> dict[str, int]:
    """Return parameters of `NetworkRegressor` for training on `records` values, each worth `share` of a true label.

    The network first learns what many records have in common, then memorises single records. 3·∛(records · share) steps end
    between the two. They are rounded up to whole epochs.
    """
    steps = 3 * max(records * share, 1.0) ** (1 / 3)
    return {"epochs": math.ceil(steps / math.ceil(max(records, 1) / batch_size))}


def _made(request: LearnerRequest) -> Any:
    return NetworkRegressor(
        categorical=request.categorical,
        numeric=request.numeric,
        loss=request.loss,  # type: ignore[arg-type]
        epochs=request.epochs or network_settings(request.records, request.share)["epochs"],
        random_state=request.seed,
        progress=request.progress,
    )


LEARNERS.add(
    Learner(
        "network",
        "the paper's network; needs the extra labeldp[torch]",
        _made,
        losses=("squared", "poisson"),
        own_progress=True,
    )
)


def _weights(state: State) -> Weights:
    loss, embeddings, offsets, kernels, biases, center, scale = exactly(state, *Weights.__dataclass_fields__)
    arrays = (embeddings, *all_are(kernels, np.ndarray, "kernels"))
    if loss not in {"squared", "poisson"} or any(array.dtype != np.float32 or array.ndim != 2 for array in arrays):
        raise InvalidInput("the layers are damaged")
    if offsets.dtype != np.int32 or offsets.ndim != 1 or (offsets < 0).any():
        raise InvalidInput("the offsets are damaged")
    widths = [kernel.shape[1] for kernel in kernels]
    inputs = [kernel.shape[0] for kernel in kernels]
    chained = widths[:-1] == inputs[1:] and widths[-1:] == [1] and min(inputs) > 0
    if not chained or [bias.shape for bias in all_are(biases, np.ndarray, "biases")] != [(width,) for width in widths]:
        raise InvalidInput("the layers do not fit each other")
    numbers = (float(is_a(number, int, float, what="a scale")) for number in (center, scale))
    return Weights(loss, embeddings, offsets, tuple(kernels), tuple(biases), *numbers)


def _check(model: Any) -> None:
    if not hasattr(model, "weights_"):
        return
    weights, sizes = model.weights_, np.asarray(model.encoder_.sizes, np.int64)
    if weights.offsets.shape != sizes.shape or (weights.offsets + sizes > len(weights.embeddings)).any():
        raise InvalidInput("the embeddings do not fit the columns")


add(
    StoredType("Weights", Weights, vars, _weights),
    estimator(
        NetworkRegressor,
        {"encoder_": (ColumnEncoder,), "scaler_": (Pipeline,), "weights_": (Weights,)},
        _check,
        fitted=("n_features_in_", "feature_names_in_", "loss_curve_", "validation_loss_curve_"),
    ),
)
