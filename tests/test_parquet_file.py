"""A damaged Parquet file takes no more memory than its size accounts for, whichever reader it is given to."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.tables import files as parquet_file
from labeldp.tables.files import ROWS_PER_BYTE, WHOLE_BYTES, check_density, open_parquet

CLAIMED = 1_395_469_255
PLAIN = {"compression": "none", "use_dictionary": False, "column_encoding": "PLAIN", "write_statistics": False}


def varint(number):
    """A number as Thrift's compact protocol writes it."""
    number, parts = number << 1, []
    while number >= 128:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


@pytest.fixture
def damaged(tmp_path):
    """A file of one column whose first page says that it is far longer than the file."""
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"y": [1.0, 2.0, 3.0]}), path, **PLAIN)
    content = path.read_bytes()
    start = b"PAR1\x15\x00\x15"  # a data page, then its size unpacked and its size as it is in the file
    size = content[len(start) : content.index(b"\x15", len(start))]
    assert content.startswith(start + size + b"\x15" + size)
    rest = content[len(start) + 2 * len(size) + 1 :]
    path.write_bytes(start + size + b"\x15" + varint(CLAIMED) + rest)
    return path


READ = """
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa

from labeldp import InvalidInput, LabelSource
from labeldp.mechanisms import PrivateLabels
from labeldp.tables.feature_file import FeatureFile

path = Path(sys.argv[1])
for read in (
    lambda: list(LabelSource(path, "y").batches()),
    lambda: list(FeatureFile.open(path, None).batches(["y"])),
    lambda: PrivateLabels.load(path),
):
    try:
        read()
        print("read", end=" ")
    except InvalidInput:
        print("refused", end=" ")
print(pa.default_memory_pool().max_memory())
"""


def test_a_page_that_claims_to_be_huge_takes_no_memory(damaged):
    """In a process of its own, since Arrow counts the most memory that a process ever had."""
    run = subprocess.run([sys.executable, "-c", READ, damaged], capture_output=True, text=True, check=False)
    *refusals, taken = run.stdout.split()
    assert refusals == ["refused"] * 3, run.stdout + run.stderr
    assert int(taken) < 1 << 24


@pytest.mark.parametrize("piecewise", [False, True])
@pytest.mark.parametrize("whole", [True, False], ids=["small", "large"])
def test_a_file_of_any_size_is_read(tmp_path, monkeypatch, whole, piecewise):
    table = pa.table({"y": [1.0, 2.0, 3.0]})
    pq.write_table(table, tmp_path / "a.parquet")
    monkeypatch.setattr("labeldp.tables.files.WHOLE_BYTES", WHOLE_BYTES if whole else 0)
    with open_parquet(tmp_path / "a.parquet", piecewise=piecewise) as parquet:
        assert parquet.read() == table


def test_a_small_file_is_held_by_arrow_and_not_by_python(tmp_path):
    """A thread of Arrow that frees Python's memory while Python exits aborts the process after all output, with exit code 134."""
    file, size = tmp_path / "ids.parquet", 1 << 20
    pq.write_table(pa.table({"id": np.random.default_rng(0).integers(0, 2**62, size // 8)}), file)
    tracemalloc.start()
    try:
        with open_parquet(file, piecewise=True) as parquet:
            held, _ = tracemalloc.get_traced_memory()
            assert parquet.metadata.num_rows == size // 8
    finally:
        tracemalloc.stop()
    assert held < size // 10


@pytest.mark.parametrize("kind", [int, "order-{:09d}".format])
def test_consecutive_ids_are_far_from_the_limit_on_rows_per_byte(tmp_path, monkeypatch, kind):
    """Of all distinct ids, these compress best."""
    monkeypatch.setattr(parquet_file, "FEW_ROWS", 0)
    rows = 100_000
    pq.write_table(
        pa.table({"id": [kind(number) for number in range(rows)]}), tmp_path / "a.parquet", compression="zstd"
    )
    check_density(ROWS_PER_BYTE // 4 * rows, tmp_path / "a.parquet")
