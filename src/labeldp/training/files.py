"""Tables from files (Parquet, also a folder of parts; CSV and TSV, also gzipped; Arrow IPC) and predictions to files."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv, feather

from labeldp.engines.arrow.source import IPC_SUFFIXES, PARQUET_SUFFIXES, TEXT_SUFFIXES, file_format
from labeldp.errors import InvalidInput
from labeldp.training.saved import SavedModel, check_new
from labeldp.training.tables import closest


def read_table(path: Path) -> pa.Table:
    """The whole table. Errors name the file and what is wrong with it."""
    if not path.exists():
        raise InvalidInput(f"there is no file {path}")
    try:
        return _reader(path)(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise InvalidInput(f"cannot read {path}: {str(error).splitlines()[0]}") from error


def column(table: pa.Table, name: str, where: object) -> pa.ChunkedArray:
    """One column of a table; `where` says in errors which table it is, for instance the path it was read from."""
    if table.schema.names.count(name) > 1:
        raise InvalidInput(f"{where} has several columns named {name!r}: rename all but one")
    if name not in table.schema.names:
        raise InvalidInput(f"{where} has no column {name!r}{closest(name, table.schema.names)}")
    return table.column(name)


def predict_file(model: SavedModel, features: Path, predictions: Path, id_column: str | None = None) -> int:
    """Write a prediction for every row of `features` into a new file, beside the ids if their column is named.

    Returns the number of rows. The new file is there whole or not at all.
    """
    writers = {".parquet": pq.write_table, ".csv": csv.write_csv}
    if predictions.suffix not in writers:
        raise InvalidInput(f"predictions are written to a .parquet or .csv file, not to {predictions}")
    check_new(predictions)
    table = read_table(features)
    ids = {} if id_column is None else {id_column: column(table, id_column, features)}
    result = pa.table({**ids, "prediction": model.predict(table)})
    partial = predictions.with_name(f".{predictions.name}.partial")
    try:
        writers[predictions.suffix](result, partial)
        partial.rename(predictions)
    finally:
        partial.unlink(missing_ok=True)
    return int(result.num_rows)


def _reader(path: Path) -> Any:
    suffix = file_format(path)
    if path.is_dir() or suffix in PARQUET_SUFFIXES:
        return pq.read_table
    if suffix in TEXT_SUFFIXES:
        options = csv.ParseOptions(delimiter=TEXT_SUFFIXES[suffix])
        return lambda file: csv.read_csv(file, parse_options=options)
    if suffix in IPC_SUFFIXES:
        return feather.read_table
    raise InvalidInput(f"cannot tell what {path} is: name it .parquet, .csv, .tsv (these also with .gz) or .arrow")
