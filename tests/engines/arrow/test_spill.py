"""Rows come back once each, in an order that ids decide, whatever their number, length and type."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.engines.arrow import spill as spills
from labeldp.engines.arrow.spill import PartitionedColumn, RepeatedIdError, open_spill
from labeldp.sampling.ids import digest_ids, mix, unmix

TEXT_KEY = b"t" * 32


def fill(spill, ids, codes=None, pieces=3):
    """Adds the rows in some pieces; the codes are the places of the ids unless given."""
    codes = np.arange(len(ids)) if codes is None else codes
    edges = np.linspace(0, len(ids), pieces + 1).astype(int)
    for start, end in pairwise(edges):
        part = ids.slice(start, end - start)
        spill.add(part, digest_ids(part, TEXT_KEY), codes[start:end].astype(np.uint32))
    return spill


def rows_of(spill, held=None):
    parts = list(spill.partitions(held))
    ids = [value for part in parts for value in part.ids.to_pylist()]
    return ids, [int(code) for part in parts for code in part.codes], sum(part.skipped for part in parts)


def some_ids(kind, count, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "int":
        return pa.array(rng.permutation(count) * 17 - 5 * count)
    return pa.array([f"user {i}" * (i % 3) + str(i) for i in rng.permutation(count)], pa.large_string())


@pytest.fixture
def few_rows(monkeypatch):
    monkeypatch.setattr(spills, "ROWS_PER_PARTITION", 64)


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("kind", ["int", "str"])
@pytest.mark.parametrize("count", [1, 63, 3000])
def test_every_row_comes_back_once_with_its_code(tmp_path, kind, count):
    ids = some_ids(kind, count)
    with fill(open_spill(tmp_path / "s", ids.type, count, np.uint32), ids) as spill:
        read, codes, skipped = rows_of(spill)
    assert (len(read), skipped) == (count, 0)
    assert [ids[code].as_py() for code in codes] == read
    assert set(codes) == set(range(count))


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("kind", ["int", "str"])
def test_the_order_depends_on_ids_alone(tmp_path, kind):
    ids = some_ids(kind, 3000)
    mixed = ids.take(pa.array(np.random.default_rng(1).permutation(3000)))
    orders = []
    for number, (rows, pieces) in enumerate([(ids, 1), (mixed, 7)]):
        with fill(open_spill(tmp_path / f"{number}", ids.type, 3000, np.uint32), rows, pieces=pieces) as spill:
            orders.append(rows_of(spill)[0])
    assert orders[0] == orders[1]
    assert orders[0] != ids.to_pylist()


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("value", [-7, 2**62])
def test_a_repeated_integer_is_found(tmp_path, value):
    ids = pa.array([*range(500), value, *range(600, 900), value])
    with (
        fill(open_spill(tmp_path / "s", ids.type, 900, np.uint32), ids) as spill,
        pytest.raises(RepeatedIdError) as found,
    ):
        rows_of(spill)
    assert found.value.id.to_pylist() == [value]
    assert str(value) not in str(found.value)


@pytest.mark.usefixtures("few_rows")
def test_a_repeated_text_is_found_even_among_many_copies(tmp_path):
    ids = pa.array([*map(str, range(500)), *["twice"] * 200], pa.large_string())
    with (
        fill(open_spill(tmp_path / "s", ids.type, 700, np.uint32), ids) as spill,
        pytest.raises(RepeatedIdError) as found,
    ):
        rows_of(spill)
    assert found.value.id.to_pylist() == ["twice"]


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("kind", ["int", "str"])
def test_known_rows_are_skipped(tmp_path, kind):
    ids = some_ids(kind, 2000)
    other = pa.array([10**9]) if kind == "int" else pa.array(["elsewhere"], pa.large_string())
    known = pa.concat_arrays([ids.slice(100, 700), other])
    with (
        fill(open_spill(tmp_path / "s", ids.type, 2700, np.uint32), ids) as spill,
        fill(open_spill(tmp_path / "h", ids.type, 2700, np.uint8), known) as held,
    ):
        read, codes, skipped = rows_of(spill, held)
    assert skipped == 700
    assert set(codes) == {*range(100), *range(800, 2000)}
    assert [ids[code].as_py() for code in codes] == read


@pytest.mark.parametrize(("new", "known"), [(pa.int64(), pa.uint64()), (pa.uint64(), pa.int64())])
def test_minus_one_is_not_the_largest_unsigned_id(tmp_path, new, known):
    extreme = {pa.int64(): -1, pa.uint64(): 2**64 - 1}
    ids = pa.array([extreme[new], 5, 6], new)
    with (
        fill(open_spill(tmp_path / "s", new, 3, np.uint32), ids) as spill,
        fill(open_spill(tmp_path / "h", new, 3, np.uint8), pa.array([extreme[known], 6], known)) as held,
    ):
        read, _, skipped = rows_of(spill, held)
    assert (set(read), skipped) == ({extreme[new], 5}, 1)


def test_two_texts_whose_leading_64_bits_agree_are_two_rows(tmp_path):
    """Such a pair cannot be found by trying, so the digests are made by hand."""
    ids = pa.array(["a", "b", "c"], pa.large_string())
    digests = digest_ids(ids, TEXT_KEY)
    digests.low[:] = 77
    digests.high[:] = [3, 1, 2]
    with (
        open_spill(tmp_path / "s", ids.type, 3, np.uint32) as spill,
        open_spill(tmp_path / "h", ids.type, 3, np.uint8) as held,
    ):
        spill.add(ids, digests, np.arange(3))
        held.add(ids.slice(0, 1), digests[:1], np.zeros(1))
        assert rows_of(spill) == (["b", "c", "a"], [1, 2, 0], 0)
        assert rows_of(spill, held) == (["b", "c"], [1, 2], 1)


@pytest.mark.usefixtures("few_rows")
def test_ids_chosen_so_that_their_keys_fall_together_are_sorted_too(tmp_path):
    keys = np.arange(20_000, 0, -1, dtype=np.uint64)
    ids = pa.array(unmix(keys).view(np.int64))
    with fill(open_spill(tmp_path / "s", ids.type, 20_000, np.uint32), ids) as spill:
        read, codes, _ = rows_of(spill)
    assert read == ids.to_pylist()[::-1]
    assert codes == [*range(20_000)][::-1]


@pytest.mark.parametrize(("kind", "code_type"), [("int", np.uint8), ("int", np.uint32), ("str", np.uint16)])
def test_partitions_of_many_parts_come_back_in_the_order_of_their_keys(tmp_path, monkeypatch, kind, code_type):
    """Against NumPy's sort of the same keys. Partitions have a few thousand rows."""
    monkeypatch.setattr(spills, "ROWS_PER_PARTITION", 1 << 11)
    ids = some_ids(kind, 20_000)
    digests = digest_ids(ids, TEXT_KEY)
    expected = np.lexsort((digests.high, mix(digests.low) if kind == "int" else digests.low))
    codes = np.arange(20_000) % 251
    with fill(open_spill(tmp_path / "s", ids.type, 20_000, code_type), ids, codes) as spill:
        read, drawn, _ = rows_of(spill)
    assert read == ids.take(pa.array(expected)).to_pylist()
    assert drawn == codes[expected].tolist()


def test_a_spill_has_few_open_files_and_leaves_none(tmp_path, open_files):
    for kind, most in (("int", 2), ("str", 5)):
        ids = some_ids(kind, 100)
        with fill(open_spill(tmp_path / kind, ids.type, 1 << 40, np.uint8), ids) as spill:
            assert spill.bits == spills.MAX_PARTITION_BITS
            assert open_files() == most
            assert list((tmp_path / kind).iterdir()) == []
        assert open_files() == 0


def test_a_full_disk_is_an_error_at_once(tmp_path):
    class Full:
        def seek(self, place):
            pass

        def write(self, data):
            if len(data) > 4:
                return 4
            raise OSError(28, "No space left on device")

    column = PartitionedColumn(tmp_path, np.uint64)
    column.close()
    column._file = Full()
    with pytest.raises(OSError, match="No space left"):
        column.append(np.arange(3), np.array([0, 3]))


@given(st.lists(st.lists(st.integers(0, 7), max_size=9), max_size=5))
def test_a_column_is_read_back_by_partition(tmp_path_factory, batches):
    column = PartitionedColumn(tmp_path_factory.mktemp("c"), np.int16)
    for batch in batches:
        ordered = np.sort(np.array(batch, np.int16))
        column.append(ordered, np.searchsorted(ordered, np.arange(9)))
        column.read(3)
    for partition in range(8):
        assert column.read(partition).tolist() == [partition] * sum(batch.count(partition) for batch in batches)
    column.close()
