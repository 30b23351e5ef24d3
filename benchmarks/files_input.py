"""Inputs of `files.py`, and the plain copy that its programs are compared with. Each runs in a process of its own.

python benchmarks/files_input.py generate FILE ROWS int|str sales|weeks
python benchmarks/files_input.py copy FILE TARGET
python benchmarks/files_input.py copy-groups FILE TARGET
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

PIECE = 1 << 20


def main(job: str, *given: str) -> None:
    if job == "generate":
        path, rows, ids, shape = given
        generate(Path(path), int(rows), ids, shape)
    elif job == "copy":
        copy(*map(Path, given))
    else:
        copy_groups(*map(Path, given))


def generate(path: Path, rows: int, ids: str, shape: str) -> None:
    """Write a file piece by piece."""
    schema = pa.schema([("id", pa.int64() if ids == "int" else pa.string()), ("label", pa.float64())])
    writer = csv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
    with writer(path, schema) as out:
        for batch in batches(rows, ids, shape):
            out.write_batch(batch)


def batches(rows: int, ids: str, shape: str) -> Iterator[pa.RecordBatch]:
    """Ids are distinct because an odd multiplier and a shift-xor are bijections of 64 bits."""
    rng = np.random.default_rng(1)
    for start in range(0, rows, PIECE):
        count = min(PIECE, rows - start)
        words = np.arange(start, start + count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        words ^= words >> np.uint64(32)
        if shape == "weeks":  # half did not work, most others all year
            labels = np.where(rng.random(count) < 0.5, 0.0, np.minimum(52.0, np.floor(rng.exponential(60.0, count))))
        else:
            labels = np.minimum(np.round(rng.exponential(80.0, count), 2), 400.0)
        column = pa.array(words.view(np.int64)) if ids == "int" else hexadecimal(words)
        yield pa.record_batch([column, pa.array(labels)], ["id", "label"])


def hexadecimal(words: np.ndarray) -> pa.Array:
    """A letter and sixteen digits each, so that a reader of text files does not take them for numbers."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    characters = np.full((words.size, 17), ord("r"), np.uint8)
    for place in range(16):
        characters[:, place + 1] = digits[(words >> np.uint64(60 - 4 * place)) & np.uint64(15)]
    ends = np.arange(0, 17 * words.size + 1, 17, dtype=np.int32)
    return pa.StringArray.from_buffers(words.size, pa.py_buffer(ends), pa.py_buffer(characters))


def copy(source: Path, target: Path) -> None:
    """Read in batches, write at pyarrow's defaults."""
    if source.suffix == ".csv":
        with csv.open_csv(source) as reader, pq.ParquetWriter(target, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
        return
    with pq.ParquetFile(source) as parquet, pq.ParquetWriter(target, parquet.schema_arrow) as writer:
        for batch in parquet.iter_batches():
            writer.write_batch(batch)


def copy_groups(source: Path, target: Path) -> None:
    """The fastest plain copy that we know: large pieces, each of which becomes a row group."""
    if source.suffix == ".csv":
        with (
            csv.open_csv(source, csv.ReadOptions(block_size=1 << 23)) as reader,
            pq.ParquetWriter(target, reader.schema) as writer,
        ):
            for batch in reader:
                writer.write_batch(batch)
        return
    with pq.ParquetFile(source) as parquet, pq.ParquetWriter(target, parquet.schema_arrow) as writer:
        for group in range(parquet.num_row_groups):
            writer.write_table(parquet.read_row_group(group))


if __name__ == "__main__":
    main(*sys.argv[1:])
