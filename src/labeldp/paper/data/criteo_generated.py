"""Generated data in the shape of the Criteo log, for when the genuine file cannot be had."""

from __future__ import annotations

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
from labeldp.paper.data.calibrated import CRITEO_CLIP, criteo_masses
from labeldp.paper.data.chunks import CHUNK_ROWS, chunk_generator, chunks
from labeldp.paper.data.criteo_columns import CRITEO_CATEGORICAL, CRITEO_NUMERIC, CRITEO_SCHEMA
from labeldp.paper.data.criteo_world import Codes, purchases
from labeldp.paper.data.dataset import Dataset
from labeldp.paper.data.hashes import MISSING, identifiers, titles
from labeldp.paper.data.vocabulary import MIN_COUNT, with_vocabulary

_LARGEST_SALE = 62_458.773


def criteo_like(n: int, seed: int = 0, *, min_count: int = MIN_COUNT) -> Dataset:
    """`n` generated purchases with the paper's preprocessing: amounts clipped at 400, rare items merged.

    **Not genuine.** The labels, clipped and rounded to the nearest euro, follow `criteo_prior()` exactly; the features
    are drawn so that they explain as much of the label as the paper's model could (see `criteo_world`). What a model
    gains from one column rather than another means nothing. Labels of row i do not depend on `n`; features differ
    only in which items are rare.
    """
    labels, parts = np.empty(n), list[tuple[Codes, NDArray[np.float64]]]()
    for chunk, rows in chunks(n):
        start = chunk * CHUNK_ROWS
        score, amount = _amounts(seed, chunk)
        labels[start : start + rows] = np.minimum(amount[:rows], CRITEO_CLIP)
        codes, price = _features(seed, chunk, score)
        parts.append(({name: column[:rows] for name, column in codes.items()}, price[:rows]))
    columns: dict[str, pa.Array] = {}
    for name in CRITEO_NUMERIC:
        pieces = [price if name == "product_price" else codes[name] for codes, price in parts]
        columns[name] = pa.array(np.concatenate(pieces).astype(np.float64))
    for name in CRITEO_CATEGORICAL:
        whole = pa.chunked_array([codes[name] for codes, _ in parts], pa.int64())
        columns[name] = with_vocabulary(whole, min_count, _renderer(name))
    return Dataset(
        name="criteo-like",
        features=pa.table(columns),
        labels=labels,
        numeric=CRITEO_NUMERIC,
        categorical=CRITEO_CATEGORICAL,
        lower=0.0,
        upper=CRITEO_CLIP,
        integer=False,
        generated=True,
        description=f"generated Criteo-like purchases (seed {seed}), not the genuine Criteo log",
    )


def criteo_like_labels(n: int, seed: int = 0) -> NDArray[np.float64]:
    """The labels of `criteo_like(n, seed)` alone, without the cost of the features."""
    labels = np.empty(n)
    for chunk, rows in chunks(n):
        amount = _amounts(seed, chunk)[1][:rows]
        np.minimum(amount, CRITEO_CLIP, out=labels[chunk * CHUNK_ROWS :][:rows])
    return labels


def criteo_like_batches(
    n: int, seed: int = 0, *, sales: float = 1.0, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """`n` generated rows with the 23 columns of the genuine log, a batch at a time, in constant memory.

    `sales` is the share of rows with a purchase (the genuine log has about 0.108); the others carry `Sale` 0, amount
    -1 and price 0, as there. Row i depends on `seed`, `sales` and i alone. With `columns`, only those are made.
    """
    wanted = CRITEO_SCHEMA if columns is None else pa.schema([CRITEO_SCHEMA.field(name) for name in columns])
    for chunk, rows in chunks(n):
        score, amount = _amounts(seed, chunk)
        arrays: dict[str, pa.Array] = {}
        sold = chunk_generator(seed, chunk, 2).random(CHUNK_ROWS) < sales
        if set(wanted.names) - {"Sale", "SalesAmountInEuro"}:
            codes, price = _features(seed, chunk, score)
            codes["time_delay_for_conversion"] = np.where(sold, codes["time_delay_for_conversion"], MISSING)
            price = np.where(sold, price, 0.0)
        for name in wanted.names:
            if name == "Sale":
                arrays[name] = pa.array(sold[:rows].astype(np.int64))
            elif name == "SalesAmountInEuro":
                arrays[name] = pa.array(np.where(sold, amount, -1.0)[:rows])
            elif name == "product_price":
                arrays[name] = pa.array(price[:rows])
            elif name in CRITEO_CATEGORICAL:
                arrays[name] = _rendered(name, codes[name][:rows])
            else:
                arrays[name] = pa.array(codes[name][:rows])
        yield pa.record_batch(arrays, schema=wanted)


def write_criteo_like(path: str | PathLike[str], n: int, seed: int = 0, *, sales: float = 1.0) -> None:
    """Write `criteo_like_batches` to `path`: `.parquet`, or `.tsv` in exactly the format of the genuine log."""
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
    values, masses = criteo_masses()
    rank = generator.random(CHUNK_ROWS)
    value = values[np.searchsorted(np.cumsum(masses)[:-1], rank, side="right")]
    # Spread each euro over the amounts that round to it; 0.499 keeps the fifth decimal from crossing over.
    spread = 0.499 * generator.uniform(-1.0, 1.0, CHUNK_ROWS)
    amount: NDArray[np.float64] = np.abs(value + spread)
    tail = CRITEO_CLIP / np.sqrt(1.0 - generator.random(CHUNK_ROWS))
    np.copyto(amount, np.minimum(tail, _LARGEST_SALE), where=value == CRITEO_CLIP)
    return ndtri(np.clip(rank, 1e-16, 1 - 1e-16)), np.round(amount, 5)


def _features(seed: int, chunk: int, score: NDArray[np.float64]) -> tuple[Codes, NDArray[np.float64]]:
    return purchases(score, chunk_generator(seed, chunk, 1), chunk * CHUNK_ROWS)


def _renderer(name: str) -> Callable[[NDArray[np.int64]], pa.StringArray]:
    salt = 1000 * (1 + CRITEO_CATEGORICAL.index(name))
    return (lambda codes: titles(codes, salt)) if name == "product_title" else (lambda codes: identifiers(codes, salt))


def _rendered(name: str, codes: NDArray[np.int64]) -> pa.StringArray:
    """The strings of a column, made once per distinct code where few codes repeat often."""
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
