"""One batch: labels outside the bounds are counted or refused, and each record gets the mechanism's own draw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from labeldp.domain import Domain
from labeldp.engines.batches import FileTypes, LabelBatch, count_outside, draw_batch
from labeldp.errors import InvalidInput
from labeldp.mechanisms import RROnBins
from labeldp.priors import Prior
from labeldp.sampling import KeyedRandomness

DOMAIN = Domain(0, 10, cells=11)
BATCH = LabelBatch(
    pa.array(["a", "b", "c"]), np.array([-1.0, 4.0, 11.0]), first_row=100, types=FileTypes("string", "double")
)


def test_labels_outside_the_bounds_are_counted():
    assert count_outside(BATCH, DOMAIN, "clip") == 2
    assert count_outside(BATCH, Domain(-1, 11), "error") == 0


def test_the_first_label_outside_is_named_by_its_row_in_the_whole_input_and_not_shown():
    with pytest.raises(InvalidInput, match="row 102 ") as refused:
        count_outside(replace(BATCH, labels=np.array([4.0, 77123.0, 11.0])), DOMAIN, "error")
    assert "77123" not in str(refused.value)


def test_a_batch_gets_the_draws_that_its_clipped_labels_get_in_memory():
    mechanism = RROnBins.optimal(Prior.uniform(DOMAIN), 1)
    randomness = KeyedRandomness(b"k" * 32, b"r" * 16)
    digests, codes = draw_batch(BATCH, mechanism, DOMAIN, randomness)
    assert codes.tolist() == mechanism.codes([0.0, 4.0, 10.0], BATCH.ids, randomness).tolist()
    assert codes.dtype == np.uint8
    assert not digests.distinct  # whoever collects the batches must still compare them
