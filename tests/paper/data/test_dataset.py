from __future__ import annotations

import numpy as np
import pytest

from labeldp.paper.data import app_ads_like


@pytest.fixture(scope="module")
def dataset():
    return app_ads_like(1003, seed=5)


def test_a_split_is_a_partition_that_keeps_rows_together(dataset):
    train, test = dataset.split(seed=1)
    assert (len(train), len(test)) == (802, 201)

    def rows(part):
        columns = [part.features[name].to_pylist() for name in part.features.column_names]
        return sorted(zip(part.labels.tolist(), *columns, strict=True))

    together = sorted(rows(train) + rows(test))
    assert together == rows(dataset)


def test_splits_follow_the_seed(dataset):
    again, other = dataset.split(seed=1)[1], dataset.split(seed=2)[1]
    first = dataset.split(seed=1)[1]
    assert first.features.equals(again.features)
    assert not first.features.equals(other.features)


def test_the_matrix_has_numbers_then_codes_of_small_vocabularies(dataset):
    matrix, is_code = dataset.matrix(max_items=12)
    small = [c for c in dataset.categorical if len(dataset.features[c].combine_chunks().dictionary) <= 12]
    assert "ad_format" in small
    assert "app_id" not in small
    assert matrix.shape == (1003, 3 + len(small))
    assert is_code.tolist() == [False] * 3 + [True] * len(small)
    assert np.array_equal(matrix[:, 1], dataset.features["apps_installed"].to_numpy())
    column = dataset.features[small[0]].combine_chunks()
    assert [column.dictionary[int(code)].as_py() for code in matrix[:, 3]] == column.to_pylist()


def test_codes_agree_between_the_parts_of_a_split(dataset):
    train, test = dataset.split(seed=0)
    for name in dataset.categorical:
        assert train.features[name].chunk(0).dictionary.equals(test.features[name].chunk(0).dictionary)
