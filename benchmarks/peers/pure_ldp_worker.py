"""pure-ldp in its own environment: direct encoding, which is generalised randomized response. One call a label is all that it offers."""

import time

import numpy as np
from pure_ldp.frequency_oracles.direct_encoding import DEClient
from serving import serve


def made(epsilon, categories):
    """Its client, for labels that are numbered from 0."""
    return DEClient(epsilon=epsilon, d=categories, index_mapper=lambda label: label)


def seconds(epsilon, count, categories):
    """The time for so many labels."""
    labels, privatise = (
        np.random.default_rng(0).integers(0, categories, count).tolist(),
        made(epsilon, categories).privatise,
    )
    start = time.perf_counter()
    for label in labels:
        privatise(label)
    return {"seconds": time.perf_counter() - start}


def draw(epsilon, count, label, categories):
    """Outputs for so many records with one label."""
    privatise = made(epsilon, categories).privatise
    return {"outputs": np.array([privatise(int(label)) for _ in range(count)], dtype=np.float64)}


serve({"seconds": seconds, "draw": draw}, ["pure-ldp", "numpy"])
