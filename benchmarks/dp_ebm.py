"""`interpret`'s DPExplainableBoostingRegressor, a peer for `sums.py`, in a Python environment of its own.

It protects features as well as labels, with (ε, δ)-DP. Its bounds come from the test rows, which stand for public data: the 1 %
and 99 % quantiles of each number, to which training rows are clipped. All else is its default.

`environment` makes the environment once (`bench/environments.py`, needs pip and an index); `predictions` starts this file in it.
Nothing here imports labeldp, because that Python has none.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

VERSION = "0.7.8"
DELTA = 1e-6


def environment() -> Path:
    """The Python that has `interpret`, installed if it is not there yet."""
    from bench.environments import python_of

    return python_of("interpret")


def predictions(python, train, codes, labels, test, bounds, epsilons) -> np.ndarray:
    """Predictions for `test`, a row for each ε."""
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "given.npz", Path(folder) / "answer.npy"
        np.savez(given, train=train, codes=codes, labels=labels, test=test, bounds=bounds, epsilons=epsilons)
        subprocess.run([python, __file__, given, answer], check=True)
        return np.load(answer)


def main(given: str, answer: str) -> None:
    """In the other Python: fit once for each ε."""
    from interpret.privacy import DPExplainableBoostingRegressor

    warnings.simplefilter("ignore")
    data = np.load(given)
    train, test, codes = data["train"], data["test"], data["codes"]
    low, high = np.quantile(test, [0.01, 0.99], axis=0)
    high = np.maximum(high, low + 1e-9)
    numbers = np.flatnonzero(~codes)
    for rows in (train, test):
        rows[:, numbers] = np.clip(rows[:, numbers], low[numbers], high[numbers])
    lower, upper = data["bounds"]
    found = []
    for epsilon in data["epsilons"]:
        model = DPExplainableBoostingRegressor(
            feature_types=["nominal" if is_code else "continuous" for is_code in codes],
            privacy_bounds={int(j): (low[j], high[j]) for j in numbers},
            privacy_target_min=float(lower),
            privacy_target_max=float(upper),
            epsilon=float(epsilon),
            delta=DELTA,
            n_jobs=1,
        )
        found.append(np.clip(model.fit(train, data["labels"]).predict(test), lower, upper))
    np.save(answer, np.array(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
