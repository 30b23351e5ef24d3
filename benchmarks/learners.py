"""Learners on private labels: how much the size of a learner matters, beside noisy sums and true labels.

    python benchmarks/learners.py [--records 20000] [--epsilon 0.5 2 8] [--releases 3] [--out results.json]

Criteo-like data, four fifths to train on. Each release randomizes the labels once by `auto`, and all learners but *sums* train on
the same private values. Predictions are clipped into the bounds. The table has the mean R² on the true labels of the other rows,
and the standard deviation between releases. The data are those of seed 0; labels are drawn afresh.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from lightgbm import LGBMRegressor
from rich.console import Console
from rich.progress import track
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from labeldp import LabelDPRegressor, LabelRandomizer
from labeldp.learn import BoostingRegressor
from labeldp.mechanisms import code_values, label_share
from labeldp.paper.data import criteo_like

BOUNDS = (0, 400)
NUMBERS, CATEGORIES = make_column_selector(dtype_include="number"), make_column_selector(dtype_exclude="number")
SUMS, DEFAULT = "noisy sums, one team", "the default of labeldp train"


def with_codes(learner: object) -> Pipeline:
    """Categories as ordinary codes, for trees."""
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(make_column_transformer((encoder, CATEGORIES), remainder="passthrough"), learner)


def with_columns(learner: object) -> Pipeline:
    """A column for each frequent category, for lines."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    categories = OneHotEncoder(min_frequency=100, handle_unknown="infrequent_if_exist")
    return make_pipeline(make_column_transformer((numbers, NUMBERS), (categories, CATEGORIES)), learner)


LEARNERS: dict[str, Callable[[], Pipeline]] = {
    "LightGBM, 60 trees of 4 leaves, 500 records a leaf": lambda: with_codes(
        LGBMRegressor(n_estimators=60, num_leaves=4, min_child_samples=500, verbose=-1, n_jobs=1)
    ),
    "random forest, 500 records a leaf": lambda: with_codes(
        RandomForestRegressor(30, min_samples_leaf=500, random_state=0)
    ),
    "ridge regression, penalty 300": lambda: with_columns(Ridge(300)),
    "histogram boosting, stock": lambda: with_codes(HistGradientBoostingRegressor(random_state=0)),
    "LightGBM, stock": lambda: with_codes(LGBMRegressor(verbose=-1, n_jobs=1)),
    "random forest, stock": lambda: with_codes(RandomForestRegressor(30, random_state=0)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--epsilon", type=float, nargs="+", default=(0.5, 2.0, 8.0))
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--out", type=Path, help="also write all figures as JSON")
    arguments = parser.parse_args()
    train, test = criteo_like(arguments.records).split(seed=0)
    frame, other = train.features.to_pandas(), test.features.to_pandas()
    found = dict[str, dict[str, list[float]]]()

    def note(learner: str, column: str, predictions: np.ndarray) -> None:
        errors = np.square(np.clip(predictions, *BOUNDS) - test.labels)
        found.setdefault(learner, {}).setdefault(column, []).append(1 - float(errors.mean() / test.labels.var()))

    def learn(column: str, values: np.ndarray, share: float) -> None:
        model = BoostingRegressor(share=share, random_state=0).fit(train.features, values)
        note(DEFAULT, column, model.predict(test.features))
        for name, make in LEARNERS.items():
            note(name, column, make().fit(frame, values).predict(other))

    rounds = [epsilon for epsilon in arguments.epsilon for _ in range(arguments.releases)]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epsilon in track(rounds, "releases", console=Console(stderr=True)):
            by_sums = LabelDPRegressor(epsilon=epsilon, domain=BOUNDS, method="sums")
            note(SUMS, f"{epsilon:g}", by_sums.fit(train.features, train.labels).predict(test.features))
            private = LabelRandomizer(epsilon, BOUNDS).randomize(train.labels)
            share = label_share(private.mechanism, code_values(private.mechanism))
            learn(f"{epsilon:g}", private.values(), share)
        learn("true labels", train.labels, 1.0)
    columns = [f"{epsilon:g}" for epsilon in arguments.epsilon] + ["true labels"]
    print("| learner | " + " | ".join(columns) + " |")
    print("|---|" + "--:|" * len(columns))
    for name, figures in found.items():
        cells = [f"{np.mean(figures[c]):.2f} ± {np.std(figures[c]):.2f}" if c in figures else "" for c in columns]
        print(f"| {name} | " + " | ".join(cells) + " |")
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
