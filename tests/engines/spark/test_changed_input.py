"""A frame that gives other records when it is read again: charged, and nothing is released."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from spark_scenes import DOMAIN, KEY, records, release

from labeldp.engines.spark.spark_input import SparkInput
from labeldp.errors import InvalidInput

TEXT = "1,3.5\n2,7.0\n3,1.5\n4,9.0\n5,4.0\n"
CHANGES = {
    "one label": TEXT.replace("4,9.0", "4,9.1"),
    "one id": TEXT.replace("4,9.0", "6,9.0"),
    "two labels swapped": TEXT.replace("3.5", "x").replace("7.0", "3.5").replace("x", "7.0"),
    "a record less": TEXT.replace("4,9.0\n", "\n" * 6),
    "a label less": TEXT.replace("4,9.0", "4,   "),
}


class Input:
    """A file of records, and a hook that changes it before the labels are drawn."""

    def __init__(self, spark, folder):
        self.file = folder / "input.csv"
        self.file.write_text(TEXT)
        self.frame = spark.read.schema("id long, y double").csv(str(self.file), ignoreLeadingWhiteSpace=True)

    def changed_to(self, text):
        assert len(text) == len(TEXT), "Spark reads as many bytes as the file had"

        def phase(name, rows):
            if name == "randomizing":
                self.file.write_text(text)

        return phase


@pytest.fixture
def given(spark, place):
    return Input(spark, place.folder)


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_between_the_passes(given, place, case):
    """Nothing is published, and nothing is left in the folder."""
    with place.refused("gave other records.*so nothing was released", charged=1, error=InvalidInput):
        place.release(given.frame, key_file=place.folder / "key", phase=given.changed_to(CHANGES[case]))


def test_a_change_that_repeats_an_id(given, place):
    with place.refused("ids must be unique.*Nothing was released", charged=1, error=InvalidInput):
        place.release(given.frame, phase=given.changed_to(TEXT.replace("4,9.0", "5,4.0")))


def test_the_release_goes_on_when_the_input_is_as_it_was(given, place):
    key = place.folder / "key"
    with place.refused("resumed only if the file is again the same", charged=1):
        place.release(given.frame, key_file=key, phase=given.changed_to(CHANGES["one label"]))
    given.file.write_text(TEXT)
    assert place.release(given.frame, key_file=key).records == 5
    assert place.ledger.remaining("sales") == 2


def test_a_later_batch_that_changes_leaves_the_message_as_it_was(spark, given, place):
    from labeldp.spark import apply

    key = place.folder / "key"
    message = release(spark.createDataFrame(records(first=100)), place.folder, key_file=key)
    with place.refused("gave other records", error=InvalidInput):
        apply(given.frame, message, key_file=key, phase=given.changed_to(CHANGES["one label"]))
    assert [batch.rows for batch in type(message).open(message.path).manifest.batches] == [60]
    given.file.write_text(TEXT)
    assert apply(given.frame, message, key_file=key).records == 65


def test_counts_for_a_prior_are_taken_from_the_same_records_only(spark, tmp_path):
    """The grid may be known only after the first pass. Then it takes one more."""
    table = records()
    labels = SparkInput(spark.createDataFrame(table), "y", "id").in_unit(DOMAIN)
    scanned = labels.scan(DOMAIN, key=KEY, out_of_range="clip")
    told = []
    counts = labels.count_cells(DOMAIN, scanned, key=KEY, advice="", progress=told.append)
    assert counts.sum() == sum(told) == 60
    assert counts.tolist() == labels.scan(DOMAIN, key=KEY, out_of_range="clip", grid=DOMAIN).counts.tolist()
    other = table.set_column(1, "y", pa.array(np.asarray(table["y"])[::-1]))
    with pytest.raises(InvalidInput, match=r"gave other records.*Do this\.$"):
        SparkInput(spark.createDataFrame(other), "y", "id").count_cells(DOMAIN, scanned, key=KEY, advice="Do this.")
