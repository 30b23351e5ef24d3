"""The obvious wrong object gets an error that says which one is meant and how to make it."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from labeldp import (
    LabelDPRegressor,
    LabelRandomizer,
    LabelSource,
    Ledger,
    Message,
    apply,
    compare,
    estimate_error,
    privatize,
)
from labeldp.errors import InvalidInput
from labeldp.evaluate import cross_validated_error, noise_corrected_scorer
from labeldp.learn import join
from labeldp.mechanisms import RROnBins
from labeldp.sampling import KeyedRandomness, OsEntropy

LABELS = np.arange(5.0)
RANDOMIZER = LabelRandomizer(1, (0, 10))
SOURCE = LabelSource("labels.parquet", "y")


def fit(**settings):
    return LabelDPRegressor(domain=(0, 10), **settings).fit(LABELS[:, None], LABELS)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: privatize("labels.parquet", RANDOMIZER, "message"), "source must be a LabelSource, got str"),
        (lambda: join("message", LABELS), "message must be a Message, got str"),
        (lambda: estimate_error(LABELS, LABELS), "private must be a PrivateLabels, got ndarray"),
        (lambda: cross_validated_error(Ridge(), LABELS[:, None], LABELS), "private must be a PrivateLabels"),
        (lambda: list(compare((0, 10), [1])), "prior must be a Prior, got tuple"),
        (lambda: privatize(SOURCE, 1.0, "message"), "randomizer must be a LabelRandomizer, got float"),
        (
            lambda: privatize(SOURCE, RANDOMIZER, "message", ledger="ledger.db", dataset="x"),
            "must be a Ledger, got str",
        ),
        (lambda: privatize(SOURCE, RANDOMIZER, "message", dataset="x"), "give ledger=Ledger"),
        (lambda: privatize(SOURCE, RANDOMIZER, None), "out must be a path.*got NoneType"),
        (lambda: privatize(SOURCE, RANDOMIZER, "message", key_file=b"k" * 32), "key_file must be a path.*got bytes"),
        (lambda: apply("message", "new.parquet", key_file="key"), "source must be a LabelSource, got str"),
        (lambda: apply("message", SOURCE, key_file=b"key"), "key_file must be a path"),
        (lambda: apply("message", SOURCE, key_file="key", out_of_range="drop"), "out_of_range must be"),
        (lambda: LabelSource(LABELS, "y"), "path must be a path.*labels in memory to LabelRandomizer"),
        (lambda: LabelSource("a.csv", "y", "id", id_type="integer"), 'must be "int" or "str"'),
        (lambda: Ledger(None), "path must be a path"),
        (lambda: Message.open(7), "path must be a path"),
        (lambda: Message.open("message", verify_key=7), "verify_key must be a path"),
        (lambda: privatize(SOURCE, RANDOMIZER, "message", sign_key=7), "sign_key must be a path"),
        (lambda: fit(ledger="ledger.db", dataset="x"), "ledger must be a Ledger, got str"),
        (lambda: fit(prior="prior.csv"), r"prior must be a Prior, got str.*Prior\.from_csv"),
        (lambda: fit(loss="mse"), "Did you mean 'squared'"),
        (lambda: LabelRandomizer(1, (0, 10), prior="prior.csv"), r"prior must be a Prior, got str.*Prior\.from_csv"),
        (lambda: RROnBins.optimal("prior.csv", 1), "prior must be a Prior, got str"),
        (lambda: RROnBins([1, 2], epsilon=1).expected_loss("prior.csv"), "prior must be a Prior, got str"),
        (lambda: noise_corrected_scorer("message"), "mechanism must be a FiniteMechanism, got str"),
        (lambda: KeyedRandomness("sales.key", b"r" * 16), "not str"),
        (lambda: RANDOMIZER.randomize(LABELS, ids=LABELS), "would ignore the ids.*KeyedRandomness"),
        (lambda: RANDOMIZER.randomize(LABELS, randomness=42), "got int. There are no seeds"),
        (lambda: RANDOMIZER.randomize(LABELS, randomness=np.random.default_rng(0)), "got Generator"),
        (lambda: RANDOMIZER.randomize(LABELS, randomness=OsEntropy), "got the class OsEntropy"),
        (lambda: RANDOMIZER.randomize(LABELS, randomness=KeyedRandomness.generate()), "needs ids"),
        (lambda: RROnBins([1, 2], epsilon=1).randomize(LABELS, ids=LABELS), "would ignore the ids"),
        (lambda: RROnBins([1, 2], epsilon=1).codes(LABELS, randomness="key"), "got str"),
    ],
)
def test_a_wrong_object_is_named(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
