"""Columns that are no features are left out or pointed out, from the command line and from Python."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from forgery import edit_json, rewrite_manifest
from labeldp import FeatureWarning, LabelRandomizer, LabelSource, Message, privatize
from labeldp.errors import InvalidInput
from labeldp.learn.joined_features import is_index_name, is_near_unique, nearly_equal
from labeldp.learn.train import train

N = 600


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A message whose labels are called `amount`, and a pandas table of honest features with an index."""
    folder = tmp_path_factory.mktemp("world")
    generator = np.random.default_rng(0)
    amount = generator.uniform(0, 100, N)
    pq.write_table(pa.table({"order": np.arange(N), "amount": amount}), folder / "labels.parquet")
    source = LabelSource(folder / "labels.parquet", "amount", "order")
    privatize(source, LabelRandomizer(4, (0, 100), mechanism="rr-on-bins"), folder / "message")
    frame = pd.DataFrame({"order": np.arange(N), "hint": amount.round(-1), "shop": generator.integers(0, 9, N)})
    frame.sample(frac=1, random_state=0).to_pickle(folder / "frame.pickle")
    return folder


@pytest.fixture
def frame(world):
    return pd.read_pickle(world / "frame.pickle")


def trained(world, features, **options):
    """The columns learned from, and the texts of the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        facts = train(world / "message", features, id="order", folds=0, model="boosting", **options).model.facts
    assert {warning.category for warning in caught} <= {FeatureWarning}
    assert {warning.filename for warning in caught} <= {__file__}  # they point at the caller
    return facts["columns"], [str(warning.message) for warning in caught]


def written(frame, path):
    """The table in a file as pandas writes it by default, index included."""
    match path.suffix:
        case ".parquet":
            frame.to_parquet(path)
        case ".csv":
            frame.to_csv(path)
        case ".feather":
            feather.write_feather(pa.Table.from_pandas(frame), path)
    return path


@pytest.mark.parametrize(
    ("kind", "name"),
    [(".parquet", "__index_level_0__"), (".csv", ""), (".feather", "__index_level_0__"), ("table", "")],
)
def test_the_index_of_pandas_is_left_out_and_named(world, frame, tmp_path, kind, name):
    features = pa.Table.from_pandas(frame) if kind == "table" else written(frame, tmp_path / f"f{kind}")
    columns, said = trained(world, features)
    assert columns == ["hint", "shop"]
    assert len(said) == 1
    assert "left out, since pandas" in said[0]
    assert name in said[0]


def test_an_index_with_a_name_is_left_out_unless_it_is_asked_for(world, frame, tmp_path):
    named = written(frame.set_index("shop"), tmp_path / "f.parquet")
    assert trained(world, named)[0] == ["hint"]
    for option in ("numeric", "categorical"):
        assert trained(world, named, **{option: ["shop"]}) == (["hint", "shop"], [])
    assert trained(world, named, exclude=["shop"]) == (["hint"], [])


def test_an_index_may_be_the_id(world, frame, tmp_path):
    assert trained(world, written(frame.set_index("order"), tmp_path / "f.parquet")) == (["hint", "shop"], [])


def test_an_index_that_went_through_csv_twice_is_left_out(world, frame, tmp_path):
    frame.to_csv(tmp_path / "once.csv")
    again = written(pd.read_csv(tmp_path / "once.csv"), tmp_path / "twice.csv")
    columns, said = trained(world, again)
    assert columns == ["hint", "shop"]
    assert "'Unnamed: 0'" in said[1]


@pytest.mark.parametrize(
    ("ids", "as_file"),
    [
        (np.arange(N), False),
        (np.arange(N) + 10**9, True),
        ([f"555{i:04d}" for i in range(N)], True),
        (pd.Series([f"person {i}" for i in range(N)]).astype("category").to_numpy(), False),
        ([None] * 20 + [f"person {i}" for i in range(20, N)], True),
    ],
    ids=["row numbers", "row numbers from a start", "digits", "categories", "some missing"],
)
def test_ids_are_pointed_out_with_what_to_do(world, frame, tmp_path, ids, as_file):
    features = pa.Table.from_pandas(frame.assign(who=ids), preserve_index=False)
    if as_file:
        pq.write_table(features, tmp_path / "f.parquet")
        features = tmp_path / "f.parquet"
    columns, (said,) = trained(world, features)
    assert columns == ["hint", "shop", "who"]
    assert "'who' is probably not a feature" in said
    assert "--exclude who" in said
    assert trained(world, features, exclude=["who"]) == (["hint", "shop"], [])


@pytest.mark.parametrize("kind", [np.int64, np.uint32, np.float64])
def test_a_quantity_is_not_questioned_however_many_values_differ(world, frame, kind):
    """An income in cents differs in every row, and predicts well. Following the advice to leave it out would cost the model."""
    cents = (np.arange(N) * 7919 % 100_003).astype(kind)
    assert len(np.unique(cents)) == N
    assert trained(world, pa.Table.from_pandas(frame.assign(cents=cents), preserve_index=False))[1] == []


def test_row_numbers_that_are_named_as_numeric_are_not_questioned(world, frame):
    features = pa.Table.from_pandas(frame.assign(day=np.arange(N)), preserve_index=False)
    assert trained(world, features, numeric=["day"])[1] == []
    assert len(trained(world, features)[1]) == 1


def test_row_numbers_are_those_of_the_file_also_where_rows_have_no_label(world, frame):
    features = pa.Table.from_pandas(frame.assign(who=np.arange(N)), preserve_index=False)
    unknown = features.slice(0, 50).set_column(0, "order", pa.array(np.arange(N, N + 50)))
    apart = pa.concat_tables([features.slice(0, 300), unknown, features.slice(300)])
    numbered = apart.set_column(apart.schema.get_field_index("who"), "who", pa.array(np.arange(N + 50)))
    assert "numbers the rows" in trained(world, numbered)[1][0]
    gap = np.where(np.arange(N + 50) < 300, 0, 1)
    shifted = numbered.set_column(numbered.schema.get_field_index("who"), "who", pa.array(np.arange(N + 50) + gap))
    assert trained(world, shifted)[1] == []


@pytest.mark.parametrize(("different", "near_unique"), [(0.94, False), (0.96, True)])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_near_unique_means_that_nearly_all_values_differ(different, near_unique, kind):
    values = np.arange(1000)
    values[int(different * 1000) :] = 0
    column = pa.chunked_array([pa.array(values[:300]), pa.array(values[300:])])
    column = column.cast(pa.string()).dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
    assert is_near_unique(column) is near_unique


def test_measurements_and_short_tables_are_no_ids():
    assert not is_near_unique(pa.chunked_array([np.random.default_rng(0).normal(size=1000)]))
    assert not is_near_unique(pa.chunked_array([np.arange(1000)]))
    assert not is_near_unique(pa.chunked_array([[str(number) for number in range(50)]]))
    assert not is_near_unique(pa.chunked_array([pa.nulls(1000, pa.string())]))


def test_a_feature_called_like_the_label_is_pointed_out(world, frame):
    name = "log_amount"
    features = pa.Table.from_pandas(frame.rename(columns={"shop": name}), preserve_index=False)
    _, (said,) = trained(world, features)
    assert repr(name) in said
    assert "the labels are called 'amount'" in said
    assert f"--exclude {name}" in said


@pytest.mark.parametrize(
    ("label", "name", "alike"),
    [
        *(("amount", name, True) for name in ("Amount", "amount_", " AMOUNT", "amounts", "amount_2", "amount_usd")),
        ("y", "Y", True),
        ("2020", "2020", True),
        ("week", "weeks_1", True),
        ("amount", "account", False),
        ("amount", "amount last year", False),
        ("wage", "age", False),
        ("y", "day", False),
        ("cost", "host", False),
    ],
)
def test_names_are_compared_by_their_letters(label, name, alike):
    assert nearly_equal(name, label) is alike


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("", True),
        ("Unnamed: 0", True),
        ("Unnamed: 0.1", True),
        ("__index_level_1__", True),
        ("Unnamed: 3", False),
        ("index", False),
    ],
)
def test_only_names_that_pandas_gives_are_index_names(name, index):
    assert is_index_name(name) is index


def test_a_message_names_its_labels_and_one_without_a_name_is_refused(world, tmp_path):
    assert Message.open(world / "message").header.label_column == "amount"
    nameless = shutil.copytree(world / "message", tmp_path / "message")
    edit_json(nameless / "mechanism.json", lambda record: record["message"].pop("label_column"))
    rewrite_manifest(nameless)
    with pytest.raises(InvalidInput, match="lacks the field 'label_column'"):
        Message.open(nameless)
