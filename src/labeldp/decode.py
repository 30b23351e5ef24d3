"""What number stands for each code when the features party trains. Computed from the public mechanism alone."""

from __future__ import annotations

import numpy as np

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism
from labeldp.sampling import ResponseTable

DECODERS = ("bins", "debiased")


def code_values(mechanism: FiniteMechanism, decoder: str = "bins") -> Floats:
    """A value for each of the mechanism's codes.

    - `bins`: the mechanism's own outputs, best for the error of the labels and biased towards the middle.
    - `debiased`: values t with E[t | y] = the prior mean of y's bin, so that the bias within each bin averages out and
      a model trained on t is not pulled to the middle. They reach outside the label range.
    """
    if decoder == "bins":
        return mechanism.outputs
    if decoder == "debiased":
        return debiased_values(mechanism)
    raise InvalidInput(f"unknown target values {decoder!r}; choose from {', '.join(DECODERS)}")


def debiased_values(mechanism: FiniteMechanism) -> Floats:
    """For randomized response with weights a (keep) and b (other) of 2^64: t_j = (μ_j − q·Σμ)/(p − q), p = a/2^64, q = b/2^64."""
    table = mechanism.table
    if not isinstance(table, ResponseTable):
        raise InvalidInput(f"debiased values are for mechanisms of randomized response, not for {mechanism.kind}")
    means = bin_means(mechanism)
    if table.outputs == 1:
        return means
    total = 2.0**64
    keep, other = table.keep / total, table.other / total
    return np.asarray((means - other * means.sum()) / ((table.keep - table.other) / total)) if keep > other else means


def bin_means(mechanism: FiniteMechanism) -> Floats:
    """The prior mean of the labels behind each symbol; the output itself where the prior has no mass."""
    prior = mechanism.prior
    if prior is None:
        raise InvalidInput("debiased values need the mechanism's prior, and this mechanism carries none")
    symbols = mechanism.encoder.encode(prior.values)
    mass = np.bincount(symbols, prior.masses, minlength=mechanism.outputs.size)
    moment = np.bincount(symbols, prior.masses * prior.values, minlength=mechanism.outputs.size)
    return np.where(mass > 0, moment / np.where(mass > 0, mass, 1), mechanism.outputs)
