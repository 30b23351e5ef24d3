"""What is refused before anything is charged, in words that show no label and no id."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from spark_scenes import DOMAIN, records, release

import labeldp.spark
from labeldp import Domain, InvalidInput, LabelRandomizer
from labeldp.engines.spark import spark_input
from labeldp.engines.spark.spark_input import SparkInput
from labeldp.release.labels import privatize

SECRET = "77123"
GOOD = [1.0, 2.0, 3.0, 4.0] * 5
IDS = list(range(1000, 1021))


def with_label(value, kind=None):
    return pa.table({"id": IDS, "y": pa.array([*GOOD, value], kind, from_pandas=False)})


def with_id(value, kind=None):
    return pa.table(
        {"id": pa.array([*map(str if isinstance(value, str) else int, IDS[1:]), value], kind), "y": [*GOOD, 5.0]}
    )


ROWS = {
    "no label": (with_label(None), {}, "label column 'y' is missing in 1 record"),
    "NaN": (with_label(np.nan), {}, "NaN or infinity in 1 record"),
    "no id": (with_id(None), {}, "has no id in 1 record"),
    "outside": (with_label(float(SECRET)), {"out_of_range": "error"}, "from 0 to 10, but 1 record in 'y' do not"),
    "all outside": (pa.table({"id": IDS, "y": [float(SECRET)] * 21}), {}, "more than 20% of the labels lie outside"),
    "many outside": (pa.table({"id": IDS, "y": [*GOOD[:15], *[float(SECRET)] * 6]}), {}, "more than 20% of the labels"),
    "not whole": (with_label(float(SECRET) + 0.5), {"domain": Domain.integers(0, 10)}, "must be whole numbers"),
    "no integer": (with_id(f"x{SECRET}"), {"id_type": "int"}, "not a plain 64-bit integer"),
    "an id twice": (with_id(1001), {}, "ids must be unique.*Nothing was released or charged"),
    "a text twice": (with_id("1001"), {}, "ids must be unique.*Nothing was released or charged"),
    "no rows": (records(0), {}, "no records"),
}


@pytest.mark.parametrize("case", ROWS)
def test_rows(spark, place, case):
    table, options, said = ROWS[case]
    frame = spark.createDataFrame(table).repartition(3)
    with place.refused(said, SECRET, error=InvalidInput):
        place.release(frame, **options)


@pytest.mark.parametrize(("id_kind", "partitions"), [("int", 4), ("str", 1)])
def test_a_repeated_id_that_is_found_late_is_charged_and_not_released(spark, place, monkeypatch, id_kind, partitions):
    monkeypatch.setattr(spark_input, "EARLY_ROWS", 0)
    table = records(ids=id_kind)
    frame = spark.createDataFrame(pa.concat_tables([table, table[7:8]])).repartition(partitions)
    repeated = [table["id"][7].as_py()] if id_kind == "str" else []
    with place.refused("ids must be unique.*Nothing was released", *repeated, charged=1):
        place.release(frame, key_file=place.folder / "key")


def test_many_labels_outside_are_told_to_the_labels_party(spark, place):
    frame = spark.createDataFrame(pa.table({"id": IDS, "y": [*GOOD[:17], *[99.0] * 4]}))
    with pytest.warns(labeldp.ClippingWarning, match=r"19\.0% of the labels"):
        place.release(frame)


CLASSES = {
    "one class": (["no"] * 21, ["no", "yes"], "all labels are of one class"),
    "a class that does not occur": (
        ["no", "yes", *["no"] * 19],
        ["no", "yes", "maybe"],
        "no label is of the class 'maybe'",
    ),
    "three instead of two": (
        ["no", "yes", SECRET, *["no"] * 18],
        ["no", "yes"],
        "In 1 record they are missing or something",
    ),
    "probabilities": ([0.5, 0.77123, *[0.25] * 19], ["no", "yes"], "In 21 records they are numbers between 0 and 1"),
    "missing": (["no", "yes", None, *["no"] * 18], ["no", "yes"], "label column 'y' is missing in 1 record"),
}


@pytest.mark.parametrize("case", CLASSES)
def test_classes(spark, place, case):
    labels, classes, said = CLASSES[case]
    frame = spark.createDataFrame(pa.table({"id": IDS, "y": pa.array(labels)})).repartition(3)
    with place.refused(said, SECRET, error=InvalidInput):
        place.release(frame, domain=None, classes=classes, mechanism="auto")


def test_bounds_and_classes_together(spark, place):
    for given in ({"classes": ["no", "yes"]}, {"domain": None}):
        with place.refused("give either domain", error=InvalidInput):
            place.release(spark.createDataFrame(records()), **given)


COLUMNS = {
    "text labels": ("y", pa.array([SECRET] * 21), "contains string, not numbers"),
    "booleans": ("y", pa.array([True] * 21), "booleans, which become 0 and 1, but the bounds are 0 to 10"),
    "arrays": ("y", pa.array([[77123.0]] * 21), "contains list.*not numbers"),
    "intervals without a unit": ("y", pa.array([1] * 21, pa.duration("us")), "unit"),
    "ids of floats": ("id", pa.array(np.arange(21.0)), "contains double; ids must be integers or text"),
    "ids of bytes": ("id", pa.array([b"77123"] * 21), "contains binary; ids must be integers or text"),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns(spark, place, case):
    name, column, said = COLUMNS[case]
    table = pa.table({"id": IDS, "y": [*GOOD, 1.0]} | {name: column})
    for id_type in (None, "str"):
        with place.refused(said, SECRET, error=InvalidInput):
            place.release(spark.createDataFrame(table), id_type=id_type)


@pytest.mark.parametrize("kind", ["interval", "variant", "timestamp_ntz"])
@pytest.mark.parametrize("name", ["y", "id"])
def test_columns_of_types_that_only_spark_has(spark, place, kind, name):
    frame = spark.sql(f"select cast(null as {kind}) {name}, 1 {'id' if name == 'y' else 'y'}")
    with place.refused(f"column '{name}' contains", error=InvalidInput):
        place.release(frame)


def test_numbers_and_booleans_are_taken_like_on_one_machine(spark, place):
    place.release(spark.createDataFrame(records()), domain=Domain(0, 10, cells=11, unit="hours"))
    booleans = pa.table({"id": range(500), "y": [number % 3 == 0 for number in range(500)]})
    place.release(spark.createDataFrame(booleans), out=place.folder / "other", domain=Domain.integers(0, 1))


RANDOM = ["rand()", "randn(5)", "length(uuid())", "monotonically_increasing_id()", "shuffle(array(1, 2, 3))[0]"]


@pytest.mark.parametrize("expression", RANDOM)
def test_frames_that_change_when_they_are_read_again(spark, place, expression):
    with place.refused("gives other rows each time it is read", error=InvalidInput):
        place.release(spark.range(9).selectExpr("id", f"cast({expression} as double) as y"))


def test_streams(spark, place):
    stream = spark.readStream.format("rate").load().selectExpr("value as id", "value as y")
    with place.refused("a stream", error=InvalidInput):
        place.release(stream)


@pytest.mark.parametrize("given", ["GroupedData", "Table"])
def test_what_is_no_frame(spark, place, given):
    table = records()
    values = [spark.range(3).groupBy("id"), table]
    (value,) = [one for one in values if type(one).__name__ == given]
    with place.refused(f"frame must be a Spark DataFrame, got .*{given}", error=InvalidInput):
        place.release(value)


SETTINGS = {
    "a missing column": ({"label": "amount"}, "no column 'amount'. It has: id, y"),
    "another case": ({"id": "ID"}, "no column 'ID'. It has: id, y"),
    "label and id the same": ({"id": "y"}, "cannot be the id column too"),
    "a type of ids": ({"id_type": "float"}, 'id_type must be "int" or "str"'),
    "a missing folder": ({"out": "/nowhere/at/all"}, "does not exist: make it first"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings(spark, place, case):
    options, said = SETTINGS[case]
    with place.refused(said, error=InvalidInput):
        place.release(spark.createDataFrame(records()), **options)


@pytest.mark.parametrize("name", ["code", "PRIVATE_LABEL"])
def test_an_id_column_called_as_one_of_the_message(spark, place, name):
    frame = spark.createDataFrame(records().rename_columns([name, "y"]))
    with place.refused(f"cannot be called '{name}'", error=InvalidInput):
        place.release(frame, id=name)


def test_a_column_twice(spark, place):
    frame = spark.createDataFrame(records())
    with place.refused("more than one column 'y'", error=InvalidInput):
        place.release(frame.select("id", "y", "y"))


def test_the_order_of_the_input_cannot_be_kept(spark, place):
    labels = SparkInput(spark.createDataFrame(records()), "y", "id")
    with place.refused("leave out keep_order", error=InvalidInput):
        privatize(labels, LabelRandomizer(1, DOMAIN), place.folder / "message", keep_order=True)


def test_too_little_budget_is_noticed_before_a_job_runs(spark, place):
    told = []
    with place.refused("has ε = 3 left", error=labeldp.InsufficientBudget):
        place.release(spark.createDataFrame(records()), epsilon=4, phase=lambda name, rows: told.append(name))
    assert told == []


def test_a_message_that_is_there_is_taken_for_the_one_asked_for(spark, place):
    frame = spark.createDataFrame(records())
    first = release(frame, place.folder, key_file=place.folder / "key")
    again = release(frame.repartition(5), place.folder, key_file=place.folder / "key")
    assert again.header == first.header
    with place.refused("exists and is not overwritten", error=InvalidInput):
        release(spark.createDataFrame(records(seed=1)), place.folder, key_file=place.folder / "key")


def test_a_frame_of_a_session_that_was_stopped(spark, place, monkeypatch):
    frame = spark.createDataFrame(records())
    monkeypatch.setattr(spark.sparkContext, "_jsc", None)
    with pytest.raises(InvalidInput, match="session of this frame was stopped"):
        labeldp.spark.privatize(frame, label="y", id="id", epsilon=1, domain=(0, 10), out=place.folder / "other")
