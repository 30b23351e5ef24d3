"""Private labels behave like what they are: a column of numbers that knows where it comes from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from labeldp import Domain, LabelRandomizer, Prior
from labeldp.errors import InvalidInput
from labeldp.mechanisms import PrivateLabels, RROnBins

MECHANISM = RROnBins([1, 5, 9], epsilon=1, domain=(0, 10), prior=Prior([0, 5, 10], [1, 1, 1]))
PRIVATE = PrivateLabels(np.array([0, 2, 1, 1], np.uint32), MECHANISM)
TRAINING = ((np.e + 2) * np.array([0, 10, 5, 5]) - 15) / (np.e - 1)  # the paper's outputs, debiased


def test_it_has_a_length_and_is_an_array_of_training_values_for_numpy():
    assert len(PRIVATE) == 4
    np.testing.assert_allclose(np.asarray(PRIVATE), TRAINING)
    np.testing.assert_array_equal(np.asarray(PRIVATE), PRIVATE.values())
    np.testing.assert_array_equal(PRIVATE.values(), PRIVATE.values("auto"))
    np.testing.assert_array_equal(PRIVATE.values("bins"), [1, 9, 5, 5])
    assert np.asarray(PRIVATE, np.float32).dtype == np.float32
    assert np.mean(PRIVATE) == pytest.approx(5)


@pytest.mark.parametrize("rows", [slice(1, 3), [0, 3], np.array([True, False, True, False]), -1])
def test_slices_keep_the_mechanism(rows):
    part = PRIVATE[rows]
    np.testing.assert_array_equal(part.codes, np.atleast_1d(PRIVATE.codes[rows]))
    assert part.mechanism is MECHANISM


def test_frames_hold_codes_and_private_labels():
    for frame in (PRIVATE.to_arrow(), PRIVATE.to_pandas(), PRIVATE.to_polars()):
        assert list(np.asarray(frame["code"])) == [0, 2, 1, 1]
        assert list(np.asarray(frame["private_label"])) == [1, 9, 5, 5]


def test_what_is_saved_is_loaded_and_proven_again(tmp_path):
    private = LabelRandomizer(1, Domain.integers(0, 20)).randomize(np.arange(21).repeat(50))
    private.save(tmp_path / "private.parquet")
    again = PrivateLabels.load(tmp_path / "private.parquet")
    np.testing.assert_array_equal(again.codes, private.codes)
    assert again.mechanism == private.mechanism
    assert again.epsilon_exact == private.epsilon_exact
    assert [path.name for path in tmp_path.iterdir()] == ["private.parquet"]


def test_a_file_that_was_edited_is_refused(tmp_path):
    path = tmp_path / "private.parquet"
    table = PRIVATE.to_arrow()
    pq.write_table(table.set_column(0, "code", [[0, 2, 1, 7]]), path)
    with pytest.raises(InvalidInput, match="from 0 to 2"):
        PrivateLabels.load(path)
    pq.write_table(table.replace_schema_metadata(None), path)
    with pytest.raises(InvalidInput, match="does not hold private labels"):
        PrivateLabels.load(path)
    pq.write_table(table.replace_schema_metadata({b"labeldp mechanism": b"\xff"}), path)
    with pytest.raises(InvalidInput, match="not valid JSON"):
        PrivateLabels.load(path)
    path.write_bytes(b"something else")
    with pytest.raises(InvalidInput, match="cannot read"):
        PrivateLabels.load(path)
    PRIVATE.save(path)
    path.write_bytes(path.read_bytes().replace(b"code", b"cod\xff"))
    with pytest.raises(InvalidInput, match="cannot read"):
        PrivateLabels.load(path)


def test_codes_that_the_mechanism_does_not_have_are_refused():
    for codes in ([0, 3], [-1], [0.5], [[0, 1]]):
        with pytest.raises(InvalidInput, match="codes must"):
            PrivateLabels(np.array(codes), MECHANISM)


def test_iterating_gives_numbers_so_that_it_can_be_a_column_of_a_frame():
    assert list(PRIVATE) == pytest.approx(TRAINING)
    frame = pd.DataFrame({"x": range(4)})
    frame["private"] = PRIVATE
    assert frame.private.tolist() == pytest.approx(TRAINING)


def test_saving_where_nobody_can_write_is_an_error_that_says_so(tmp_path):
    with pytest.raises(InvalidInput, match="cannot write"):
        PRIVATE.save(tmp_path / "nowhere" / "private.parquet")
    with pytest.raises(InvalidInput, match="there is no file"):
        PrivateLabels.load(tmp_path / "none.parquet")


def test_saving_follows_no_link_that_somebody_else_has_put_there(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    (tmp_path / "private.parquet").symlink_to(victim)
    PRIVATE.save(tmp_path / "private.parquet")
    assert victim.read_text(encoding="utf-8") == "mine"
    assert len(PrivateLabels.load(tmp_path / "private.parquet")) == 4


def test_its_codes_are_its_own():
    codes = np.array([0, 1], np.uint32)
    private = PrivateLabels(codes, MECHANISM)
    codes[0] = 9
    assert private.codes.tolist() == [0, 1]
