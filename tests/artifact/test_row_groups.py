"""The labels file depends on the ids and codes and on nothing else: not on how the rows came, nor on digits of true labels."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.artifact import labels_file
from labeldp.artifact.labels_file import LabelsWriter
from labeldp.domain import Domain
from labeldp.engines.arrow.source import LabelSource
from labeldp.mechanisms import RROnBins
from labeldp.priors import Prior
from labeldp.release.apply import apply
from labeldp.release.labels import privatize
from labeldp.release.randomizer import LabelRandomizer
from labeldp.tables import csv_text, files

DOMAIN = Domain(0, 100, cells=11)
MECHANISM = RROnBins.optimal(Prior.uniform(DOMAIN), 1.0)
ROWS = 3000
GROUP = 700


@pytest.fixture
def small_groups(monkeypatch):
    """Small pieces of everything, so that a few thousand rows make many of them."""
    monkeypatch.setattr(labels_file, "GROUP_ROWS", GROUP)
    monkeypatch.setattr(csv_text, "LABEL_BLOCK_BYTES", 4096)
    monkeypatch.setattr(files, "BATCH_BYTES", 4096)
    monkeypatch.setattr("labeldp.engines.arrow.spill.ROWS_PER_PARTITION", 200)
    monkeypatch.setattr("labeldp.engines.arrow.spill.TEXT_PER_PARTITION", 4096)


def group_sizes(path):
    metadata = pq.read_metadata(path)
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]


def even(rows):
    return [GROUP] * (rows // GROUP) + [rows % GROUP] * (rows % GROUP > 0)


def write(path, ids, codes, cuts=()):
    edges = [0, *sorted(cuts), len(ids)]
    with LabelsWriter(path, "id", ids.type, MECHANISM) as writer:
        for start, end in pairwise(edges):
            writer.write(ids.slice(start, end - start), codes[start:end])
    return path.read_bytes()


def some_rows(kind, rows):
    rng = np.random.default_rng(rows)
    ids = pa.array(rng.permutation(rows))
    if kind == "str":
        ids = pa.array(["x" * (i * i % 97) + str(i) for i in ids.to_pylist()], pa.large_string())
    return ids, rng.integers(0, MECHANISM.outputs.size, rows).astype(np.uint8)


@pytest.mark.parametrize("kind", ["int", "str"])
@given(cuts=st.lists(st.integers(0, 90), max_size=8), text=st.integers(50, 5000))
def test_the_file_is_the_same_to_the_byte_however_its_rows_come(tmp_path_factory, kind, cuts, text):
    folder = tmp_path_factory.mktemp("cuts")
    ids, codes = some_rows(kind, 90)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels_file, "GROUP_ROWS", 20)
        patch.setattr(labels_file, "GROUP_TEXT", text)
        assert write(folder / "a.parquet", ids, codes) == write(folder / "b.parquet", ids, codes, cuts)
    read = pq.read_table(folder / "b.parquet")
    assert read["id"].to_pylist() == ids.to_pylist()
    assert read["code"].to_pylist() == codes.tolist()
    sizes = group_sizes(folder / "b.parquet")
    assert kind == "str" or sizes == [20, 20, 20, 20, 10]
    ends = np.cumsum([0, *sizes])
    lengths = np.cumsum([0, *(len(str(value)) for value in ids.to_pylist())])
    for start, end in pairwise(ends):
        assert end - start <= 20
        assert kind == "int" or end - start == 1 or lengths[end] - lengths[start] <= text


def test_pages_do_not_end_where_a_batch_did(tmp_path):
    """A page of the default size holds more than a hundred thousand ids: enough rows for several."""
    ids, codes = some_rows("int", 400_000)
    assert write(tmp_path / "a.parquet", ids, codes) == write(tmp_path / "b.parquet", ids, codes, [1, 5000, 250_001])


def test_the_real_sizes(tmp_path):
    rows = labels_file.GROUP_ROWS + 1
    ids = pa.array(np.arange(rows))
    write(tmp_path / "a.parquet", ids, np.zeros(rows, np.uint8), [1000])
    assert group_sizes(tmp_path / "a.parquet") == [labels_file.GROUP_ROWS, 1]


def test_no_rows_make_a_file_without_rows(tmp_path):
    write(tmp_path / "a.parquet", pa.array([], pa.int64()), np.empty(0, np.uint8))
    assert pq.read_metadata(tmp_path / "a.parquet").num_rows == 0


def test_rows_that_wait_are_not_written_after_an_error(tmp_path):
    def fail():
        with LabelsWriter(tmp_path / "a.parquet", "id", pa.int64(), MECHANISM) as writer:
            writer.write(pa.array([1, 2]), np.zeros(2, np.uint8))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert pq.read_metadata(tmp_path / "a.parquet").num_rows == 0


def save_text(folder, name, digits, ids=range(ROWS)):
    """A CSV file in which one label of many has these digits."""
    lines = [f"{i},{digits if row == 5 else '7.5'}\n" for row, i in enumerate(ids)]
    (folder / name).write_text("id,y\n" + "".join(lines))
    return LabelSource(folder / name, "y", "id")


def save_wide(folder, name, digits, ids=range(ROWS)):
    """A Parquet file of two row groups whose ids are text and whose labels are decimals of some width."""
    labels = pa.array([float(digits) if row == 5 else 7.5 for row in range(ROWS)])
    table = pa.table({"id": [f"{'record ' * 5}{i}" for i in ids], "y": labels})
    pq.write_table(table, folder / name, row_group_size=ROWS // 2, use_dictionary=len(digits) > 5)
    return LabelSource(folder / name, "y", "id")


def batch_sizes(source):
    return [len(batch.ids) for batch in source.batches()]


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("keep_order", [True, False], ids=["input's order", "own order"])
@pytest.mark.parametrize(("save", "suffix"), [(save_text, ".csv"), (save_wide, ".parquet")], ids=["text", "wide rows"])
def test_the_digits_of_one_label_move_no_row_group(tmp_path, monkeypatch, save, suffix, keep_order):
    monkeypatch.setattr("labeldp.engines.arrow.source.BATCH_ROWS", 2)  # pieces are not joined
    monkeypatch.setattr("labeldp.release.account.secrets.token_hex", lambda _: "0" * 32)
    monkeypatch.setattr("labeldp.release.key_file.os.urandom", bytes)
    randomizer = LabelRandomizer(1, DOMAIN, prior=Prior.uniform(DOMAIN))
    found, sizes, added = [], [], []
    for number, digits in enumerate(("7.5", "7.500000000000000000000000000000001")):
        source = save(tmp_path, f"{number}{suffix}", digits)
        sizes.append(batch_sizes(source))
        out, key = tmp_path / f"message-{number}", tmp_path / f"key-{number}"
        privatize(source, randomizer, out, key_file=key, keep_order=keep_order)
        found.append((out / "labels.parquet").read_bytes())
        assert group_sizes(out / "labels.parquet") == even(ROWS)
        later = save(tmp_path, f"later-{number}{suffix}", digits, range(ROWS - 100, 2 * ROWS - 100))
        apply(out, replace(source, path=later.path), key_file=key)
        added.append((out / "labels" / "part-00001.parquet").read_bytes())
        assert group_sizes(out / "labels" / "part-00001.parquet") == even(ROWS - 100)
    assert sizes[0] != sizes[1]  # the digits do move the batches that are read
    assert found[0] == found[1]
    assert added[0] == added[1]
