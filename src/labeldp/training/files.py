"""Tables from files (Parquet, also a folder of parts; CSV and TSV, also gzipped; Arrow IPC) and predictions to files."""

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv, feather

from labeldp.engines.arrow import text
from labeldp.engines.arrow.source import IPC_SUFFIXES, PARQUET_SUFFIXES
from labeldp.errors import InvalidInput
from labeldp.training.saved import SavedModel, check_new
from labeldp.training.tables import closest


def read_table(path: Path, delimiter: str | None = None) -> pa.Table:
    """The whole table. Errors name the file and what is wrong with it.

    Without a delimiter, the header line of a text file shows it.
    """
    if not path.exists():
        raise InvalidInput(f"there is no file {path}")
    try:
        return _reader(path, text.checked_delimiter(delimiter))(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise InvalidInput(f"cannot read {path}: {str(error).splitlines()[0]}") from error


def column(table: pa.Table, name: str, where: object) -> pa.ChunkedArray:
    """One column of a table; `where` says in errors which table it is, for instance the path it was read from."""
    if table.schema.names.count(name) > 1:
        raise InvalidInput(f"{where} has several columns named {name!r}: rename all but one")
    if name not in table.schema.names:
        raise InvalidInput(f"{where} has no column {name!r}{closest(name, table.schema.names)}")
    return table.column(name)


def predict_file(
    model: SavedModel, features: Path, predictions: Path, id_column: str | None = None, delimiter: str | None = None
) -> int:
    """Write a prediction for every row of `features` into a new file, beside the ids if their column is named.

    Returns the number of rows. The new file is there whole or not at all.
    """
    writers = {".parquet": pq.write_table, ".csv": csv.write_csv}
    if predictions.suffix not in writers:
        raise InvalidInput(f"predictions are written to a .parquet or .csv file, not to {predictions}")
    check_new(predictions)
    table = read_table(features, delimiter)
    ids = {} if id_column is None else {id_column: column(table, id_column, features)}
    result = pa.table({**ids, "prediction": model.predict(table)})
    unfinished = predictions.with_name(f".{predictions.name}.partial")
    try:
        writers[predictions.suffix](result, unfinished)
        unfinished.rename(predictions)
    finally:
        unfinished.unlink(missing_ok=True)
    return int(result.num_rows)


def _reader(path: Path, delimiter: str | None) -> Any:
    suffix = text.file_format(path)
    if path.is_dir() or suffix in PARQUET_SUFFIXES:
        return pq.read_table
    if suffix in text.TEXT_SUFFIXES:
        return partial(_read_text, delimiter=delimiter)
    if suffix in IPC_SUFFIXES:
        return feather.read_table
    raise InvalidInput(f"cannot tell what {path} is: name it .parquet, .csv, .tsv (these also with .gz) or .arrow")


def _read_text(path: Path, delimiter: str | None) -> pa.Table:
    sign = text.delimiter_of(path) if delimiter is None else delimiter
    try:
        table = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=sign))
    except pa.ArrowInvalid as error:  # its text, and so the chain, may show true labels of `evaluate`
        raise InvalidInput(f"cannot read {path}: {text.problem(error, path, sign)}") from None
    text.refuse_decimal_commas(table, path)
    return table
