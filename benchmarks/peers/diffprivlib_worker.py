"""diffprivlib in its own environment: time its randomizers, or draw from them. One call a label is all that it offers."""

import time

import numpy as np
from diffprivlib import mechanisms
from serving import serve

UPPER = 400


def made(name, epsilon):
    """A mechanism for labels from 0 to 400, whose range is the sensitivity."""
    if name == "Geometric":
        return mechanisms.Geometric(epsilon=epsilon, sensitivity=UPPER)
    if name == "LaplaceTruncated":
        return mechanisms.LaplaceTruncated(epsilon=epsilon, sensitivity=UPPER, lower=0, upper=UPPER)
    return {"Laplace": mechanisms.Laplace, "Staircase": mechanisms.Staircase, "Snapping": mechanisms.Snapping}[name](
        epsilon=epsilon, sensitivity=UPPER, **({"lower": 0, "upper": UPPER} if name == "Snapping" else {})
    )


def seconds(name, epsilon, count):
    """The time for so many labels."""
    mechanism, label = made(name, epsilon), 120 if name == "Geometric" else 120.0
    randomise = mechanism.randomise
    start = time.perf_counter()
    for _ in range(count):
        randomise(label)
    return {"seconds": time.perf_counter() - start}


def draw(name, epsilon, count, label):
    """Outputs for so many records with one label."""
    randomise, value = made(name, epsilon).randomise, int(label) if name == "Geometric" else float(label)
    return {"outputs": np.array([randomise(value) for _ in range(count)], dtype=np.float64)}


serve({"seconds": seconds, "draw": draw}, ["diffprivlib", "numpy", "scikit-learn"])
