"""Persons on Spark: the rows that one machine chooses, and batches of either engine leave out the same persons."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from spark_scenes import saved

import labeldp.spark
from labeldp import LabelRandomizer, LabelSource, apply, privatize
from labeldp.errors import InvalidInput


def orders(first=0, rows=3000, low=0, high=800, *, text=True, seed=0):
    generator = np.random.default_rng(seed)
    persons = generator.integers(low, high, rows)
    return pa.table(
        {
            "order": np.arange(first, first + rows),
            "customer": pa.array([f"c{number}" for number in persons]) if text else pa.array(persons),
            "amount": generator.integers(0, 101, rows).astype(float),
        }
    )


@pytest.mark.parametrize(("text", "epsilon"), [(True, 1), (False, 30)])
def test_spark_chooses_the_rows_of_one_machine_and_batches_leave_out_its_persons(spark, tmp_path, text, epsilon):
    table, key = orders(text=text), tmp_path / "key"
    file = saved(table, tmp_path)
    options = {"label": "amount", "id": "order", "epsilon": epsilon, "domain": (0, 100), "person": "customer"}
    frame = spark.read.parquet(str(file)).repartition(5)
    message = labeldp.spark.privatize(frame, out=tmp_path / "message", key_file=key, **options)
    source = LabelSource(file, "amount", "order", person_column="customer")
    privatize(source, LabelRandomizer(epsilon, (0, 100)), tmp_path / "twin", key_file=key)
    twin = labeldp.Message.open(tmp_path / "twin")
    assert message.to_arrow()["order"].to_pylist() == twin.to_arrow()["order"].to_pylist()
    assert message.header.persons == twin.header.persons
    assert message.epsilon_exact == epsilon
    contents = [
        sorted(file.read_bytes() for file in tmp_path.glob(f"key.{each.header.release[:12]}.*"))
        for each in (message, twin)
    ]
    assert contents[0] == contents[1]
    assert len(contents[0]) == 1
    later = orders(3000, 300, 700, 900, text=text, seed=1)
    labels = LabelSource(saved(later, tmp_path, "later"), "amount", "order", person_column="customer")
    new = set(later["customer"].to_pylist()) - set(table["customer"].to_pylist())
    for number, add in enumerate(
        [
            lambda: apply(message.path, labels, key_file=key),
            lambda: labeldp.spark.apply(spark.read.parquet(str(labels.path)), twin.path, key_file=key),
        ]
    ):
        add()
        both = labeldp.Message.open((message, twin)[number].path)
        owners = dict(zip(range(3300), pa.concat_tables([table, later])["customer"].to_pylist(), strict=True))
        counted = Counter(owners[order] for order in both.to_arrow()["order"].to_pylist())
        assert set(counted) == set(owners.values())
        assert max(counted.values()) == message.header.persons.entries
        assert both.records - message.records == sum(counted[person] for person in new)


def test_missing_persons_and_a_single_person_are_refused(spark, tmp_path):
    table = orders(rows=50)
    options = {"label": "amount", "id": "order", "epsilon": 1, "domain": (0, 100), "person": "customer"}
    for column, wrong in (([None] + ["a"] * 49, "has no person in 1 record"), (["a"] * 50, "belong to one person")):
        file = saved(table.set_column(1, "customer", pa.array(column)), tmp_path, f"file{len(wrong)}")
        with pytest.raises(InvalidInput, match=wrong):
            labeldp.spark.privatize(spark.read.parquet(str(file)), out=tmp_path / "m", **options)
