"""Numbers come through as they are, whatever their type, offset and length."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from labeldp.sampling.ids import array_of, numbers_in

KINDS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_come_back_from_arrow_and_numpy(kind):
    values = np.array([0, 1, 100, 3], kind)
    array = array_of(values)
    assert array.equals(pa.array(values))
    assert numbers_in(array).dtype == values.dtype
    assert numbers_in(array).tolist() == [0, 1, 100, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_a_slice_is_read_from_its_own_place(kind):
    array = pa.array(np.arange(10).astype(kind))
    assert numbers_in(array.slice(3, 4)).tolist() == [3, 4, 5, 6]
    assert numbers_in(array.slice(10)).tolist() == []


def test_what_is_not_contiguous_is_copied():
    assert array_of(np.arange(10)[::3]).to_pylist() == [0, 3, 6, 9]


@pytest.mark.parametrize("array", [pa.array([1, None, 3]), pa.array([True, False]), pa.array([1.5], pa.float16())])
def test_anything_else_is_left_to_arrow(array):
    assert np.array_equal(numbers_in(array), np.asarray(array), equal_nan=True)


def test_pandas_is_not_imported():
    code = (
        "import sys, numpy as np\n"
        "from labeldp.sampling.ids import array_of, numbers_in\n"
        "numbers_in(array_of(np.arange(3)))\n"
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
