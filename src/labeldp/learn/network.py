"""The paper's networks as a scikit-learn regressor: embeddings of the categories, then dense layers 128-64-1."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from labeldp.arrays import Floats, label_array
from labeldp.errors import InvalidInput
from labeldp.learn.columns import ColumnKey, Design
from labeldp.learn.progress import TrainingProgress
from labeldp.learn.tables import Table
from labeldp.learn.weights import TrainingLoss, Weights, mean_loss

if TYPE_CHECKING:
    from labeldp.learn.training import Settings


class NetworkRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor on categorical and numeric columns, with the paper's network and training as defaults.

    Each category has a trained vector of 8 numbers; all categories with fewer than 5 training rows in a column share
    one. The vectors and the standardised numbers go through dense layers of 128, 64 and 1 units with ReLU between
    them. Training takes 50 epochs of batches of 8,192 rows with RMSProp (Adam for Poisson loss), learning rate 0.001
    falling along a cosine, and L2 weight 1e-4 on the dense kernels. See `labeldp.learn.training` for what the paper
    leaves open, and `labeldp.learn.columns` for how columns are read.

    `X` may be a pandas, polars or Arrow table (columns are found by name) or an array. Targets are usually decoded
    private labels: nothing here adds privacy, and nothing here needs it, for what is computed from a private message
    stays private. With few rows, take a smaller `batch_size`: 10,000 rows make two steps an epoch at 8,192.

    Parameters
    ----------
    categorical, numeric : columns (names or positions) to read as such whatever their type.
    loss : "squared", or "poisson" for counts: exp(last value) is the prediction, ŷ − y log ŷ the loss, targets ≥ 0.
    optimizer : "rmsprop", "adam", or "auto": RMSProp for squared loss and Adam for Poisson loss, as in the paper.
    embedding_size, hidden, min_count : sizes of the category vectors and the inner layers; rows a category needs.
    epochs, batch_size, learning_rate, l2 : see above.
    early_stopping : hold out `validation_fraction` of the rows, stop after `patience` epochs without a better loss on
        them, keep the best epoch's network. Off as in the paper; the cosine still spans all `epochs`.
    threads : at most this many cores; all there are (up to 8) if None. The result does not depend on it.
    random_state : seed of initial weights, batches and the held-out rows; the same seed gives the same network.
    progress : show a bar with loss and rows per second on standard error.

    Attributes
    ----------
    design_, weights_ : how columns become inputs, and the network as arrays (prediction needs no torch).
    loss_curve_, validation_loss_curve_ : mean loss of each epoch (while it runs), and on held-out rows (or None).
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn; names only if fitted on a table.

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
        """Learn vocabularies, scales and the network from training rows; rows of weight 0 are left out."""
        settings = self._settings()
        table, targets = self._read(X, y)
        weights = None if sample_weight is None else _checked_weights(sample_weight, len(targets))
        if self.loss == "poisson" and (targets.min() < 0 or not targets.any()):
            raise InvalidInput(
                "Poisson loss needs targets of 0 or more, with one above 0 at least: "
                f"the least is {targets.min():g}. Decode the labels with values that stay in their range."
            )
        self.design_ = Design.fit(table, categorical=self.categorical, numeric=self.numeric, min_count=self.min_count)
        codes, inputs = self.design_.transform(table)
        held_out = self._hold_out(len(targets), settings.seed)
        used = ~held_out if weights is None else ~held_out & (weights > 0)
        self.loss_curve_: list[float] = []
        self.validation_loss_curve_: list[float] | None = [] if self.early_stopping else None
        watch = _Watch(
            self.loss_curve_,
            self.validation_loss_curve_,
            self.patience,
            lambda network: mean_loss(
                self.loss,
                network.predict(codes[held_out], inputs[held_out]),
                targets[held_out],
                None if weights is None else weights[held_out],
            ),
        )
        everything = bool(used.all())
        bar = TrainingProgress(int(used.sum()), settings.epochs) if self.progress else None
        with bar or nullcontext():
            final = _training().train(
                codes if everything else codes[used],
                inputs if everything else inputs[used],
                targets if everything else targets[used],
                weights=None if weights is None else weights[used],
                sizes=self.design_.sizes,
                settings=settings,
                after_batch=bar,
                after_epoch=watch,
            )
        self.weights_: Weights = watch.best or final
        return self

    def predict(self, X: Any) -> Floats:
        """Predictions, one per row, with NumPy alone. A row's does not depend on the rows beside it."""
        check_is_fitted(self)
        if Table.is_frame(X):
            table = Table.of(X)
        else:
            table = Table.of(validate_data(self, X, reset=False, dtype=None, ensure_all_finite="allow-nan"))
        return self.weights_.predict(*self.design_.transform(table))

    def _read(self, X: Any, y: Any) -> tuple[Table, Floats]:
        if y is None:
            raise InvalidInput("NetworkRegressor requires y to be passed, but the target y is None")
        if not Table.is_frame(X):
            X, y = validate_data(self, X, y, dtype=None, ensure_all_finite="allow-nan", y_numeric=True)
            return Table.of(X), label_array(y, "y")
        table = Table.of(X)
        targets = label_array(column_or_1d(y, warn=True) if isinstance(y, np.ndarray) else y, "y")
        if table.rows != len(targets):
            raise InvalidInput(f"X has {table.rows:,} rows and y has {len(targets):,}")
        if not table.rows:
            raise InvalidInput("X has no rows")
        self.n_features_in_ = len(table.names)
        self.feature_names_in_ = np.asarray(table.names, object)
        return table, targets

    def _hold_out(self, rows: int, seed: int) -> NDArray[np.bool_]:
        held_out = np.zeros(rows, bool)
        if self.early_stopping:
            count = math.ceil(self.validation_fraction * rows)
            if count >= rows:
                raise InvalidInput(f"{rows} rows are too few to hold some out for early stopping")
            held_out[np.random.default_rng(seed).choice(rows, count, replace=False)] = True
        return held_out

    def _settings(self) -> Settings:
        """The parameters, checked here and not in `__init__` as scikit-learn asks."""
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
                raise InvalidInput(f"{name} has no such value: {getattr(self, name)!r}")
        default: Literal["rmsprop", "adam"] = "rmsprop" if self.loss == "squared" else "adam"
        settings: Settings = _training().Settings(
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


class _Watch:
    """After each epoch: keep the curves, refuse to go on from NaN, and with held-out rows remember the best network."""

    def __init__(
        self,
        curve: list[float],
        validation: list[float] | None,
        patience: int,
        validate: Callable[[Weights], float],
    ) -> None:
        self._curve, self._validation, self._patience, self._validate = curve, validation, patience, validate
        self.best: Weights | None = None

    def __call__(self, loss: float, weights: Callable[[], Weights]) -> bool:
        if not math.isfinite(loss):
            raise InvalidInput(
                f"training diverged in epoch {len(self._curve) + 1}: lower learning_rate, or look for extreme targets"
            )
        self._curve.append(loss)
        if self._validation is None:
            return False
        network = weights()
        self._validation.append(self._validate(network))
        lowest = int(np.argmin(self._validation))
        if lowest == len(self._validation) - 1:
            self.best = network
        return len(self._validation) - 1 - lowest >= self._patience


def _checked_weights(sample_weight: Any, rows: int) -> Floats:
    weights = label_array(sample_weight, "sample_weight")
    if len(weights) != rows:
        raise InvalidInput(f"sample_weight has {len(weights):,} entries for {rows:,} rows")
    if weights.min() < 0:
        raise InvalidInput(f"sample weights must be 0 or more, the least is {weights.min():g}")
    if not weights.any():
        raise InvalidInput("every sample weight is zero: there is nothing to train on")
    return weights


def _training() -> Any:
    """The part that needs torch, imported when a network is trained."""
    try:
        from labeldp.learn import training
    except ImportError as error:
        raise InvalidInput("training a network needs torch: pip install 'labeldp[torch]'") from error
    return training
