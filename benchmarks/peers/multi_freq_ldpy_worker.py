"""multi-freq-ldpy in its own environment: generalised randomized response, called as documented, and in a compiled loop of our own."""

import time

import numba
import numpy as np
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client
from serving import serve


@numba.njit
def in_a_loop(labels, categories, epsilon):
    """Its compiled function, without a Python call for each label."""
    found = np.empty(labels.size, np.int64)
    for place in range(labels.size):
        found[place] = GRR_Client(labels[place], categories, epsilon)
    return found


def run(name, labels, categories, epsilon):
    """One output a label."""
    if name == "compiled loop":
        return in_a_loop(labels, categories, epsilon)
    return np.array([GRR_Client(label, categories, epsilon) for label in labels])


def seconds(name, epsilon, count, categories):
    """The time for so many labels."""
    labels = np.random.default_rng(0).integers(0, categories, count)
    run(name, labels[:10], categories, epsilon)
    start = time.perf_counter()
    run(name, labels, categories, epsilon)
    return {"seconds": time.perf_counter() - start}


def draw(name, epsilon, count, label, categories):
    """Outputs for so many records with one label."""
    return {"outputs": run(name, np.full(count, int(label)), categories, epsilon).astype(np.float64)}


serve({"seconds": seconds, "draw": draw}, ["multi-freq-ldpy", "numpy", "numba"])
