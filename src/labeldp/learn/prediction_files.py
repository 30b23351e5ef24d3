"""Predictions for files of features, batch by batch: memory does not grow with the file."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from labeldp.arrays import Floats, class_positions, label_array
from labeldp.artifact.staging import publish
from labeldp.engines.batches import written_as_integers
from labeldp.errors import InvalidInput
from labeldp.learn.feature_tables import closest
from labeldp.learn.joined_features import FeatureWarning
from labeldp.learn.saved import SavedModel, check_new, columns_by_number, columns_taken, of_labeldp, trained_columns
from labeldp.tables.feature_file import FeatureFile
from labeldp.tables.files import Phase

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
    """Write a prediction for every row of `features` into a new file, next to the ids if their column is named.

    Ids of a text file are copied unchanged. They become integers only if all of them are plain integers. Return the
    number of rows. The new file appears complete or not at all. `phase` is as in `labeldp.train`.
    """
    if predictions.suffix not in WRITERS:
        raise InvalidInput(f"predictions are written to a .parquet or .csv file, not to {predictions}")
    if id_column == PREDICTION:
        raise InvalidInput(f"the ids cannot be called {PREDICTION!r}, as the predictions are: rename their column")
    check_new(predictions)
    file, names = _opened(model, features, delimiter, id_column)
    file.prepare(names, phase)
    ids = [] if id_column is None else [(id_column, _id_type(file, id_column))]
    classes, shown = model.classes, pa.array(model.class_values)
    rates = [] if classes is None else [(f"probability_{name}", pa.float64()) for name in classes]
    if id_column is not None and any(name == id_column for name, _ in rates):
        raise InvalidInput(
            f"the ids cannot be called {id_column!r}, as a column of probabilities is: rename their column"
        )
    schema = pa.schema([*ids, (PREDICTION, pa.float64() if classes is None else shown.type), *rates])
    partial = predictions.with_name(f".{predictions.name}.partial")
    rows = 0
    try:
        with WRITERS[predictions.suffix](partial, schema) as writer:
            for batch in file.batches(names, phase("predicting", file.rows), as_written=id_column):
                values = _predicted(model, file, batch, names)
                if classes is None:
                    found = [pa.array(values)]
                else:
                    found = [shown.take(pa.array(values.argmax(axis=1))), *(pa.array(rate) for rate in values.T)]
                writer.write_table(pa.table([*batch.columns[len(names) :], *found], names=schema.names).cast(schema))
                rows += len(values)
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
    """Return the predictions for every row of `features`, and the numbers in the column `label`. `phase` is as above.

    Of a model of classes, these are the rates of the classes, and the position of each row's class.
    """
    together = f". It must hold the features and the true labels together, those in a column {label!r}"
    file, names = _opened(model, features, delimiter, label, together, label=label)
    wanted = list(dict.fromkeys([label, *names]))
    file.prepare(wanted, phase)
    found = [
        (batch.column(label), _predicted(model, file, batch, names))
        for batch in file.batches(wanted, phase("predicting", file.rows))
    ]
    if not found:
        raise InvalidInput(f"{features} contains no rows: there is nothing to compare")
    truth = pa.chunked_array([column for column, _ in found], file.schema([label]).types[0])
    unit = model.facts.get("unit")
    if model.classes is not None:
        positions = class_positions(truth.combine_chunks(), tuple(model.classes), f"the labels in {label!r}")
        return np.concatenate([values for _, values in found]), positions
    if unit is None and pa.types.is_duration(truth.type):
        raise InvalidInput(
            f"the labels in {label!r} are durations, but the model predicts plain numbers, as the bounds of its message had no "
            "unit. Convert the column to numbers of the same unit"
        )
    labels = label_array(truth.combine_chunks(), f"the labels in {label!r}", unit)
    return np.concatenate([values for _, values in found]), labels


def _opened(
    model: SavedModel,
    path: Path,
    delimiter: str | None,
    other: str | None,
    advice: str = "",
    *,
    label: str | None = None,
) -> tuple[FeatureFile, list[str]]:
    """Return the file, and its columns that the model takes. `other` is another needed column, and `advice` ends the error without it.

    The `label` is never among the columns for the model.
    """
    file = FeatureFile.open(path, delimiter)
    if other is not None:
        file.require(other, advice)
    trained = trained_columns(model.model, model.facts)
    if trained:
        features = [name for name in trained if name in file.names and name != label]
        if not features:
            _check_columns(trained, features, file)
    else:
        features = columns_by_number(model.model, [name for name in file.names if name != other], path)
        if columns_taken(model.model) is not None and not of_labeldp(model.model):
            warnings.warn(
                f"the model was trained without the names of its columns: these were taken, in the order of {path}: "
                f"{', '.join(features):.300}",
                FeatureWarning,
                stacklevel=3,
            )
    for name in features:
        file.require(name)
    return file, features


def _predicted(model: SavedModel, file: FeatureFile, batch: pa.RecordBatch, columns: list[str]) -> Floats:
    """Return the predictions for a batch, from its columns by name, the first if two have that name."""
    table = pa.table([batch.column(batch.schema.names.index(name)) for name in columns], names=columns)
    try:
        return model.predict(table) if model.classes is None else model.predict_proba(table)
    except InvalidInput:  # only then: a model may well drop a column that it was trained on
        _check_columns(trained_columns(model.model, model.facts), columns, file)
        raise


def _check_columns(trained: list[str], features: list[str], file: FeatureFile) -> None:
    """Raise `InvalidInput` for a column that the model was trained on and did not get."""
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


def _id_type(file: FeatureFile, column: str) -> pa.DataType:
    """Return the type of the ids next to predictions. The ids of a text file are read, until one is not a plain integer."""
    kind = file.type_as_written(column)
    if file.delimiter is None:
        return kind.value_type if pa.types.is_dictionary(kind) else kind
    parts = (batch.column(0) for batch in file.batches([], as_written=column))
    whole = all(pc.all(written_as_integers(part), min_count=0).as_py() for part in parts)
    return pa.int64() if whole else kind
