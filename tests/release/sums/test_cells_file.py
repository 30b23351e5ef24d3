"""Files of another party: what does not fit is refused by the footer, before its rows are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import InvalidInput, PrivateSums
from labeldp.artifact.manifest import seal
from labeldp.release import cells_file
from labeldp.release import sums as sums_release
from labeldp.release.cells_file import CellsFile
from labeldp.release.sums import SumsAnswer, SumsOutcome
from labeldp.release_kind import SUMS
from labeldp.tables import files as parquet_file

RECORDS = "records.parquet"


@pytest.fixture
def unread(monkeypatch):
    """Reading rows fails."""

    def read(*arguments, **settings):
        raise AssertionError("rows were read")

    monkeypatch.setattr(pq.ParquetFile, "read", read)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", read)


def written(path, columns):
    pq.write_table(pa.table(columns), path)
    return path


def test_columns_are_kept_as_small_integers_however_they_were_written(tmp_path, monkeypatch):
    monkeypatch.setattr(cells_file, "READ_AT_ONCE", 20)  # two columns at once
    columns = {
        "c0": pa.array([1, -1] * 5, pa.int64()),
        "c1": pa.array(range(10), pa.uint64()),
        "c.2": pa.array(range(0, 2000, 200), pa.int32()),
        "c": pa.array(range(0, 200_000, 20_000), pa.int64()),
        "c4": pa.array([0, 1] * 5, pa.uint8()),
    }
    path = written(tmp_path / "cells.parquet", {"id": [f"x{place}" for place in range(10)], **columns})
    found = CellsFile.read(path)
    assert found.names == tuple(columns)
    assert [one.dtype.itemsize for one in found.columns.columns] == [1, 1, 2, 4, 1]
    for one, column in zip(found.columns.columns, columns.values(), strict=True):
        np.testing.assert_array_equal(one, column)
    assert len(found.ids) == 10


@pytest.mark.usefixtures("unread")
def test_far_more_records_than_labels_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(cells_file, "FEW_RECORDS", 100)
    path = written(tmp_path / "cells.parquet", {"id": range(301), "c0": [0] * 301})
    with pytest.raises(InvalidInput, match="has 301 records, and there are 3 labels: is it the right file"):
        CellsFile.read(path, labels=3)
    for labels in (4, None):
        with pytest.raises(AssertionError):
            CellsFile.read(path, labels=labels)


def test_a_column_with_other_rows_than_the_footer_says_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path / "cells.parquet", {"id": range(10), "c0": [0] * 10})
    read = pq.ParquetFile.read
    monkeypatch.setattr(pq.ParquetFile, "read", lambda self, names: read(self, names).slice(int("c0" in names)))
    with pytest.raises(InvalidInput, match="is damaged: a column does not have 10 rows"):
        CellsFile.read(path)


@pytest.mark.usefixtures("unread")
def test_too_many_numbers_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(cells_file, "MOST_NUMBERS", 19)
    path = written(tmp_path / "cells.parquet", {"id": range(10), "c0": [0] * 10})
    with pytest.raises(InvalidInput, match="has 20 numbers"):
        CellsFile.read(path)


@pytest.mark.usefixtures("unread")
def test_more_columns_than_can_be_used_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(cells_file, "MOST_SIGNS", 3)
    monkeypatch.setattr(cells_file, "MOST_PARTITIONS", 2)
    path = written(tmp_path / "cells.parquet", {"id": range(2), **{f"c{place}": [0, 1] for place in range(6)}})
    with pytest.raises(InvalidInput, match="has 7 columns, and at most 3 of signs and 2 of cell numbers"):
        CellsFile.read(path)


def test_two_columns_of_one_name_are_refused():
    schema = pa.schema([(name, pa.int8()) for name in ("id", "c0", "c1", "c0")])
    with pytest.raises(InvalidInput, match="several columns named 'c0'"):
        cells_file._check_schema(schema, "cells.parquet")


def test_ids_of_another_number_than_labels_were_summed_are_not_read(tmp_path, monkeypatch, unread):
    sums = PrivateSums.over_cells([1, 2, 3], [0, 0, 0], epsilon=1, domain=(0, 100))
    sealed(tmp_path, sums, range(1000))
    with pytest.raises(InvalidInput, match="must list 3 different ids"):
        SumsAnswer.open(tmp_path)
    monkeypatch.undo()
    sealed(tmp_path, sums, range(3))
    assert SumsAnswer.open(tmp_path).ids.to_pylist() == [0, 1, 2]


def sealed(folder, sums, ids):
    """Write an answer about these ids, with a manifest that fits it."""
    written(folder / RECORDS, {"id": ids})
    seal(folder, SUMS, "ab" * 16, sums.epsilon_exact, (sums.to_json(), sums.card()), lambda _: sums.records)
    return folder


def test_a_link_or_another_file_in_an_answer_is_refused(tmp_path):
    folder = tmp_path / "sums"
    folder.mkdir()
    sums = PrivateSums.over_cells([1, 2, 3], [0, 0, 0], epsilon=1, domain=(0, 100))
    sealed(folder, sums, range(3))
    (folder / ".DS_Store").touch()
    assert SumsAnswer.open(folder).sums == sums
    (folder / "labels.csv").touch()
    with pytest.raises(InvalidInput, match=r"is not listed in manifest\.json"):
        SumsAnswer.open(folder)
    (folder / "labels.csv").unlink()
    for name in (RECORDS, "manifest.json"):
        (folder / name).rename(tmp_path / name)
        (folder / name).symlink_to(tmp_path / name)
        with pytest.raises(InvalidInput, match="is a link"):
            SumsAnswer.open(folder)
        (tmp_path / name).replace(folder / name)
    assert SumsAnswer.open(folder).sums == sums


def test_the_shown_outcome_does_not_tell_how_many_labels_were_clipped(tmp_path):
    sums = PrivateSums.over_cells([1, 2, 3], [0, 0, 0], epsilon=1, domain=(0, 100))
    outcome = SumsOutcome(tmp_path, sums, without_label=0, without_cells=0, clipped=77123)
    assert outcome.clipped == 77123
    assert "77123" not in repr(outcome)
    assert "clipped" not in repr(outcome)


@pytest.fixture
def answer(tmp_path):
    """Write an answer about ids, each of which counts as one label."""

    def write(ids):
        sums = PrivateSums.over_cells([1] * len(ids), [0] * len(ids), epsilon=1, domain=(0, 100))
        folder = tmp_path / "answer"
        folder.mkdir(exist_ok=True)
        return sealed(folder, sums, ids)

    return write


@pytest.mark.parametrize("kind", [int, str])
def test_reading_ids_stops_at_the_first_one_that_repeats(answer, monkeypatch, kind):
    monkeypatch.setattr(sums_release, "READ_ROWS", 10)
    read, checked = [], sums_release.checked_ids
    monkeypatch.setattr(sums_release, "checked_ids", lambda ids, *rest: read.append(len(ids)) or checked(ids, *rest))
    ids = sorted(kind(number) for number in range(100, 200))
    assert SumsAnswer.open(answer(ids)).ids.to_pylist() == ids
    assert read == [10] * 10
    for twice in (5, 9, 10):  # within a batch, across two, and at the start of the next
        read.clear()
        with pytest.raises(InvalidInput, match="must list 101 different ids in ascending order"):
            SumsAnswer.open(answer([*ids[: twice + 1], *ids[twice:]]))
        assert len(read) == (1 if twice < 9 else 2)


@pytest.mark.usefixtures("unread")
def test_ids_in_a_file_too_small_for_them_are_not_read(answer, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_file, "FEW_ROWS", 1000)
    folder = answer([7] * 200_000)
    cells = written(tmp_path / "cells.parquet", {"id": [7] * 200_000, "c0": [0] * 200_000})
    for read in (lambda: SumsAnswer.open(folder), lambda: CellsFile.read(cells)):
        with pytest.raises(InvalidInput, match=r"has 200,000 rows in .* bytes, which is too small"):
            read()
