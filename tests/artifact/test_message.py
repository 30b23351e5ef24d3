"""A message as its reader meets it: whole and consistent, or refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forgery import edit_json, rewrite_manifest, rewrite_rows
from labeldp.artifact.reader import Message
from labeldp.domain import Domain
from labeldp.engines.arrow.source import LabelSource
from labeldp.errors import InvalidInput
from labeldp.mechanisms import Laplace
from labeldp.release.labels import privatize
from labeldp.release.randomizer import LabelRandomizer

ROWS = 500


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("message")
    rng = np.random.default_rng(0)
    pq.write_table(pa.table({"id": np.arange(ROWS), "y": rng.uniform(0, 10, ROWS)}), folder / "labels.parquet")
    source = LabelSource(folder / "labels.parquet", "y", "id")
    return privatize(
        source, LabelRandomizer(1, Domain(0, 10, cells=11), mechanism="rr-on-bins"), folder / "message"
    ).message


@pytest.fixture
def message(original, tmp_path):
    return shutil.copytree(original, tmp_path / "message")


def rewrite(message, **columns):
    def change(table):
        for name, values in columns.items():
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, values(table.column(name)))
        return table

    rewrite_rows(message, change)


def edit(message, change):
    """The description edited, with a manifest that fits: the checks behind the manifest must find it."""
    edit_json(message / "mechanism.json", change)
    rewrite_manifest(message)


def read(message):
    return list(Message.open(message).batches())


def test_a_whole_message_is_read_back(message):
    opened = Message.open(str(message))
    assert len(opened) == ROWS
    assert opened.epsilon_exact == 1
    ((ids, codes),) = opened.batches()
    assert sorted(ids.to_pylist()) == list(range(ROWS))
    assert codes.max() < opened.mechanism.outputs.size


def test_a_message_is_a_table_of_ids_codes_and_private_labels(message):
    opened = Message.open(message)
    table = opened.to_arrow()
    written = pq.read_table(message / "labels.parquet")
    assert table.column_names == ["id", "code", "private_label"]
    for name in table.column_names:
        assert table[name].to_pylist() == written[name].to_pylist()
    assert opened.to_pandas()["private_label"].tolist() == table["private_label"].to_pylist()
    assert opened.to_polars()["id"].to_list() == table["id"].to_pylist()
    assert opened.labels.codes.tolist() == written["code"].to_pylist()
    assert np.array_equal(opened.labels.values("bins"), written["private_label"])
    assert opened.labels.epsilon == opened.epsilon == 1.0


def test_a_message_names_the_batches_that_it_had_when_it_was_opened(message):
    (message / "labels").mkdir()
    for number in (2, 1):
        shutil.copy(message / "labels.parquet", message / "labels" / f"part-0000{number}.parquet")
    rewrite_manifest(message)
    opened = Message.open(message)
    assert [str(file.path.relative_to(message)) for file in opened.files] == [
        "labels.parquet",
        "labels/part-00001.parquet",
        "labels/part-00002.parquet",
    ]
    assert len(opened) == 3 * ROWS
    assert opened.next_file == message / "labels" / "part-00003.parquet"


def test_a_folder_or_file_that_is_no_message_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(InvalidInput, match="is not a message"):
            Message.open(path)


@pytest.mark.parametrize("length", [0, 100])
def test_a_truncated_labels_file_is_refused(message, length):
    content = (message / "labels.parquet").read_bytes()
    (message / "labels.parquet").write_bytes(content[:length])
    with pytest.raises(InvalidInput, match="ask for it again"):
        read(message)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("code", lambda codes: pa.array(np.full(ROWS, 200, np.uint8))),
        ("code", lambda codes: pa.array(1 - np.asarray(codes), pa.uint8())),
        ("code", lambda codes: pa.array([None] * ROWS, pa.uint8())),
        ("code", lambda codes: pa.array(np.asarray(codes, np.int8))),
        ("private_label", lambda values: pa.array(np.asarray(values) + 1)),
        ("private_label", lambda values: pa.array(np.full(ROWS, np.nan))),
        ("id", lambda ids: pa.array(np.asarray(ids, str))),
        ("id", lambda ids: pa.array([None] * ROWS, pa.int64())),
    ],
)
def test_rows_that_do_not_fit_the_mechanism_are_refused(message, column, values):
    rewrite(message, **{column: values})
    rewrite_manifest(message)
    with pytest.raises(InvalidInput, match="edited or mixed up"):
        read(message)


def test_other_columns_are_refused(message):
    rewrite_rows(message, lambda table: table.append_column("y", pa.array(np.zeros(ROWS))))
    rewrite_manifest(message)
    with pytest.raises(InvalidInput, match="has the columns"):
        Message.open(message)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.pop("message"),
        lambda record: record["message"].pop("release"),
        lambda record: record["message"].update(release="../../etc"),
        lambda record: record["message"].update(message_version=3),
        lambda record: record["message"].update(id_column=7),
        lambda record: record["outputs"].reverse(),
        lambda record: record.update(epsilon="0.1"),
        lambda record: record.update(digest="0" * 64),
    ],
)
def test_an_edited_description_is_refused_with_its_path(message, change):
    edit(message, change)
    with pytest.raises(InvalidInput, match=r"mechanism\.json"):
        Message.open(message)


@pytest.mark.parametrize("name", ["epsilon_prior", "epsilon_labels", "epsilon_total"])
def test_parts_of_epsilon_that_do_not_add_up_are_refused(message, name):
    edit(message, lambda record: record.update({name: "0.5"}))
    with pytest.raises(InvalidInput, match="do not add up"):
        Message.open(message)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff\xfe"])
def test_a_description_that_is_no_json_object_is_refused(message, content):
    (message / "mechanism.json").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"mechanism\.json"):
        Message.open(message)


def test_a_mechanism_for_comparison_is_no_release(message):
    described = json.loads(Laplace(Domain(0, 10, cells=11), 1).to_json())
    described["message"] = json.loads((message / "mechanism.json").read_text())["message"]
    (message / "mechanism.json").write_text(json.dumps(described))
    rewrite_manifest(message)
    with pytest.raises(InvalidInput, match="comparison only"):
        Message.open(message)
