"""What the workers make of records, without Spark: drawn, sorted and put in order, they are the rows of one machine."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from spark_scenes import DOMAIN, KEY, assert_same, draw_task, drawn_by_arrow, order_task, records, saved

from labeldp import Domain, LabelRandomizer, LabelSource, Prior
from labeldp.engines.spark.shuffle import NOTE_CODES
from labeldp.engines.spark.worker import CHANGED, REPEATED, WorkerError
from labeldp.mechanisms.registry import MECHANISMS
from labeldp.sampling.multiset import MultisetHash

RR = LabelRandomizer(1, DOMAIN, mechanism="randomized-response").plan(60).design()
NAMES = [entry.name for entry in MECHANISMS if entry.exact] + ["auto"]


def drawn(table, mechanism, id_kind, rows=7):
    """The rows that travel, and the notes beside them, of batches of so many rows."""
    made = pa.Table.from_batches(draw_task(mechanism, id_kind)(iter(table.to_batches(rows))))
    noted = np.asarray(made["code"]) < 0
    return made.filter(pa.array(~noted)), made.filter(pa.array(noted))


def put_in_order(rows, mechanism, id_kind, size=5):
    keys = [(name, "ascending") for name in ("key", "high") if name in rows.column_names]
    return pa.Table.from_batches(order_task(mechanism, id_kind)(iter(rows.sort_by(keys).to_batches(size))))


def assert_as_on_one_machine(table, mechanism, folder, id_type=None):
    id_kind = id_type or ("int" if pa.types.is_integer(table["id"].type) else "str")
    expected = drawn_by_arrow(LabelSource(saved(table, folder), "y", "id", id_type), mechanism, folder)
    assert_same(put_in_order(drawn(table, mechanism, id_kind)[0], mechanism, id_kind), expected)


@pytest.mark.parametrize("name", NAMES)
def test_every_mechanism(tmp_path, name):
    prior = Prior.uniform(DOMAIN)
    mechanism = LabelRandomizer(1, DOMAIN, mechanism=name, prior=prior).plan(60).design()
    assert_as_on_one_machine(records(), mechanism, tmp_path)


def test_more_outputs_than_16_bits_hold(tmp_path):
    for largest in (2**15 - 1, 2**15):
        whole = Domain.integers(0, largest)
        mechanism = LabelRandomizer(1, whole, mechanism="randomized-response").plan(60).design()
        table = records().set_column(1, "y", pa.array(np.linspace(0, largest, 60).round()))
        assert mechanism.outputs.size == largest + 1
        assert_as_on_one_machine(table, mechanism, tmp_path)


IDS = {
    "int8": pa.array(range(-30, 30), pa.int8()),
    "int32": pa.array(range(-30, 30), pa.int32()),
    "the ends of int64": pa.array([-(2**63), 2**63 - 1, *range(-29, 29)], pa.int64()),
    "texts": pa.array(["", "ö", "日本", "a\0b", "ab" * 40_000, *(f"order-{number:09d}" for number in range(55))]),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_ids_of_every_kind(tmp_path, ids):
    assert_as_on_one_machine(records().set_column(0, "id", ids), RR, tmp_path)


@pytest.mark.parametrize("id_type", ["int", "str"])
@pytest.mark.parametrize("given", ["int", "str"])
def test_ids_that_are_converted(tmp_path, given, id_type):
    ids = pa.array(map(str, range(-30, 30))) if given == "str" else pa.array(range(-30, 30))
    assert_as_on_one_machine(records().set_column(0, "id", ids), RR, tmp_path, id_type)


LABELS = {
    "bytes": pa.array([3, 120, -100] * 20, pa.int8()),
    "integers": pa.array([3, 2**60, -(2**60)] * 20, pa.int64()),
    "single floats": pa.array([0.1, 9.7, 3.3] * 20, pa.float32()),
    "decimals": pa.array([Decimal("0.10"), Decimal("9.99"), Decimal("-3.50")] * 20, pa.decimal128(10, 2)),
    "negative zero": pa.array([0.0, -0.0, 5.0] * 20),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_of_every_kind(tmp_path, labels):
    assert_as_on_one_machine(records().set_column(1, "y", labels), RR, tmp_path)


def test_intervals(tmp_path):
    hours = Domain(0, 10, cells=11, unit="hours")
    mechanism = LabelRandomizer(1, hours, mechanism="randomized-response").plan(60).design()
    spans = pa.array([timedelta(minutes=13 * place) for place in range(60)], pa.duration("us"))
    assert_as_on_one_machine(records().set_column(1, "y", spans), mechanism, tmp_path)


@pytest.mark.parametrize("ids", ["int", "str"])
def test_notes_are_the_hash_of_the_records_however_they_are_split(ids):
    table = records(ids=ids)
    expected = MultisetHash(KEY)
    expected.add(
        table["id"].combine_chunks().cast(pa.large_string() if ids == "str" else pa.int64()), np.asarray(table["y"])
    )
    notes = pa.concat_tables([drawn(part, RR, ids)[1] for part in (table[:1], table[1:20], table[20:20], table[20:])])
    summed = put_in_order(notes, RR, ids)
    assert summed["code"].to_pylist() == list(NOTE_CODES)
    assert [int(number) % 2**64 for number in summed["id"].to_pylist()] == [*expected.limbs, expected.rows, 0]


def test_a_part_of_records_has_no_notes():
    rows, _ = drawn(records(), RR, "int")
    assert min(put_in_order(rows, RR, "int")["code"].to_pylist()) >= 0
    assert list(order_task(RR, "int")(iter([]))) == []


@pytest.mark.parametrize("size", [1, 5, 100])
@pytest.mark.parametrize("ids", ["int", "str"])
def test_repeated_ids_are_refused_within_a_batch_and_across(ids, size):
    table = records(ids=ids)
    rows, _ = drawn(pa.concat_tables([table, table[30:31]]), RR, ids)
    with pytest.raises(WorkerError, match=REPEATED):
        put_in_order(rows, RR, ids, size)


def test_texts_with_equal_leading_bits_are_not_repeated():
    """The 64 bits of the key decide the order, the other 32 whether it is the same text."""
    rows, _ = drawn(records(ids="str"), RR, "str")
    rows = rows.set_column(0, rows.field("key"), pa.array(np.zeros(60, np.int64)))
    assert len(put_in_order(rows, RR, "str")) == 60


@pytest.mark.parametrize(
    "fault", [{"y": pa.array([None, 1.0])}, {"y": pa.array([np.nan, 1.0])}, {"id": pa.array([None, 1], pa.int64())}]
)
def test_a_fault_that_the_first_pass_did_not_find_is_a_change(fault):
    with pytest.raises(WorkerError, match=CHANGED):
        drawn(pa.table({"id": [1, 2], "y": [1.0, 2.0]} | fault), RR, "int")


def test_rows_that_travel_hold_no_label():
    """Whatever the label is, a row has the columns of what is released."""
    assert drawn(records(), RR, "int")[0].column_names == ["key", "code"]
    assert drawn(records(ids="str"), RR, "str")[0].column_names == ["key", "high", "id", "code"]
    with_id = draw_task(RR, "int", with_id=True)
    assert next(with_id(iter(records().to_batches()))).schema.names == ["key", "id", "code"]
