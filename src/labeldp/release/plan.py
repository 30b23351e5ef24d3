"""What a release would do, from its settings and the number of rows alone."""

from typing import Any

from labeldp.losses import get_loss
from labeldp.mechanisms import Request, design
from labeldp.mechanisms.prediction import EXPLAINED, ModelErrors
from labeldp.priors import Prior
from labeldp.randomizer import LabelRandomizer


def plan_release(rows: int, randomizer: LabelRandomizer) -> dict[str, Any]:
    """The figures of a release of so many rows, for `privatize --dry-run`. Reads no label and charges nothing.

    `expected_loss` (of a label), `model_error` (of a model trained on all rows, for squared loss) and `outputs` are those
    under the given public prior, or else under a flat one. Warns if ε is small for the number of rows.
    """
    grid, split = randomizer.plan(rows)
    if split is not None:
        split.warn()
    prior = randomizer.prior if randomizer.prior is not None else Prior.uniform(grid)
    epsilon = randomizer.epsilon if split is None else split.epsilon_labels
    mechanism = design(randomizer.mechanism, Request(grid, epsilon, randomizer.loss, prior, rows))
    return {
        "rows": rows,
        "cells": grid.count,
        "lower": grid.lower,
        "upper": grid.upper,
        "unit": grid.unit,
        "mechanism": randomizer.mechanism,
        "loss": str(randomizer.loss),
        "epsilon_prior": 0.0 if split is None else float(split.epsilon_prior),
        "epsilon_labels": float(mechanism.epsilon_exact),
        "assumed_prior": "flat" if randomizer.prior is None else "given",
        "expected_loss": mechanism.expected_loss(prior, randomizer.loss),
        "model_error": ModelErrors(prior, domain=grid).of(mechanism, rows).mse
        if get_loss(randomizer.loss).name == "squared"
        else None,
        "explained": EXPLAINED,
        "outputs": mechanism.outputs,
    }
