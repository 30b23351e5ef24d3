"""Generated data in the form of the Criteo log, for those who do not have the genuine file."""

from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray
from scipy.special import ndtri

from labeldp.errors import InvalidInput
from labeldp.paper.calibrated import CRITEO_CLIP, criteo_prior
from labeldp.paper.data.chunks import CHUNK_ROWS, chunk_generator, chunks
from labeldp.paper.data.criteo_columns import CRITEO_CATEGORICAL, CRITEO_NUMERIC, CRITEO_SCHEMA
from labeldp.paper.data.criteo_world import Columns, purchases
from labeldp.paper.data.dataset import Dataset
from labeldp.paper.data.hashes import MISSING, identifiers, titles
from labeldp.paper.data.vocabulary import MIN_COUNT, with_vocabulary

_LARGEST_SALE = 62_458.773


def criteo_like(n: int, seed: int = 0, *, min_count: int = MIN_COUNT) -> Dataset:
    """Generate purchases like those of the Criteo log, with the paper's preprocessing.

    **Not genuine.** The labels, clipped and rounded to the nearest euro, follow `criteo_prior()` exactly. The features
    are drawn so that they explain as much of the label as the paper's model could. Which column explains how much is
    invented. Labels of row i do not depend on `n`; features depend on it only through which items are rare.

    Parameters
    ----------
    n : int
        The number of rows.
    seed : int
        Another seed gives other rows.
    min_count : int
        Values of a categorical column that fewer rows have become one item.

    Returns
    -------
    Dataset
        Amounts in euros, clipped at 400, three numeric and 17 categorical columns.

    Examples
    --------
    >>> from labeldp.paper.data import criteo_like
    >>> criteo_like(1000).labels[:4].round(2)
    array([61.7 , 22.65, 40.15,  5.64])

    """
    parts = list[Columns]()
    for chunk, rows in chunks(n):
        score, _ = _amounts(seed, chunk)
        parts.append({name: column[:rows] for name, column in _features(seed, chunk, score).items()})
    columns: dict[str, pa.Array] = {}
    for name in CRITEO_NUMERIC:
        columns[name] = pa.array(np.concatenate([part[name] for part in parts]).astype(np.float64))
    for name in CRITEO_CATEGORICAL:
        codes = pa.chunked_array([part[name] for part in parts], pa.int64())
        columns[name] = with_vocabulary(codes, min_count, _renderer(name))
    return Dataset(
        name="criteo-like",
        features=pa.table(columns),
        labels=criteo_like_labels(n, seed),
        numeric=CRITEO_NUMERIC,
        categorical=CRITEO_CATEGORICAL,
        upper=CRITEO_CLIP,
        description=f"generated Criteo-like purchases (seed {seed}), not the genuine Criteo log",
    )


def criteo_like_labels(n: int, seed: int = 0) -> NDArray[np.float64]:
    """Generate the labels of `criteo_like` alone, without the cost of the features.

    Parameters
    ----------
    n : int
        The number of labels.
    seed : int
        Another seed gives other labels.

    Returns
    -------
    array of float
        The labels of `criteo_like(n, seed)`.

    Examples
    --------
    >>> from labeldp.paper.data import criteo_like_labels
    >>> criteo_like_labels(100_000).max()
    np.float64(400.0)

    """
    amounts: NDArray[np.float64] = np.concatenate([_amounts(seed, chunk)[1][:rows] for chunk, rows in chunks(n)])
    return np.minimum(amounts, CRITEO_CLIP, out=amounts)


def criteo_like_batches(
    n: int, seed: int = 0, *, sales: float = 1.0, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Generate rows with the 23 columns of the genuine Criteo log, one batch at a time, in constant memory.

    Row i depends on `seed`, `sales` and i alone.

    Parameters
    ----------
    n : int
        The number of rows.
    seed : int
        Another seed gives other rows.
    sales : float
        The share of rows with a purchase; about 0.108 in the genuine log. As there, the other rows have `Sale` 0, amount
        -1 and price 0.
    columns : list of str, optional
        Make these columns only.

    Yields
    ------
    pyarrow.RecordBatch
        The next rows.

    Examples
    --------
    >>> from labeldp.paper.data import criteo_like_batches
    >>> [batch.num_rows for batch in criteo_like_batches(100_000, columns=["Sale"])]
    [65536, 34464]

    """
    wanted = CRITEO_SCHEMA if columns is None else pa.schema([CRITEO_SCHEMA.field(name) for name in columns])
    for chunk, rows in chunks(n):
        score, amount = _amounts(seed, chunk)
        sold = chunk_generator(seed, chunk, 2).random(CHUNK_ROWS) < sales
        made: Columns = {"Sale": sold.astype(np.int64), "SalesAmountInEuro": np.where(sold, amount, -1.0)}
        if set(wanted.names) - made.keys():
            made |= _features(seed, chunk, score)
            made["time_delay_for_conversion"] = np.where(sold, made["time_delay_for_conversion"], MISSING)
            made["product_price"] = np.where(sold, made["product_price"], 0.0)
        arrays = [
            _rendered(name, made[name][:rows]) if name in CRITEO_CATEGORICAL else pa.array(made[name][:rows])
            for name in wanted.names
        ]
        yield pa.record_batch(arrays, schema=wanted)


def write_criteo_like(path: str | PathLike[str], n: int, seed: int = 0, *, sales: float = 1.0) -> None:
    r"""Write the rows of `criteo_like_batches` to a file.

    Parameters
    ----------
    path : str or path
        A `.parquet` file, or a `.tsv` in exactly the format of the genuine log.
    n : int
        The number of rows.
    seed : int
        Another seed gives other rows.
    sales : float
        The share of rows with a purchase.

    Raises
    ------
    InvalidInput
        If the name of the file has another ending.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from labeldp.paper.data import write_criteo_like
    >>> with TemporaryDirectory() as folder:
    ...     write_criteo_like(Path(folder, "log.tsv"), 3)
    ...     print(Path(folder, "log.tsv").read_text().count("\n"))
    3

    """
    path = Path(path)
    batches = criteo_like_batches(n, seed, sales=sales)
    if path.suffix == ".parquet":
        words = {"labeldp": "generated Criteo-like data, not the genuine Criteo log"}
        schema = CRITEO_SCHEMA.with_metadata(words)
        with pa.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch.replace_schema_metadata(words))
    elif path.suffix == ".tsv":
        options = pa.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
        schema = pa.schema([(name, pa.string()) for name in CRITEO_SCHEMA.names])
        with pa.csv.CSVWriter(path, schema, write_options=options) as writer:
            for batch in batches:
                writer.write_batch(pa.record_batch([_text(column) for column in batch.columns], schema=schema))
    else:
        raise InvalidInput(f"cannot write {path.name}: the name should end in .parquet or .tsv")


def _amounts(seed: int, chunk: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Normal scores of a chunk's labels, and the amounts in euros before clipping."""
    generator = chunk_generator(seed, chunk, 0)
    prior = criteo_prior()
    rank = generator.random(CHUNK_ROWS)
    value = prior.values[np.searchsorted(np.cumsum(prior.masses)[:-1], rank, side="right")]
    # Spread each euro over the amounts that round to it. 0.499 so that rounding the fifth decimal does not leave that range.
    spread = 0.499 * generator.uniform(-1.0, 1.0, CHUNK_ROWS)
    amount: NDArray[np.float64] = np.abs(value + spread)
    tail = CRITEO_CLIP / np.sqrt(1.0 - generator.random(CHUNK_ROWS))
    np.copyto(amount, np.minimum(tail, _LARGEST_SALE), where=value == CRITEO_CLIP)
    return ndtri(np.clip(rank, 1e-16, 1 - 1e-16)), np.round(amount, 5)


def _features(seed: int, chunk: int, score: NDArray[np.float64]) -> Columns:
    return purchases(score, chunk_generator(seed, chunk, 1), chunk * CHUNK_ROWS)


def _renderer(name: str) -> Callable[[NDArray[np.int64]], pa.StringArray]:
    salt = 1000 * (1 + CRITEO_CATEGORICAL.index(name))
    return (lambda codes: titles(codes, salt)) if name == "product_title" else (lambda codes: identifiers(codes, salt))


def _rendered(name: str, codes: NDArray[np.int64]) -> pa.StringArray:
    """The strings of a column, made once for each distinct code where codes repeat often."""
    render = _renderer(name)
    if name in ("product_id", "user_id"):
        return render(codes)
    encoded = pa.array(codes).dictionary_encode()
    return render(encoded.dictionary.to_numpy()).take(encoded.indices)


def _text(column: pa.Array) -> pa.Array:
    text = column.cast(pa.string())
    if not pa.types.is_floating(column.type):
        return text
    return pc.if_else(pc.match_substring(text, "."), text, pc.binary_join_element_wise(text, ".0", ""))
