"""Predictions for files of features, batch by batch: memory does not grow with the file."""

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
from labeldp.training.saved import SavedModel, check_new

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
    file, names = _opened(model, features, delimiter, [label], phase)
    found = list(_predicted(model, file, names, [label], phase))
    if not found:
        raise InvalidInput(f"{features} holds no rows: there is nothing to compare")
    truth = pa.chunked_array([columns[0] for columns, _ in found], file.schema([label]).types[0])
    labels = label_array(truth.combine_chunks(), f"the labels in {label!r}", model.facts.get("unit"))
    return np.concatenate([values for _, values in found]), labels


def _opened(
    model: SavedModel, path: Path, delimiter: str | None, beside: list[str], phase: Phase
) -> tuple[FeatureFile, list[str]]:
    """The file, ready to be read, and its columns that the model takes. `beside` are other columns that are wanted."""
    file = FeatureFile.open(path, delimiter)
    trained = list(model.facts.get("columns", ()))
    if trained and set(trained) <= set(file.names):
        features = trained
    else:  # the model says what is missing; it never sees labels, whose values its words could quote
        features = [name for name in file.names if name not in beside]
    for name in {*beside, *features}:
        file.require(name)
    file.prepare([*beside, *features], phase)
    return file, features


def _predicted(
    model: SavedModel, file: FeatureFile, features: list[str], beside: list[str], phase: Phase
) -> Iterator[tuple[list[Any], Floats]]:
    """For each batch the columns `beside`, and the predictions."""
    wanted = list(dict.fromkeys([*beside, *features]))
    for batch in file.batches(wanted, phase("predicting", file.rows)):
        table = pa.Table.from_batches([batch])
        yield [batch.column(name) for name in beside], model.predict(table.select(features))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
