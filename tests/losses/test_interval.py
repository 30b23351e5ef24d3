"""Valid ranges and their refusals."""

from __future__ import annotations

import numpy as np
import pytest

from labeldp.errors import InvalidInput
from labeldp.losses import Interval, get_loss


def test_ends_belong_unless_they_are_open_and_infinity_never_does():
    assert Interval(0, 1).contains([0, 1, -0.1, 1.1, np.nan]).tolist() == [True, True, False, False, False]
    assert Interval(0, 1, lower_open=True, upper_open=True).contains([0, 0.5, 1]).tolist() == [False, True, False]
    assert Interval().contains([1e308, np.inf, -np.inf]).tolist() == [True, False, False]


def test_a_refusal_names_the_first_offenders_and_where_they_are():
    with pytest.raises(InvalidInput, match=r"labels must lie in \(0, inf\), which fails at index 1, 3$"):
        get_loss("gamma").valid_labels.check([1, 0, 3, -2], "labels")
    with pytest.raises(InvalidInput, match="and 7 more"):
        Interval(0, 1).check(np.full(10, 5.0), "outputs")
    Interval(0, 1).check([], "outputs")
