"""JSON from outside is read strictly: whatever is wrong with it, there is one kind of error, and it names the text."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from labeldp.errors import InvalidInput
from labeldp.json_text import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_DIGITS,
    parse_json,
    read_bytes,
    read_record,
    read_text,
    to_record,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
BAD = {
    "nothing": "",
    "no JSON": "hunter2",
    "deep lists": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "deep after a string with brackets": '["]]]]\\"]]]", ' + "[" * 100 + "]" * 100 + "]",
    "a long integer": "7" * 5000,
    "a float beyond floats": "[1e999]",
    "NaN": '{"a": NaN}',
    "one name twice": '{"a": {"b": 1, "c": 2, "b": 1}}',
    "half a character": r'["\ud800"]',
    "more after it": "{} {}",
    "a byte order mark": "\ufeff{}",
    "a string without an end": '["abc',
}


@given(JSON)
def test_what_python_writes_is_read_back(value):
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False).encode()):
        assert parse_json(text, "it") == value


@pytest.mark.parametrize("case", BAD)
def test_other_text_is_refused_by_name(case, tmp_path):
    with pytest.raises(InvalidInput, match=r"^the description is not valid JSON: "):
        parse_json(BAD[case], "the description")
    (tmp_path / "it.json").write_text(BAD[case], encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"it\.json is not valid JSON"):
        parse_json(read_text(tmp_path / "it.json"), tmp_path / "it.json")


def test_the_limits_themselves_are_allowed():
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH, "it")
    assert parse_json("9" * MAX_DIGITS, "it") == 10**MAX_DIGITS - 1
    assert parse_json('"' + "[" * 1000 + '"', "it") == "[" * 1000
    assert parse_json(r'"\ud83d\ude00"', "it") == "\U0001f600"


@pytest.mark.parametrize("content", [b"\xff", b"\xff\xfe{\x00}\x00", b'"\xed\xa0\x80"'])
def test_bytes_that_are_not_utf_8_are_refused(content, tmp_path):
    (tmp_path / "it.json").write_bytes(content)
    for read in (lambda: parse_json(content, "it"), lambda: parse_json(read_text(tmp_path / "it.json", "it"), "it")):
        with pytest.raises(InvalidInput, match="it is not valid JSON: it is not UTF-8"):
            read()


def test_errors_show_nothing_of_the_text():
    for text in ('{"s3cret": 1, "s3cret": 2}', '["s3cret", s3cret]', '{"s3cret"}', r'"s3cret\ud800"'):
        with pytest.raises(InvalidInput) as caught:
            parse_json(text, "it")
        assert "s3cret" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="cannot read"):
        parse_json(read_text(tmp_path / "none.json"), tmp_path / "none.json")
    with pytest.raises(InvalidInput, match="cannot read"):
        parse_json(read_text(tmp_path), tmp_path)
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(MAX_BYTES + 1)  # sparse
    with pytest.raises(InvalidInput, match="more than"):
        parse_json(read_text(tmp_path / "large.json"), tmp_path / "large.json")


@pytest.mark.skipif(os.name != "posix", reason="needs /dev/fd")
@pytest.mark.parametrize(("length", "most"), [(0, 0), (1000, 1000), (1000, 5000), (1, 0), (1000, 999)])
def test_the_limit_holds_for_a_pipe_whose_length_nobody_knows(length, most):
    pipe, into = os.pipe()
    try:
        os.write(into, b"x" * length)
        os.close(into)
        if length <= most:
            assert read_bytes(Path(f"/dev/fd/{pipe}"), most) == b"x" * length
        else:
            with pytest.raises(InvalidInput, match=f"it has more than {most} bytes"):
                read_bytes(Path(f"/dev/fd/{pipe}"), most, "it")
    finally:
        os.close(pipe)


@pytest.mark.parametrize("value", [None, 7, {}, object()])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(InvalidInput, match="must be JSON text"):
        parse_json(value, "it")


@dataclass
class Part:
    name: str
    size: int


@dataclass
class Whole:
    title: str
    share: float
    parts: tuple[Part, ...]
    note: str | None
    ready: bool


GOOD = {"title": "a", "share": 0.5, "parts": [{"name": "b", "size": 1}], "note": None, "ready": True}


def test_a_record_becomes_its_dataclass():
    assert read_record(Whole, GOOD, "the record") == Whole("a", 0.5, (Part("b", 1),), None, ready=True)
    assert read_record(Whole, GOOD | {"note": "c"}, "the record").note == "c"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"title": 1}, "the field 'title' of the record is damaged"),
        ({"share": 1}, "the field 'share'"),
        ({"ready": 1}, "the field 'ready'"),
        ({"note": 1}, "the field 'note'"),
        ({"parts": {}}, "the field 'parts'"),
        ({"parts": [7]}, "parts in the record must be a JSON object"),
        ({"parts": [{"name": "b", "size": True}]}, "the field 'size' of parts in the record"),
        ({"parts": [{"name": "b"}]}, "parts in the record lacks the field 'size'"),
        ({"more": 1}, "the record has an unknown field: 'more'"),
    ],
)
def test_a_record_with_other_fields_is_refused(change, says):
    with pytest.raises(InvalidInput, match=says):
        read_record(Whole, GOOD | change, "the record")


@dataclass
class Numbers:
    cost_exact: Fraction
    large: NDArray[np.int64]
    shares: NDArray[np.float64]
    pair: tuple[str, float]
    part: Part | Whole
    stated = ("doubled",)

    @property
    def doubled(self):
        return int(self.large.sum()) * 2


NUMBERS = Numbers(Fraction(1, 3), np.array([[1, -(2**60)], [0, 5]]), np.array([0.1, 1e300]), ("a", 0.5), Part("b", 1))
STORED = {
    "cost": "1/3",
    "large": [["1", str(-(2**60))], ["0", "5"]],
    "shares": [0.1, 1e300],
    "pair": ["a", 0.5],
    "part": {"name": "b", "size": 1},
    "doubled": 2 * (6 - 2**60),
}


def test_arrays_fractions_and_what_follows_from_fields_are_stored_and_read():
    assert to_record(NUMBERS) == STORED
    read = read_record(Numbers, json.loads(json.dumps(STORED)), "it")
    assert (read.cost_exact, read.pair, read.part) == (NUMBERS.cost_exact, NUMBERS.pair, NUMBERS.part)
    assert read.large.dtype == np.int64
    assert read.large.tolist() == NUMBERS.large.tolist()
    assert read.shares.tolist() == NUMBERS.shares.tolist()
    assert read_record(Numbers, STORED | {"part": GOOD}, "it").part.title == "a"


@pytest.mark.parametrize(
    "change",
    [
        {"cost": 1},
        {"cost": "1/0"},
        {"large": [["1"], ["2", "3"]]},
        {"large": [[1]]},
        {"large": ["9223372036854775808"]},
        {"large": ["01"]},
        {"large": "1"},
        {"shares": [None]},
        {"shares": ["1"]},
        {"shares": [[1.0], 2.0]},
        {"shares": 1.0},
        {"pair": ["a"]},
        {"pair": ["a", 0.5, 1.0]},
        {"part": None},
        {"part": {"name": "b"}},
        {"doubled": 0},
    ],
    ids=str,
)
def test_damaged_arrays_fractions_and_facts_are_refused(change):
    with pytest.raises(InvalidInput):
        read_record(Numbers, STORED | change, "it")
