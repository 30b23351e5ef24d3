"""Predictions for files of features, batch by batch: memory does not grow with the file."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from labeldp.arrays import Floats, label_array
from labeldp.errors import InvalidInput
from labeldp.release.privatize import Phase
from labeldp.release.staging import publish
from labeldp.training.feature_file import FeatureFile
from labeldp.training.model_columns import columns_by_number, columns_taken, of_labeldp, trained_columns
from labeldp.training.saved import SavedModel, check_new
from labeldp.training.suspects import FeatureWarning
from labeldp.training.tables import closest

WRITERS: dict[str, Callable[[Path, pa.Schema], Any]] = {".parquet": pq.ParquetWriter, ".csv": csv.CSVWriter}
PREDICTION = "prediction"


def predict_file(
    model: SavedModel,
    features: Path,
    predictions: Path,
    id_column: str | None = None,
    delimiter: str | None = None,
    *,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> int:
    """Write a prediction for every row of `features` into a new file, beside the ids if their column is named.

    Returns the number of rows. The new file is there whole or not at all. `phase` is as in `train_on_message`.
    """
    if predictions.suffix not in WRITERS:
        raise InvalidInput(f"predictions are written to a .parquet or .csv file, not to {predictions}")
    if id_column == PREDICTION:
        raise InvalidInput(f"the ids cannot be called {PREDICTION!r}, as the predictions are: rename their column")
    check_new(predictions)
    if not predictions.absolute().parent.is_dir():
        raise InvalidInput(f"the folder {predictions.parent} does not exist: make it first")
    beside = [] if id_column is None else [id_column]
    file, names = _opened(model, features, delimiter, beside, phase)
    kinds = [(field.name, _plain(field.type)) for field in file.schema(beside)]
    schema = pa.schema([*kinds, (PREDICTION, pa.float64())])
    partial = predictions.with_name(f".{predictions.name}.partial")
    rows = 0
    try:
        with WRITERS[predictions.suffix](partial, schema) as writer:
            for columns, values in _predicted(model, file, names, beside, phase):
                writer.write_table(pa.table([*columns, pa.array(values)], names=schema.names).cast(schema))
                rows += values.size
        publish(partial, predictions)
    finally:
        partial.unlink(missing_ok=True)
    return rows


def predictions_beside(
    model: SavedModel,
    features: Path,
    label: str,
    delimiter: str | None = None,
    *,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> tuple[Floats, Floats]:
    """The predictions for every row of `features`, and the numbers in the column `label`. `phase` is as above."""
    file, names = _opened(model, features, delimiter, [label], phase, label)
    found = list(_predicted(model, file, names, [label], phase))
    if not found:
        raise InvalidInput(f"{features} holds no rows: there is nothing to compare")
    truth = pa.chunked_array([columns[0] for columns, _ in found], file.schema([label]).types[0])
    labels = label_array(truth.combine_chunks(), f"the labels in {label!r}", model.facts.get("unit"))
    return np.concatenate([values for _, values in found]), labels


def _opened(
    model: SavedModel, path: Path, delimiter: str | None, beside: list[str], phase: Phase, label: str | None = None
) -> tuple[FeatureFile, list[str]]:
    """The file, ready to be read, and its columns that the model takes. `beside` are other columns that are wanted.

    The `label` is never among the columns for the model.
    """
    file = FeatureFile.open(path, delimiter)
    for name in beside:
        file.require(name)
    trained = trained_columns(model.model, model.facts)
    if trained:
        features = [name for name in trained if name in file.names and name != label]
        if not features:
            _refuse_without(trained, features, file)
    else:
        rest = [name for name in file.names if name not in beside]
        features = columns_by_number(model.model, rest, path)
        if columns_taken(model.model) is not None and not of_labeldp(model.model):
            warnings.warn(
                f"the model was trained without the names of its columns: these were taken, in the order of {path}: "
                f"{', '.join(features):.300}",
                FeatureWarning,
                stacklevel=3,
            )
    for name in features:
        file.require(name)
    file.prepare(list(dict.fromkeys([*beside, *features])), phase)
    return file, features


def _predicted(
    model: SavedModel, file: FeatureFile, features: list[str], beside: list[str], phase: Phase
) -> Iterator[tuple[list[Any], Floats]]:
    """For each batch the columns `beside`, and the predictions."""
    wanted = list(dict.fromkeys([*beside, *features]))
    for batch in file.batches(wanted, phase("predicting", file.rows)):
        table = pa.Table.from_batches([batch]).select(features)
        try:
            values = model.predict(table)
        except InvalidInput:  # only then: a model may well drop a column that it was trained on
            _refuse_without(trained_columns(model.model, model.facts), features, file)
            raise
        yield [batch.column(name) for name in beside], values


def _refuse_without(trained: list[str], features: list[str], file: FeatureFile) -> None:
    """Say which columns that the model was trained on it did not get, if any."""
    for name in trained:
        if name not in file.names:
            raise InvalidInput(
                f"{file.path} has no column {name!r}{closest(name, file.names)}, and the model was trained on it"
            ) from None
        if name not in features:
            raise InvalidInput(
                f"the model was trained on the column {name!r}, which is the label here: a model that reads the label cannot be "
                "evaluated. Train it again without that column"
            ) from None


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
