"""Files of features in batches: the same table as Arrow reads whole, whatever the batches, and nothing but what is asked for."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, ipc

from labeldp import InvalidInput
from labeldp.tables import feature_file
from labeldp.tables.feature_file import FeatureFile

KINDS = {
    "nothing": "",
    "integer": "17",
    "boolean": "true",
    "one": "1",
    "date": "2026-11-16",
    "time": "10:30:00",
    "timestamp": "2026-11-16 10:30:00",
    "fraction of a second": "2026-11-16 10:30:00.5",
    "number": "2.5",
    "text": "a b",
    "bytes": "\udcff",
}
ROWS = 40


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(feature_file, "BATCH_ROWS", 7)
    monkeypatch.setattr(feature_file, "BLOCK_BYTES", 1 << 13)


def read(path, columns=None):
    file = FeatureFile.open(path)
    columns = file.names if columns is None else columns
    batches = list(file.batches(columns))
    assert max(batch.num_rows for batch in batches) <= feature_file.BATCH_ROWS
    return pa.Table.from_batches(batches, file.schema(columns))


def mixed():
    generator = np.random.default_rng(0)
    return pa.table(
        {
            "id": np.arange(ROWS),
            "price": pa.array(generator.normal(size=ROWS), mask=generator.random(ROWS) < 0.2),
            "shop": pa.array([None if i % 7 == 0 else f"shop {i % 5}" for i in range(ROWS)]),
            "sold": generator.random(ROWS) < 0.5,
        }
    )


@pytest.mark.parametrize("suffix", ["csv", "tsv.gz"])
def test_every_text_column_has_the_type_that_arrow_finds_in_the_whole_file(tmp_path, suffix):
    """A column for each pair of kinds: its first values are of one kind and its last value, blocks later, of another."""
    pairs = [(early, late) for early in KINDS for late in KINDS]
    sign = "\t" if "tsv" in suffix else ","
    lines = [sign.join(f"{early} then {late}" for early, late in pairs)]
    lines += [sign.join(KINDS[early] for early, _ in pairs)] * ROWS + [sign.join(KINDS[late] for _, late in pairs)]
    content = ("\n".join(lines) + "\n").encode(errors="surrogateescape")
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    assert len(content) > 4 * feature_file.BLOCK_BYTES
    whole = pa_csv.read_csv(path, parse_options=pa_csv.ParseOptions(delimiter=sign))
    streamed = read(path)
    assert streamed.schema == whole.schema
    assert streamed.equals(whole)
    assert len(set(map(str, whole.schema.types))) >= 9
    some = whole.schema.names[::-17]
    assert read(path, some).equals(whole.select(some))


def test_quoted_line_ends_belong_to_a_value(tmp_path):
    (tmp_path / "a.csv").write_text('a,b\n1,"two\nlines"\n2,"x"\n')
    assert read(tmp_path / "a.csv")["b"].to_pylist() == ["two\nlines", "x"]


@pytest.mark.parametrize("rows", [ROWS, 3])
def test_parquet_and_arrow_files_give_their_columns(tmp_path, rows):
    table = mixed().slice(0, rows)
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=11)
    feather.write_feather(table, tmp_path / "a.feather", chunksize=9)
    with ipc.new_stream(tmp_path / "a.arrows", table.schema) as stream:
        stream.write_table(table, max_chunksize=9)
    for name in ("a.parquet", "a.feather", "a.arrows"):
        assert read(tmp_path / name).equals(table)
        assert read(tmp_path / name, ["shop", "id"]).equals(table.select(["shop", "id"]))
    assert FeatureFile.open(tmp_path / "a.parquet").rows == rows


def test_a_folder_of_parts_is_read_as_arrow_reads_it(tmp_path):
    table = mixed().append_column("year", pa.array(np.where(np.arange(ROWS) < 9, 2025, 2026)))
    pq.write_to_dataset(table, tmp_path / "parts", partition_cols=["sold", "year"])
    (tmp_path / "parts" / "_SUCCESS").touch()
    whole = pq.read_table(tmp_path / "parts")
    file = FeatureFile.open(tmp_path / "parts")
    assert file.names == whole.schema.names
    assert file.rows == ROWS
    streamed = read(tmp_path / "parts")
    for name in whole.schema.names:
        assert streamed[name].to_pylist() == whole[name].to_pylist()
    assert streamed.schema.types == whole.schema.types
    assert read(tmp_path / "parts", ["sold"]).num_rows == ROWS


def test_parts_may_lack_columns_and_have_narrower_types(tmp_path):
    pq.write_table(pa.table({"a": [1.5], "b": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.array([2], pa.int32())}), tmp_path / "2.parquet")
    assert read(tmp_path).to_pydict() == {"a": [1.5, 2.0], "b": ["x", None]}


def test_rows_are_counted_for_progress_bars(tmp_path):
    pa_csv.write_csv(mixed(), tmp_path / "a.csv")
    file = FeatureFile.open(tmp_path / "a.csv")
    counts = {}
    file.prepare(file.names, lambda name, rows: lambda done: counts.update({name: counts.get(name, 0) + done}))
    assert counts == {"checking": ROWS}
    done = []
    list(file.batches(["id"], done.append))
    assert sum(done) == ROWS


def test_index_columns_are_those_that_pandas_names(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2]}, index=pandas.Index([5, 3], name="order"))
    frame.to_parquet(tmp_path / "named.parquet")
    frame.reset_index(drop=True).to_parquet(tmp_path / "range.parquet")
    frame.rename_axis(None).to_parquet(tmp_path / "unnamed.parquet")
    found = {
        name: FeatureFile.open(tmp_path / f"{name}.parquet").index_columns for name in ("named", "range", "unnamed")
    }
    assert found == {"named": ["order"], "range": [], "unnamed": ["__index_level_0__"]}
    broken = pa.table({"a": [1]}).replace_schema_metadata({"pandas": "{"})
    assert feature_file.pandas_index(broken.schema) == []


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "a,b\n1,2\n1,2,3\n", "cannot read .*a.csv: row 2 .* has 3 columns, but the header line has 2"),
        ("a.csv", "", "cannot read .*a.csv: it is empty"),
        ("a.parquet", "no", "cannot read .*a.parquet"),
        ("a.arrow", "no", "cannot read .*a.arrow"),
        ("a.xlsx", "no", "cannot tell the format of .*a.xlsx"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidInput, match=words):
        read(tmp_path / name)


def test_missing_files_and_columns_are_named(tmp_path):
    with pytest.raises(InvalidInput, match="there is no file"):
        FeatureFile.open(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("price,shop,shop\n1,2,3\n")
    file = FeatureFile.open(tmp_path / "a.csv")
    with pytest.raises(InvalidInput, match="Did you mean 'price'"):
        file.require("prise")
    with pytest.raises(InvalidInput, match="2 columns named 'shop'"):
        file.require("shop")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="contains no data files"):
        FeatureFile.open(tmp_path / "empty")
