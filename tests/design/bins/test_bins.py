"""The result as a value: checked, frozen, comparable, readable."""

from __future__ import annotations

import numpy as np
import pytest

from labeldp.design.bins import Bins
from labeldp.errors import InvalidInput


def bins(**changes):
    return Bins(
        **{
            "outputs": [1, 2, 4],
            "thresholds": [1.5, 3],
            "expected_loss": 0.25,
            "loss": "squared",
            "epsilon": 1.0,
            **changes,
        }
    )


def test_a_label_on_a_threshold_goes_to_the_lower_output():
    codes = bins().encode([-5, 1.5, np.nextafter(1.5, 2), 3, 3.1, 1e9])
    assert codes.tolist() == [0, 0, 1, 1, 2, 2]
    assert codes.dtype == np.uint32


def test_it_cannot_be_changed_even_through_the_array_it_was_made_from():
    outputs = np.array([1.0, 2.0, 4.0])
    made = bins(outputs=outputs)
    outputs[0] = 1.4
    assert made.outputs[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        made.thresholds[0] = 0
    with pytest.raises(AttributeError):
        made.epsilon = 2.0


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"outputs": [1, 1, 4]}, "strictly increasing"),
        ({"outputs": [1, 2, np.inf]}, "finite"),
        ({"outputs": [], "thresholds": []}, "at least one"),
        ({"thresholds": [1.5]}, "3 outputs need 2 thresholds, got 1"),
        ({"thresholds": [2.5, 3]}, "between the outputs"),
    ],
)
def test_what_are_no_bins_is_refused(changes, match):
    with pytest.raises(InvalidInput, match=match):
        bins(**changes)


def test_it_shows_itself_as_a_table():
    assert repr(bins()) == (
        "Bins(3 outputs, epsilon=1, loss='squared', expected_loss=0.25)\n"
        "  y ≤ 1.5      →  1\n"
        "  1.5 < y ≤ 3  →  2\n"
        "  3 < y        →  4"
    )
    assert "every label  →  7" in repr(bins(outputs=[7], thresholds=[]))


def test_bins_that_six_digits_do_not_tell_apart_are_shown_with_all_digits():
    close = bins(outputs=[1e9, 1e9 + 1, 1e9 + 2], thresholds=[1e9 + 0.5, 1e9 + 1.5])
    assert "  1000000000.5 < y ≤ 1000000001.5  →  1000000001.0" in repr(close).splitlines()
