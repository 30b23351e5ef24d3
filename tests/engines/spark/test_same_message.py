"""Spark and one machine give the same message: the same private label for every id, in the same order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from spark_scenes import assert_same, frame_of, on_one_machine, records, release, saved

import labeldp.spark
from labeldp import Domain
from labeldp.engines.spark import shuffle

pytestmark = pytest.mark.filterwarnings("ignore::labeldp.ClippingWarning")


def sales(rows, ids="int", seed=0):
    random = np.random.default_rng(seed)
    numbers = random.permutation(np.arange(rows) * 3 - rows)
    return pa.table(
        {
            "order": pa.array(numbers) if ids == "int" else pa.array([f"ö{number}" for number in numbers]),
            "amount": np.minimum(random.exponential(90, rows), 500),
        }
    )


@pytest.mark.parametrize("partitions", [1, 7])
@pytest.mark.parametrize("ids", ["int", "str"])
def test_same_labels_in_the_same_order(spark, tmp_path, ids, partitions):
    file, key = saved(sales(3000, ids), tmp_path), tmp_path / "key"
    message = labeldp.spark.privatize(
        spark.read.parquet(str(file)).repartition(partitions),
        label="amount",
        id="order",
        epsilon=1,
        domain=(0, 400),
        out=tmp_path / "message",
        key_file=key,
    )
    assert_same(message.to_arrow(), on_one_machine(message, file, key, tmp_path))
    assert message.records == 3000


def same(frame, table, folder, **options):
    """Releases a frame that holds what the table holds, and compares."""
    message = release(frame, folder, key_file=folder / "key", **options)
    expected = on_one_machine(message, saved(table, folder, "twin"), folder / "key", folder, options.get("id_type"))
    assert_same(message.to_arrow(), expected)
    return message


@pytest.mark.parametrize("ids", ["int", "str"])
def test_several_parts_follow_each_other_in_the_order_of_one_machine(spark, tmp_path, monkeypatch, ids):
    monkeypatch.setattr(shuffle, "ROWS_PER_PART", 20)
    table = records(100, ids=ids)
    message = same(frame_of(spark, table, tmp_path).repartition(5), table, tmp_path)
    assert len(message.files) == 8
    assert [file.path.name for file in message.files] == [f"part-{part:05d}.parquet" for part in range(8)]


def test_parts_without_rows_leave_no_file(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(shuffle, "ROWS_PER_PART", 1)
    table = records(10)
    message = same(frame_of(spark, table, tmp_path), table, tmp_path)
    assert all(file.count() for file in message.files)
    assert 2 < len(message.files) <= 10


@pytest.mark.parametrize("partitions", [12, pytest.param(64, marks=pytest.mark.soak)])
def test_more_partitions_than_records(spark, tmp_path, partitions):
    table = records(10)
    same(frame_of(spark, table, tmp_path).repartition(partitions), table, tmp_path)


@pytest.mark.parametrize("id_type", ["int", "str"])
def test_ids_that_are_converted(spark, tmp_path, id_type):
    ids = pa.array([-(2**63), 2**63 - 1, *range(58)])
    table = records().set_column(0, "id", ids if id_type == "str" else pa.array(map(str, ids.to_pylist())))
    assert same(frame_of(spark, table, tmp_path), table, tmp_path, id_type=id_type).header.id_type == id_type


NAMES = {
    "dots": ("order.id", "a.b.c"),
    "spaces and backticks": ("my `id`", " `"),
    "twins": ("Id", "Y"),
    "signs": ("Größe,;{}()\n\t=", "日本"),
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_columns_of_any_name(spark, tmp_path, names):
    """Spark does not tell `Id` from `id`, nor a dot in a name from a field of a struct."""
    table = records().rename_columns(names)
    others = {name: pa.array(["x"] * 60) for name in ("id", "y")}
    frame = spark.createDataFrame(pa.table(others | {names[1]: table[1], names[0]: table[0]}))
    same(frame, table, tmp_path, id=names[0], label=names[1])


def frames(spark, table, folder):
    whole = frame_of(spark, table, folder)
    whole.createOrReplaceTempView("sales")
    half = [frame_of(spark, part, folder, f"half-{place}") for place, part in enumerate((table[:30], table[30:]))]
    return {
        "cached": whole.cache(),
        "a union": half[1].union(half[0]),
        "a query": spark.sql("select upper('x') as other, y, id from sales where y is not null"),
        "from memory": spark.createDataFrame(table),
        "sorted by label": whole.orderBy("y"),
    }


@pytest.mark.parametrize("kind", ["cached", "a union", "a query", "from memory", "sorted by label"])
def test_frames_of_every_kind(spark, tmp_path, kind):
    table = records()
    frame = frames(spark, table, tmp_path)[kind]
    try:
        same(frame, table, tmp_path)
    finally:
        frame.unpersist()


LABELS = {
    "a prior bought, other loss": ({"loss": "absolute", "mechanism": "rr-on-bins", "domain": (0, 10)}, pa.float64()),
    "whole numbers": ({"domain": Domain.integers(0, 10)}, pa.int16()),
    "decimals": ({}, pa.decimal128(10, 2)),
    "all clipped": ({"domain": (100, 200), "out_of_range": "clip-all"}, pa.float32()),
}


@pytest.mark.parametrize(("options", "kind"), LABELS.values(), ids=LABELS)
def test_labels_and_settings(spark, tmp_path, options, kind):
    table = records(200)  # so many that a bought prior gives no warning
    if pa.types.is_decimal(kind):
        labels = table["y"].cast(pa.decimal128(17, 2), safe=False).cast(kind)
    else:
        labels = table["y"].cast(kind, safe=False)
    table = table.set_column(1, "y", labels)
    same(frame_of(spark, table, tmp_path), table, tmp_path, **options)


CLASSES = {
    "text": (["no", "yes"], pa.array(["no", "yes", "no"] * 20)),
    "booleans": (["no", "yes"], pa.array([False, True, True] * 20)),
    "numbers": (["3", "1", "2"], pa.array([1, 2, 3] * 20)),
}


@pytest.mark.parametrize(("names", "column"), CLASSES.values(), ids=CLASSES)
@pytest.mark.parametrize("person", [None, "who"])
def test_classes(spark, tmp_path, names, column, person):
    table = records().set_column(1, "y", column).append_column("who", pa.array(np.arange(60) // 4))
    frame = frame_of(spark, table, tmp_path).repartition(3)
    message = release(
        frame, tmp_path, domain=None, classes=names, mechanism="auto", person=person, key_file=tmp_path / "key"
    )
    assert message.mechanism.domain == Domain.of_classes(names)
    assert message.records == (60 if person is None else 15)
    if person is None:
        assert_same(message.to_arrow(), on_one_machine(message, tmp_path / "input.parquet", tmp_path / "key", tmp_path))


def test_intervals(spark, tmp_path):
    table = records().set_column(1, "y", pa.array(range(0, 60 * 600_000_000, 600_000_000), pa.duration("us")))
    frame = spark.createDataFrame(table)
    assert frame.schema["y"].dataType.simpleString() == "interval day to second"
    same(frame, table, tmp_path, domain=Domain(0, 10, cells=11, unit="hours"))
