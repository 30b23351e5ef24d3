"""Designs, draws and predictions that a change of the code's structure must not change.

`python tests/golden/values.py` writes them to `values.json`, with every draw seeded. Run it only when a change of results is
meant, and say so in the commit.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import labeldp
from labeldp.mechanisms import RandomizedResponse
from seeded_words import seeded_draws

FILE = Path(__file__).with_name("values.json")
MECHANISMS = (
    "auto",
    "bias-variance",
    "discrete-laplace",
    "discrete-staircase",
    "exponential",
    "randomized-response",
    "rp-with-prior",
    "rr-on-bins",
    "rr-with-prior",
    "unbiased",
)


def designs():
    """The outputs of each mechanism, and its channel for 5 labels, for a skewed prior."""
    values = np.arange(41.0) * 10
    prior = labeldp.Prior(values, np.exp(-values / 90))
    randomizer = {"domain": labeldp.Domain(0, 400, cells=41), "prior": prior}
    found = {}
    for name in MECHANISMS:
        for epsilon in (0.5, 2):
            mechanism = labeldp.LabelRandomizer(epsilon, mechanism=name, **randomizer).fit(values.repeat(100))
            rows = mechanism.matrix(values[::10])
            found[f"{name} {epsilon}"] = {"moments": (rows @ mechanism.outputs).tolist(), "rows": _sample(rows)}
    return found


def draws():
    """Keyed draws for integer and text ids, which every later version must repeat."""
    mechanism = RandomizedResponse(labeldp.Domain.integers(0, 9), 1)
    randomness = labeldp.sampling.KeyedRandomness(bytes(range(32)), bytes(range(16)))
    labels = np.arange(200) % 10
    texts = [f"id {number}" for number in range(200)]
    return {
        "digest": mechanism.digest,
        "integers": mechanism.codes(labels, np.arange(200), randomness).tolist(),
        "texts": mechanism.codes(labels, texts, randomness).tolist(),
    }


def data(records):
    generator = np.random.default_rng(5)
    features = generator.normal(size=(records, 4))
    labels = np.clip(100 + 40 * features[:, 0] + 30 * (features[:, 1] > 0) + generator.normal(0, 30, records), 0, 400)
    return features, labels


def processor():
    """A digest of the last digits of solvers and matrix products, which differ between processors."""
    features, labels = data(500)
    solved = np.linalg.lstsq(features, labels)[0]
    mechanism = labeldp.LabelRandomizer(1, (0, 400), prior=labeldp.Prior([0, 100, 400], [2, 5, 1])).fit(labels)
    return mechanism.digest + np.append(solved, np.exp(labels[:50]).sum()).tobytes().hex()


def predictions():
    """What default models predict for 20 records."""
    features, labels = data(3000)
    found = {"processor": processor()}
    for method in ("labels", "sums"):
        for epsilon in (0.5, 4):
            with seeded_draws(7, any_processor=True):
                model = labeldp.LabelDPRegressor(epsilon=epsilon, domain=(0, 400), method=method).fit(features, labels)
            found[f"{method} {epsilon}"] = model.predict(features[:20]).tolist()
    return found


def _sample(rows):
    """Every row at 9 quantiles of its outputs: enough to notice another channel, and short."""
    return rows[:, np.linspace(0, rows.shape[1] - 1, 9).astype(int)].tolist()


def current():
    """All values, as the code gives them now."""
    with warnings.catch_warnings(), seeded_draws(3, any_processor=True):
        warnings.simplefilter("ignore")
        return {"designs": designs(), "draws": draws(), "predictions": predictions()}


if __name__ == "__main__":
    FILE.write_text(json.dumps(current(), indent=1) + "\n", encoding="utf-8")
