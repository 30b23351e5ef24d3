"""What files may hold: every integer width, every encoding of text, parts, damage."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, ipc

from labeldp.engines.arrow.source import BATCH_ROWS, LabelSource, count_rows
from labeldp.errors import InvalidInput
from labeldp.tables import files


def parquet(path, ids, labels=None, **options):
    labels = np.arange(len(ids)) % 50 if labels is None else labels
    pq.write_table(pa.table({"id": ids, "y": labels}), path, **options)
    return path


def read(path, **options):
    return list(LabelSource(path, "y", "id", **options).batches())


def all_ids(path, **options):
    return [value for batch in read(path, **options) for value in batch.ids.to_pylist()]


@pytest.mark.parametrize(("bits", "signed"), [(8, True), (32, False), (64, True), (64, False)])
def test_every_integer_width_keeps_its_values(tmp_path, bits, signed):
    ends = [-(2 ** (bits - 1)), -1, 0, 2 ** (bits - 1) - 1] if signed else [0, 1, 2 ** (bits - 1), 2**bits - 1]
    kind = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    path = parquet(tmp_path / "a.parquet", pa.array(ends, kind))
    assert all_ids(path) == ends
    assert read(path)[0].ids.type == (pa.uint64() if (bits, signed) == (64, False) else pa.int64())


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_every_encoding_of_text_is_the_same_text(tmp_path, kind):
    values = ["b", "", "ä" * 40, "a"]
    table = pa.table({"id": pa.array(values).cast(kind), "y": [1.0, 2.0, 3.0, 4.0]})
    with ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    with ipc.new_stream(tmp_path / "b.arrows", table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    pq.write_table(table.cast(pa.schema([("id", pa.string()), ("y", pa.float64())])), tmp_path / "c.parquet")
    for name in ("a.arrow", "b.arrows", "c.parquet"):
        assert all_ids(tmp_path / name) == values
        assert read(tmp_path / name)[0].ids.type == pa.large_string()


def test_dictionaries_of_integers_are_integers(tmp_path):
    feather.write_feather(
        pa.table({"id": pa.array([5, 7, 5]).dictionary_encode(), "y": [1, 2, 3]}), tmp_path / "a.feather"
    )
    assert all_ids(tmp_path / "a.feather") == [5, 7, 5]


def test_parts_of_different_widths_become_one_type(tmp_path):
    parquet(tmp_path / "1.parquet", pa.array([1, 2], pa.int32()))
    parquet(tmp_path / "2.parquet", pa.array([2**40, -3], pa.int64()))
    parquet(tmp_path / "3.parquet", pa.array([9], pa.uint8()))
    batches = read(tmp_path)
    assert pa.concat_arrays([batch.ids for batch in batches]).equals(pa.array([1, 2, 2**40, -3, 9]))
    assert [batch.types.ids for batch in batches] == ["int32", "int64", "uint8"]


@pytest.mark.parametrize("other", [pa.array(["7"]), pa.array([7], pa.uint64())])
def test_parts_that_have_no_common_type_come_apart(tmp_path, other):
    parquet(tmp_path / "1.parquet", pa.array([1, 2], pa.int64()))
    parquet(tmp_path / "2.parquet", other)
    assert len({str(batch.ids.type) for batch in read(tmp_path)}) == 2
    assert all_ids(tmp_path, id_type="int") == [1, 2, 7]
    assert all_ids(tmp_path, id_type="str") == ["1", "2", "7"]


def test_unsigned_ids_that_an_int_cannot_hold_are_refused_as_int(tmp_path):
    path = parquet(tmp_path / "a.parquet", pa.array([2**63], pa.uint64()))
    with pytest.raises(InvalidInput, match=r"too large.*--id-type str"):
        read(path, id_type="int")


@pytest.mark.parametrize("ids", [[1.0, 2.0], [True, False], [[1], [2]]])
def test_ids_that_are_neither_integers_nor_text_are_refused(tmp_path, ids):
    with pytest.raises(InvalidInput, match="ids must be integers or text"):
        read(parquet(tmp_path / "a.parquet", pa.array(ids)))


def test_a_missing_id_is_named_by_its_row_in_the_whole_input(tmp_path):
    parquet(tmp_path / "1.parquet", pa.array(["a", "b", "c"]))
    parquet(tmp_path / "2.parquet", pa.array(["d", None]))
    with pytest.raises(InvalidInput, match=r"2\.parquet.*row 5 "):
        read(tmp_path)


def test_empty_row_groups_and_empty_parts_do_not_matter(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("y", pa.float64())])
    with pq.ParquetWriter(tmp_path / "1.parquet", schema) as writer:
        for rows in (0, 2, 0, 1, 0):
            writer.write_table(pa.table({"id": range(rows), "y": [1.0] * rows}, schema=schema))
    pq.write_table(schema.empty_table(), tmp_path / "2.parquet")
    assert all_ids(tmp_path) == [0, 1, 0]
    assert count_rows(LabelSource(tmp_path, "y", "id")) == 3


def test_many_small_pieces_are_joined(tmp_path):
    parquet(tmp_path / "a.parquet", pa.array(range(10_000)), row_group_size=100)
    for part in range(5):
        parquet(tmp_path / f"b{part}.parquet", pa.array(range(10)))
    batches = read(tmp_path)
    assert [(batch.first_row, len(batch.ids), batch.labels.size) for batch in batches] == [(0, 10_050, 10_050)]


def test_large_pieces_are_cut(tmp_path):
    path = parquet(tmp_path / "a.parquet", pa.array(np.arange(2 * BATCH_ROWS + 5)), row_group_size=1 << 22)
    assert max(len(batch.ids) for batch in read(path)) <= BATCH_ROWS
    feather.write_feather(pq.read_table(path), tmp_path / "a.feather", chunksize=1 << 22)
    batches = read(tmp_path / "a.feather")
    assert max(len(batch.ids) for batch in batches) <= BATCH_ROWS
    assert np.array_equal(np.concatenate([np.asarray(batch.ids) for batch in batches]), np.arange(2 * BATCH_ROWS + 5))


@pytest.mark.parametrize("name", ["a.parquet", "a.feather"])
def test_long_ids_come_in_batches_of_fewer_rows(tmp_path, monkeypatch, name):
    monkeypatch.setattr(files, "BATCH_BYTES", 1 << 16)
    rng = np.random.default_rng(0)
    ids = [rng.bytes(500).hex() for _ in range(1000)]
    table = pa.table({"id": ids, "y": np.zeros(1000)})
    if name == "a.parquet":
        pq.write_table(table, tmp_path / name, use_dictionary=False)
    else:
        feather.write_feather(table, tmp_path / name)
    assert all_ids(tmp_path / name) == ids
    assert max(batch.ids.nbytes for batch in read(tmp_path / name)) <= 2 << 16


def test_a_large_arrow_file_is_mapped_and_reads_the_same(tmp_path, monkeypatch):
    table = pa.table({"other": range(100), "y": np.arange(100.0), "id": [f"u{i}" for i in range(100)]})
    feather.write_feather(table, tmp_path / "a.feather", compression="uncompressed")
    before = all_ids(tmp_path / "a.feather")
    monkeypatch.setattr(files, "MAPPED_BATCH", 1)
    assert all_ids(tmp_path / "a.feather") == before == table["id"].to_pylist()


def test_hidden_and_underscored_files_and_folders_are_no_data(tmp_path):
    parquet(tmp_path / "1.parquet", pa.array([1]))
    for place in (".hidden", "_temporary", "nested/_old"):
        (tmp_path / place).mkdir(parents=True)
        parquet(tmp_path / place / "1.parquet", pa.array([2]))
    (tmp_path / "_SUCCESS").touch()
    parquet(tmp_path / "nested" / "2.parquet", pa.array([3]))
    assert all_ids(tmp_path) == [1, 3]


@pytest.mark.parametrize("keep", [0.3, 0.99])
@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.arrows"])
def test_truncated_files_are_refused_by_name(tmp_path, name, keep):
    table = pa.table({"id": range(50_000), "y": np.random.default_rng(0).random(50_000)})
    path = tmp_path / name
    if name == "a.parquet":
        pq.write_table(table, path)
    elif name == "a.feather":
        feather.write_feather(table, path)
    else:
        with ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    os.truncate(path, int(path.stat().st_size * keep))
    with pytest.raises(InvalidInput, match=r"cannot read .*complete"):
        read(path)


def test_rows_are_counted_without_the_labels(tmp_path):
    (tmp_path / "a.csv").write_text("id,y\n1,secret\n2,\n")
    assert count_rows(LabelSource(tmp_path / "a.csv", "y", "id")) == 2
    assert count_rows(LabelSource(tmp_path / "a.csv", "y")) == 2
    feather.write_feather(pa.table({"id": [1, 2, 3], "y": ["a", "b", "c"]}), tmp_path / "a.feather")
    assert count_rows(LabelSource(tmp_path / "a.feather", "y")) == 3


def test_files_are_closed_however_reading_ends(tmp_path, open_files):
    path = parquet(tmp_path / "a.parquet", pa.array(range(10)))
    feather.write_feather(pq.read_table(path), tmp_path / "a.feather")
    (tmp_path / "a.csv").write_text("id,y\n1,2\n2,x\n")
    read(path)
    next(LabelSource(path, "y", "id").batches())
    read(tmp_path / "a.feather")
    with pytest.raises(InvalidInput, match="numbers only"):
        read(tmp_path / "a.csv")
    assert open_files() == 0
