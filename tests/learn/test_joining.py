"""Labels go to the right rows, and every unpaired record is counted."""

from __future__ import annotations

import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import Domain, LabelRandomizer, Prior
from labeldp.artifact.reader import Message
from labeldp.engines.arrow.source import LabelSource
from labeldp.errors import InvalidInput
from labeldp.learn.joined_features import join
from labeldp.release.labels import privatize

IDS = np.random.default_rng(0).permutation(3000) * 3


@pytest.fixture(scope="module", params=["int", "str"])
def message(request, tmp_path_factory):
    """Almost exact private labels (ε = 40), so that a label tells which record it came from."""
    folder = tmp_path_factory.mktemp("message")
    ids = IDS if request.param == "int" else [f"id {i}" for i in IDS]
    pa.parquet.write_table(pa.table({"key": ids, "label": (IDS // 3).astype(float)}), folder / "labels.parquet")
    domain = Domain(0, 2999, 3000)
    randomizer = LabelRandomizer(40, domain, prior=Prior.uniform(domain), mechanism="randomized-response")
    privatize(LabelSource(folder / "labels.parquet", "label", "key"), randomizer, folder / "message")
    return Message.open(folder / "message")


def as_ids(message, numbers):
    return pa.array(numbers if message.header.id_type == "int" else [f"id {i}" for i in numbers])


def test_shuffled_ids_get_their_own_label(message):
    order = np.random.default_rng(1).permutation(IDS)
    joined = join(message, as_ids(message, order))
    assert joined.rows.tolist() == list(range(3000))
    assert message.mechanism.outputs[joined.codes].tolist() == (order // 3).tolist()
    assert joined.without_label == joined.without_features == 0


@given(st.sets(st.integers(0, 12_000), min_size=1, max_size=60))
def test_unpaired_records_are_counted_on_both_sides(message, wanted):
    ids = np.array(sorted(wanted, key=lambda i: (i * 7919) % 10_007))
    known = np.isin(ids, IDS)
    if not known.any():
        with pytest.raises(InvalidInput, match="no id of the features"):
            join(message, as_ids(message, ids))
        return
    joined = join(message, as_ids(message, ids))
    assert joined.rows.tolist() == np.flatnonzero(known).tolist()
    assert message.mechanism.outputs[joined.codes].tolist() == (ids[known] // 3).tolist()
    assert joined.without_label == (~known).sum()
    assert joined.without_features == 3000 - known.sum()


def test_every_kind_of_column_works(message):
    ids = as_ids(message, IDS[:100])
    arrow = (pa.chunked_array([ids[:40], ids[40:]]), ids.dictionary_encode())
    for shape in (*arrow, ids.to_pylist(), ids.to_pandas(), np.asarray(ids)):
        joined = join(message, shape)
        assert message.mechanism.outputs[joined.codes].tolist() == (IDS[:100] // 3).tolist()


def shown(error):
    """All that Python would print of an error, its causes included."""
    return "".join(traceback.format_exception(error))


def refusal_of(message, ids, says):
    with pytest.raises(InvalidInput, match=says) as refusal:
        join(message, ids)
    return shown(refusal.value)


def test_a_record_twice_in_the_features_is_refused_by_its_rows(message):
    ids = [7001, 8999 // 3 * 3, 7004, 8999 // 3 * 3]
    text = refusal_of(message, as_ids(message, ids), r"rows 2 and 4 of the features .* 2 times")
    assert "8997" not in text


def test_ids_of_another_kind_are_described_and_not_shown(message):
    whole = message.header.id_type == "int"
    strangers = as_ids(message, [70_001, 70_002])
    known = "whole numbers of 1 to 4 digits" if whole else "text of 4 to 7 characters"
    given = "whole numbers of 5 digits" if whole else "text of 8 characters"
    text = refusal_of(message, strangers, f"message's ids are {known}, the ids of the features are {given}")
    assert "70001" not in text
    assert "id " + str(IDS[0]) not in text


def test_ids_of_another_type_and_missing_ids_are_refused(message):
    other = pa.array(["a"]) if message.header.id_type == "int" else pa.array([1])
    text = refusal_of(message, other, "same type")
    assert "whole numbers" in text
    assert "text" in text
    assert "large_string" not in text
    refusal_of(message, pa.array([1.5]), "are decimal numbers.* same type")
    none = pa.nulls(1, as_ids(message, [0]).type)
    refusal_of(message, pa.concat_arrays([as_ids(message, [IDS[0]]), none]), "1 row of the features has no id")
    refusal_of(message, pa.concat_arrays([none, none]), "2 rows of the features have no id")


@pytest.mark.parametrize(
    "ids", [[1, "x70001"], [70_001 * 10**30], np.zeros((2, 2)), 70_001, [[70_001], 2]], ids=lambda ids: str(type(ids))
)
def test_what_is_no_column_of_ids_is_refused(message, ids):
    assert "70001" not in refusal_of(message, ids, "ids must be one column|same type")


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table, pa.RecordBatch.from_pydict])
def test_a_table_in_the_place_of_ids_is_refused(message, table):
    refusal_of(message, table({"key": [1, 2]}), r"got a table .* give its id column")
