"""diffprivlib's LinearRegression in its own environment. Features and labels are protected, with pure ε."""

import warnings

import numpy as np
from diffprivlib.models import LinearRegression
from serving import serve

warnings.simplefilter("ignore")


def linear(train, labels, test, bounds, epsilons):
    """Predictions for `test`, a row for each ε. Features lie between -1 and 1."""
    lower, upper = bounds
    found = []
    for epsilon in epsilons:
        model = LinearRegression(epsilon=float(epsilon), bounds_X=(-1.0, 1.0), bounds_y=(lower, upper))
        found.append(np.clip(model.fit(train, labels).predict(test), lower, upper))
    return {"predictions": np.array(found)}


serve({"linear": linear}, ["diffprivlib", "numpy", "scikit-learn"])
