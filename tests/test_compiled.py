"""Loops give the same bits in Python as compiled by numba, and numba is imported only when there is much to do."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.arrays import compiled

MODULES = ["labeldp.sampling._kernels", "labeldp.priors.private_histogram"]
LOOPS = {
    name: loop for module in MODULES for name, loop in vars(import_module(module)).items() if isinstance(loop, compiled)
}
BIG = 2**64 - 1
words = st.one_of(st.integers(0, BIG), st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**63, BIG - 1, BIG]))
positive = st.one_of(st.integers(1, BIG), st.sampled_from([1, 2**32, 2**63, BIG]))


def array(values, kind=np.uint64):
    return np.array(values, kind)


def many(draw, values, size, kind=np.uint64):
    return array(draw(st.lists(values, min_size=size, max_size=size)), kind)


def rows_of(draw, most=12):
    return draw(st.integers(1, most))


def increasing(draw, size):
    return np.concatenate([array([0]), np.sort(many(draw, words, size - 1))])


def response(draw):
    rows, outputs = rows_of(draw), draw(st.integers(2, 9))
    other = draw(st.integers(1, BIG // outputs))
    keep = 2**64 - (outputs - 1) * other
    symbols = many(draw, st.integers(0, outputs - 1), rows, np.uint32)
    return symbols, many(draw, words, rows), np.uint64(keep), np.uint64(other), np.empty(rows, np.uint32)


def window(draw):
    rows, inputs, width = rows_of(draw), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    inside = draw(st.integers(1, (2**64 - 1) // (width + inputs)))
    outside = (2**64 - width * inside) // (inputs - 1) if inputs > 1 else 1
    outside = min(outside, inside)
    spare = (2**64 - width * inside - (inputs - 1) * outside) % width
    symbols = many(draw, st.integers(0, inputs - 1), rows, np.uint32)
    numbers = (np.uint64(number) for number in (width, inside, outside, spare))
    return symbols, many(draw, words, rows), *numbers, np.empty(rows, np.uint32)


def table_rows(draw):
    rows, inputs, outputs = rows_of(draw), draw(st.integers(1, 4)), draw(st.integers(1, 9))
    starts = np.stack([increasing(draw, outputs) for _ in range(inputs)])
    symbols = many(draw, st.integers(0, inputs - 1), rows, np.uint32)
    return symbols, many(draw, words, rows), starts, np.empty(rows, np.uint32)


def shift(draw):
    rows, inputs, size = rows_of(draw), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    starts, bits = increasing(draw, size), draw(st.integers(1, 5))
    firsts = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    guide = np.append(np.searchsorted(starts, firsts, side="right") - 1, size - 1)
    symbols = many(draw, st.integers(0, inputs - 1), rows, np.uint32)
    reach, last = inputs - 1, draw(st.integers(0, 20))
    return symbols, many(draw, words, rows), starts, guide, np.uint64(64 - bits), reach, last, np.empty(rows, np.uint32)


def residual(draw):
    size, rows = draw(st.integers(2, 5)), rows_of(draw, 4)
    lower = [draw(st.integers(1, 2**64 // size)) for _ in range(size)]
    upper = [draw(st.integers(max(low, -(-(2**64) // size)), BIG)) for low in lower]
    entries = [[draw(st.integers(low, high)) for low, high in zip(lower, upper, strict=True)] for _ in range(rows)]
    return array(entries), array(lower), array(upper)


def anchors(draw):
    rows, cells = rows_of(draw), draw(st.integers(1, 9))
    symbols = many(draw, st.integers(0, cells - 1), rows, np.uint32)
    lower = many(draw, st.integers(0, 2**31), cells, np.uint32)
    return symbols, many(draw, words, rows), lower, many(draw, words, cells), np.empty(rows, np.uint32)


def below(draw):
    rows, floats = rows_of(draw), st.floats(-9, 9)
    thresholds = np.sort(many(draw, floats, draw(st.integers(0, 5)), np.float64))
    return many(draw, floats, rows, np.float64), thresholds, np.empty(rows, np.uint32)


def ratio(draw):
    size = rows_of(draw)
    return many(draw, positive, size), many(draw, positive, size)


def window_ratio(draw):
    size = rows_of(draw)
    return many(draw, positive, size), draw(st.integers(1, size))


def rising(draw):
    values = many(draw, st.one_of(st.floats(-1e6, 1e6), st.integers(-3, 3)), draw(st.integers(0, 20)), np.float64)
    return values, np.empty_like(values)


ARGUMENTS = {
    "sample_response": response,
    "sample_window": window,
    "sample_rows": table_rows,
    "sample_shift": shift,
    "round_to_anchors": anchors,
    "largest_ratio": ratio,
    "spread_residual": residual,
    "count_below_few": below,
    "largest_window_ratio": window_ratio,
    "_fit_rising": rising,
}
HELPERS = {"_last_at_or_below", "_product_exceeds", "_high_word"}
"""Loops that only other loops call."""


def test_every_loop_is_compared():
    assert ARGUMENTS.keys() | HELPERS == LOOPS.keys()


@pytest.mark.parametrize("name", ARGUMENTS)
@settings(deadline=None, max_examples=40)
@given(st.data())
def test_python_and_machine_code_give_the_same_bits(name, data):
    arguments = ARGUMENTS[name](data.draw)
    twice = [[one.copy() if isinstance(one, np.ndarray) else one for one in arguments] for _ in range(2)]
    with np.errstate(over="ignore"):
        in_python = LOOPS[name].python(*twice[0])
    in_machine_code = LOOPS[name].machine_code(*twice[1])
    assert in_python == in_machine_code
    for one, other in zip(*twice, strict=True):
        np.testing.assert_array_equal(one, other, strict=True) if isinstance(one, np.ndarray) else None


@compiled
def total(numbers):
    result = np.uint64(0)
    for number in numbers:
        result += _twice(number)
    return result


@compiled
def _twice(number):
    return number + number


def test_a_loop_is_compiled_once_the_process_has_given_loops_much_to_do(monkeypatch):
    monkeypatch.setattr(compiled, "interpreted", 0)
    numbers = np.full(2**17, 2**62 + 1, np.uint64)
    expected = np.uint64(2**17 * 2 * (2**62 + 1) % 2**64)
    for number, in_python in [(1, True), (2, True), (3, False)]:
        assert total(numbers) == expected, number
        assert ("machine_code" not in total.__dict__) == in_python


@pytest.mark.parametrize("ids", ["text", "number"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_small_release_imports_nothing_slow(tmp_path, ids, suffix):
    program = f"""
import sys
import numpy as np, pyarrow as pa, pyarrow.csv, pyarrow.parquet
from labeldp.cli import main
from labeldp.sampling.ids import array_of
ids = array_of(np.arange(1000))
table = pa.table([ids.cast(pa.string()) if {ids!r} == "text" else ids, array_of(np.arange(1000) % 400)], ["id", "label"])
if {ids!r} == "text":
    table = table.set_column(0, "id", pa.compute.replace_substring(table["id"], "1", "one"))
(pa.csv.write_csv if {suffix!r} == "csv" else pa.parquet.write_table)(table, "labels.{suffix}")
sys.argv = "labeldp privatize labels.{suffix} --id id --label label --epsilon 1 --lower 0 --upper 400 --out message".split()
try:
    main()
finally:
    print("slow:", [name for name in ("numba", "scipy", "pandas", "sklearn", "matplotlib") if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "slow: []" in run.stdout
