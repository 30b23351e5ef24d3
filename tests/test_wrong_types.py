"""The obvious wrong object gets an error that says which one is meant and how to make it."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from labeldp import (
    LabelRandomizer,
    compare,
    cross_validated_error,
    estimate_error,
    estimate_gain,
    estimate_mean,
    join,
    privatize,
)
from labeldp.errors import InvalidInput

LABELS = np.arange(5.0)
RANDOMIZER = LabelRandomizer(1, (0, 10))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: privatize("labels.parquet", RANDOMIZER, "message"), "source must be a LabelSource, got str"),
        (lambda: join("message", LABELS), "message must be a Message, got str"),
        (lambda: estimate_error(LABELS, LABELS), "private must be a PrivateLabels, got ndarray"),
        (lambda: estimate_mean(LABELS), "private must be a PrivateLabels, got ndarray"),
        (lambda: estimate_gain(LABELS, LABELS), "private must be a PrivateLabels, got ndarray"),
        (lambda: cross_validated_error(Ridge(), LABELS[:, None], LABELS), "private must be a PrivateLabels"),
        (lambda: list(compare((0, 10), [1])), "prior must be a Prior, got tuple"),
    ],
)
def test_a_wrong_object_is_named(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
