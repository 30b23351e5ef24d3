"""`matching_features`: the feature rows of a message's records, or a sample of them, chosen by their ids."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from spark_scenes import DOMAIN, records, saved

from labeldp import InvalidInput, LabelRandomizer, LabelSource, Message, privatize
from labeldp.spark import matching_features

ROWS = 400


def message_of(table, folder) -> Message:
    randomizer = LabelRandomizer(1, DOMAIN, mechanism="randomized-response")
    privatize(LabelSource(saved(table, folder, "labels"), "y", "id"), randomizer, folder / "message")
    return Message.open(folder / "message")


@pytest.fixture(scope="module")
def message(tmp_path_factory):
    return message_of(records(ROWS), tmp_path_factory.mktemp("features"))


def features(ids, **columns):
    return pa.table({"id": ids, "x": np.arange(len(ids), dtype=float)} | columns)


def test_records_of_the_message_and_no_others(spark, message):
    held = message.to_arrow()["id"].to_pylist()
    frame = spark.createDataFrame(features([*held[:50], 10**6, 10**7, held[0]]))
    found = matching_features(frame, message)
    assert found.columns == ["id", "x"]
    assert sorted(row["x"] for row in found.collect()) == [*map(float, range(50)), 52.0]


def test_a_sample_is_chosen_by_ids(spark, message):
    frame = spark.createDataFrame(features(message.to_arrow()["id"].to_pylist()))
    first = {row["id"] for row in matching_features(frame, message.path, rows=100).collect()}
    again = {row["id"] for row in matching_features(frame.repartition(3), message, rows=100).collect()}
    assert first == again
    assert 60 < len(first) < 140, "a binomial number with a standard deviation of 8.7, of ids that never change"
    larger = {row["id"] for row in matching_features(frame, message, rows=200).collect()}
    assert first < larger
    assert matching_features(frame, message, rows=ROWS).count() == ROWS


def test_columns_whose_names_spark_does_not_tell_apart(spark, message):
    table = features(message.to_arrow()["id"].to_pylist()[:5]).rename_columns(["Id", "ID"])
    frame = spark.createDataFrame(pa.table({"id": ["a"] * 5, "Id": table["Id"], "a.b": table["ID"]}))
    found = matching_features(frame, message, id="Id")
    assert found.columns == ["id", "Id", "a.b"]
    assert found.count() == 5


def test_text_is_compared_by_its_signs(spark, tmp_path):
    """A collation may take a for A."""
    table = pa.table({"id": ["a", "B", "007"], "y": [1.0, 2.0, 3.0]})
    frame = spark.createDataFrame(features(["a", "A", "b", "B", "7"]))
    folded = frame.selectExpr("collate(id, 'UTF8_LCASE') as id", "x")
    found = matching_features(folded, message_of(table, tmp_path))
    assert sorted(row["id"] for row in found.collect()) == ["B", "a"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"id": "order"}, "no column 'order'. It has: id, x"),
        ({"id": "x"}, "ids are int and the ids in 'x' are double"),
        ({"rows": 0}, "rows must be a positive whole number"),
        ({"rows": 10.0}, "rows must be a positive whole number"),
    ],
)
def test_refusals(spark, message, given, said):
    with pytest.raises(InvalidInput, match=said):
        matching_features(spark.createDataFrame(features([1, 2])), message, **given)


def test_text_for_integers_is_not_converted(spark, message):
    with pytest.raises(InvalidInput, match="ids are int and the ids in 'id' are str"):
        matching_features(spark.createDataFrame(features(["1", "007"])), message)
