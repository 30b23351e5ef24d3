"""Memory does not grow with the number of rows: measured on whole processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

MIB = 1 << 20
PROGRAM = """
import re, sys
from pathlib import Path
from labeldp.domain import Domain
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.passes import DrawJob
from labeldp.mechanisms import RROnBins
from labeldp.priors import Prior

domain, folder = Domain(0, 400, 401), Path(sys.argv[2])
labels = ArrowInput(LabelSource(Path(sys.argv[1]), "y", "id"))
keys = {"key": b"k" * 32, "release": b"r" * 16}
scanned = labels.scan(domain, key=keys["key"], out_of_range="clip", grid=domain)
mechanism = RROnBins.optimal(Prior.uniform(domain), 1.0)
job = DrawJob(mechanism=mechanism, domain=domain, **keys, labels=folder / "labels.parquet", work=folder)
labels.randomize(job, scanned)
print(1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]))
"""


def peak(data, folder):
    """Its own peak: `ru_maxrss` would begin with that of the process that started it."""
    if not Path("/proc/self/status").is_file():
        pytest.skip("peak memory cannot be read here")
    folder.mkdir()
    command = [sys.executable, "-c", PROGRAM, str(data), str(folder)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def generate(path, kind, rows):
    rng = np.random.default_rng(0)
    type_ = pa.int64() if kind == "int" else pa.string()
    with pq.ParquetWriter(path, pa.schema([("id", type_), ("y", pa.float64())])) as writer:
        for start in range(0, rows, 1 << 19):
            numbers = pa.array(np.arange(start, min(start + (1 << 19), rows)) * 7919)
            columns = [numbers.cast(type_), pa.array(rng.exponential(80, len(numbers)))]
            writer.write_batch(pa.record_batch(columns, ["id", "y"]))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int", "str"])
def test_memory_stays_flat_as_rows_grow(tmp_path, kind):
    few, many = (
        peak(generate(tmp_path / f"{rows}.parquet", kind, rows), tmp_path / f"out-{rows}")
        for rows in (2_000_000, 16_000_000)
    )
    assert many < few + 100 * MIB  # 14 million more rows: their ids and labels alone are over 200 MiB
    assert many < 700 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.parquet", "a.feather"])
def test_ids_of_more_than_two_gibibytes_in_all(tmp_path, name):
    """Too many for the 32-bit offsets of an Arrow string array, and for memory."""
    text = np.random.default_rng(0).integers(97, 123, 1 << 20, dtype=np.uint8).tobytes().decode()
    schema = pa.schema([("id", pa.large_string()), ("y", pa.float64())])
    rows = 2176
    with pq.ParquetWriter(tmp_path / "a.parquet", schema, use_dictionary=False, compression="none") as writer:
        for start in range(0, rows, 64):
            ids = pa.array([f"{i}-{text}" for i in range(start, start + 64)], pa.large_string())
            writer.write_table(pa.table([ids, pa.array(np.ones(64))], schema=schema))
    if name == "a.feather":
        table = pq.read_table(tmp_path / "a.parquet", schema=schema)
        feather.write_feather(table, tmp_path / name, compression="uncompressed", chunksize=rows)
    resident = peak(tmp_path / name, tmp_path / "out")
    assert pq.ParquetFile(tmp_path / "out" / "labels.parquet").metadata.num_rows == rows
    if name == "a.parquet":  # of a mapped file, pages stay in memory as long as there is room
        assert resident < 1024 * MIB
