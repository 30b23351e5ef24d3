"""The two passes: what the scan learns, what the message's file holds, and what it must not hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from labeldp.artifact.reader import Message
from labeldp.domain import Domain
from labeldp.engines.arrow import input_report, spill
from labeldp.engines.arrow import source as source_module
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.passes import DrawJob
from labeldp.errors import InvalidInput
from labeldp.release.labels import privatize
from labeldp.release.randomizer import LabelRandomizer

DOMAIN = Domain.integers(0, 52)
ROWS = 6_000
KEY = b"k" * 32


@pytest.fixture(autouse=True)
def many_partitions(monkeypatch):
    monkeypatch.setattr(spill, "ROWS_PER_PARTITION", 300)


def records(kind="int", seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(ROWS) * 3 - ROWS
    ids = pa.array(numbers) if kind == "int" else pa.array([f"user-{number}" for number in numbers])
    return pa.table({"id": ids, "y": rng.integers(0, 53, ROWS).astype(float)})


def scan(source, domain, *, key, out_of_range="clip", **options):
    return ArrowInput(source).scan(domain, key=key, out_of_range=out_of_range, **options)


def save(table, path):
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize("kind", ["int", "str"])
def test_every_record_gets_the_draw_that_it_gets_in_memory(tmp_path, written, mechanism, randomness, kind):
    table = records(kind)
    message = written(save(table, tmp_path / "a.parquet"))
    expected = mechanism.codes(table["y"], table["id"], randomness)
    codes = dict(zip(message["id"].to_pylist(), message["code"].to_pylist(), strict=True))
    assert message.num_rows == len(codes) == ROWS
    assert [codes[i] for i in table["id"].to_pylist()] == expected.tolist()
    assert np.array_equal(message["private_label"], mechanism.outputs[np.asarray(message["code"])])


@pytest.mark.parametrize("kind", ["int", "str"])
def test_neither_the_order_of_the_input_nor_its_labels_show_in_the_order_of_the_message(tmp_path, written, kind):
    table = records(kind)
    first = written(save(table, tmp_path / "a.parquet"))["id"]
    permuted = table.take(np.random.default_rng(1).permutation(ROWS))
    by_label = table.sort_by("y")
    other_labels = table.set_column(1, "y", pa.array(52 - np.asarray(table["y"])))
    for number, changed in enumerate((permuted, by_label, other_labels)):
        assert written(save(changed, tmp_path / f"{number}.parquet"))["id"].equals(first)


@pytest.mark.parametrize("kind", ["int", "str"])
def test_the_file_is_the_same_to_the_byte_whatever_held_the_records(tmp_path, release, kind):
    """So nothing of the input's order, parts, metadata, types, encodings or statistics is in it."""
    table = records(kind)
    plain = release(save(table, tmp_path / "a.parquet")).read_bytes()
    frame = table.to_pandas().set_index("id")
    frame.attrs["note"] = "SECRET-IN-PANDAS-METADATA"
    noted = pa.Table.from_pandas(frame).replace_schema_metadata(
        {b"SECRET": b"SECRET"} | dict(pa.Schema.from_pandas(frame).metadata)
    )
    fields = [field.with_metadata({"SECRET": "SECRET"}) for field in noted.schema]
    noted = noted.cast(pa.schema(fields, metadata=noted.schema.metadata))
    assert b"SECRET" in save(noted, tmp_path / "noted.parquet").read_bytes()
    parts = tmp_path / "SECRET-parts"
    parts.mkdir()
    for number, start in enumerate(range(0, ROWS, 2000)):
        piece = table.slice(start, 2000).set_column(1, "y", table["y"].slice(start, 2000).cast(pa.float32()))
        save(piece, parts / f"part-{9 - number}.parquet")
    table.to_pandas().to_csv(tmp_path / "SECRET.csv.gz", index=False)
    for path in (tmp_path / "noted.parquet", parts, tmp_path / "SECRET.csv.gz"):
        data = release(path).read_bytes()
        assert b"SECRET" not in data
        assert data == plain


def test_keep_order_keeps_it_and_still_finds_duplicates(tmp_path, written, monkeypatch):
    monkeypatch.setattr(input_report, "EARLY_ROWS", 0)  # so that the scan does not find them
    table = records()
    assert written(save(table, tmp_path / "a.parquet"), keep_order=True)["id"].equals(table["id"])
    twice = pa.concat_tables([table, table.slice(5, 1)])
    with pytest.raises(InvalidInput, match="rows 6 and 6001 have the same one"):
        written(save(twice, tmp_path / "b.parquet"), keep_order=True)


@pytest.mark.parametrize("kind", ["int", "str"])
def test_duplicates_are_refused_and_leave_nothing_open(tmp_path, written, kind, open_files, monkeypatch):
    monkeypatch.setattr(input_report, "EARLY_ROWS", 0)
    table = records(kind)
    parts = tmp_path / "parts"
    parts.mkdir()
    save(table, parts / "1.parquet")
    save(table.slice(777, 1), parts / "2.parquet")
    with pytest.raises(InvalidInput, match=f"rows 778 and {ROWS + 1} have the same one"):
        written(parts)
    assert open_files() == 0
    assert [path for work in tmp_path.glob("work-*") for path in work.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("value", [2**63, 2**64 - 1])
def test_large_unsigned_ids_arrive(tmp_path, written, value):
    table = pa.table({"id": pa.array([value, 0, 1], pa.uint64()), "y": [1.0, 2.0, 3.0]})
    message = written(save(table, tmp_path / "a.parquet"))
    assert message.schema.field("id").type == pa.uint64()
    assert sorted(message["id"].to_pylist()) == [0, 1, value]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_text_of_any_length_arrives(tmp_path, written, kind):
    ids = ["", "x", "y" * 1_000_000, "ü" * 50]
    message = written(save(pa.table({"id": pa.array(ids, kind), "y": [0.0] * 4}), tmp_path / "a.parquet"))
    assert sorted(message["id"].to_pylist()) == sorted(ids)


def test_progress_adds_up(tmp_path, release):
    path = save(records(), tmp_path / "a.parquet")
    steps = []
    scan(LabelSource(path, "y", "id"), DOMAIN, key=KEY, progress=steps.append)
    assert sum(steps) == ROWS
    steps.clear()
    release(path, progress=steps.append)
    assert sum(steps) == 2 * ROWS
    assert len(steps) > 10


def test_a_batch_of_few_rows_beside_many_released_ones(tmp_path, monkeypatch):
    table = records()
    randomizer = LabelRandomizer(1, DOMAIN, mechanism="randomized-response")
    source = LabelSource(save(table.slice(10), tmp_path / "held.parquet"), "y", "id")
    privatize(source, randomizer, tmp_path / "message")
    held = Message.open(tmp_path / "message")
    bits, opened = [], spill.open_spill

    def noted(*arguments):
        bits.append((made := opened(*arguments)).bits)
        return made

    monkeypatch.setattr("labeldp.engines.arrow.arrow_input.open_spill", noted)
    labels = ArrowInput(LabelSource(save(table.slice(0, 50), tmp_path / "a.parquet"), "y", "id"))
    scanned, progress = labels.scan(DOMAIN, key=KEY, out_of_range="clip"), []
    places = {"labels": tmp_path / "labels.parquet", "work": tmp_path, "held": held}
    job = DrawJob(mechanism=held.mechanism, domain=DOMAIN, key=KEY, release=b"r" * 16, **places)
    assert labels.randomize(job, scanned, progress.append) == 10
    assert sum(progress) == 100
    assert min(bits) >= 4
    assert set(pq.read_table(tmp_path / "labels.parquet")["id"].to_pylist()) == set(table["id"].to_pylist()[:10])


def test_the_scan_counts_cells_as_the_domain_does(tmp_path):
    labels = np.random.default_rng(0).normal(200, 150, ROWS)
    path = save(pa.table({"id": range(ROWS), "y": labels}), tmp_path / "a.parquet")
    grid = Domain(0, 400, 37)
    seen = scan(LabelSource(path, "y", "id"), Domain(0, 400), key=KEY, grid=grid)
    assert seen.counts.tolist() == np.bincount(grid.cell(labels), minlength=37).tolist()
    assert seen.grid == grid
    assert seen.clipped == np.count_nonzero((labels < 0) | (labels > 400))
    assert scan(LabelSource(path, "y", "id"), Domain(0, 400), key=KEY).counts is None


def test_labels_outside_are_refused_by_file_and_row(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "BATCH_ROWS", 2)  # so that the parts are not joined
    for part, labels in enumerate(([1.0, 2.0], [3.0, 53.0])):
        save(pa.table({"y": labels}), tmp_path / f"{part}.parquet")
    with pytest.raises(InvalidInput, match=r"1\.parquet: 1 record .* row 2 "):
        scan(LabelSource(tmp_path, "y"), DOMAIN, key=KEY, out_of_range="error")


@pytest.mark.parametrize("other", [pa.array(["7"]), pa.array([7], pa.uint64())])
def test_parts_whose_ids_have_no_common_type_are_refused(tmp_path, other):
    save(pa.table({"id": [1, 2], "y": [1.0, 2.0]}), tmp_path / "1.parquet")
    save(pa.table({"id": other, "y": [1.0]}), tmp_path / "2.parquet")
    with pytest.raises(InvalidInput, match=r"from int64 to .* at row 3 .*--id-type str"):
        scan(LabelSource(tmp_path, "y", "id"), DOMAIN, key=KEY)


@pytest.mark.parametrize("kind", ["int", "str"])
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_no_working_file_has_a_name_or_a_true_label(tmp_path, monkeypatch, kind, suffix):
    """So a run that is killed leaves no label on the disk."""
    labels = np.random.default_rng(0).uniform(0, 52, ROWS)
    table, path = records(kind).set_column(1, "y", pa.array(labels)), tmp_path / f"a{suffix}"
    (pq.write_table if suffix == ".parquet" else csv.write_csv)(table, path)
    written, named, append = [], [], spill.PartitionedColumn.append

    def spied(self, values, starts):
        written.append(np.ascontiguousarray(values, self.kind).tobytes())
        append(self, values, starts)
        named.extend(file for file in tmp_path.rglob("*") if file.is_file() and "work" in file.parts)

    monkeypatch.setattr(spill.PartitionedColumn, "append", spied)
    randomizer = LabelRandomizer(1, Domain(0, 52, cells=53), mechanism="randomized-response")
    privatize(LabelSource(path, "y", "id"), randomizer, tmp_path / "message")
    spilled = b"".join(written)
    assert len(spilled) > ROWS
    assert not [label for label in labels if label.tobytes() in spilled or repr(float(label)).encode() in spilled]
    assert named == []
