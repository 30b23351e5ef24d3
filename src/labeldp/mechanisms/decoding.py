"""Decoders: numbers for codes, computed only from the public mechanism, at no privacy cost.

- `code_values`: values to train on.
- `posterior_means`: the best guess of the label behind each code, given the prior.
- `refined_means`: the same for each record, starting from a model's prediction for it.

Posterior means estimate single labels best and train models worst, because they carry the prior's bias. Refined means
correct much of that for a message of RR-on-Bins, but do not improve on the values of `auto`. See
docs/concepts/beyond-the-paper.md for figures.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.design.visibility import best_values, visible_bias_matrix
from labeldp.errors import InvalidInput, described
from labeldp.linear_algebra import least_squares, solve
from labeldp.losses import LOSSES
from labeldp.mechanisms.bias_variance import VISIBLE, weight_of_variance
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.label_cells import coarse_prior
from labeldp.mechanisms.registry import MECHANISMS
from labeldp.priors import Prior
from labeldp.sampling import WindowTable

DECODERS = ("auto", "bins", "debiased", "positive")
SOLVABLE = 2_000
"""The most symbols for which the debiasing equations of a general table are solved."""
FLOOR_SHARE = 0.01
"""The smallest value of the `positive` decoder, as a share of the prior mean."""

_TILTS = 129


def code_values(mechanism: FiniteMechanism, decoder: str = "auto") -> Floats:
    """Return a value for each of a mechanism's codes.

    Parameters
    ----------
    mechanism : FiniteMechanism
        The mechanism that randomized the labels.
    decoder : {"auto", "bins", "debiased", "positive"}
        - `auto`: the values to train on. These are the outputs of mechanisms that are designed for training, and the
          `debiased` values of RR-on-Bins for a loss that a mean minimises.
        - `bins`: the mechanism's own outputs. For RR-on-Bins they are best for the error of the labels and biased towards
          the middle.
        - `debiased`: values t with E[t | y] = the prior mean of y's bin, so that a model trained on t is not biased
          towards the middle. They reach outside the label range and may be negative.
        - `positive`: the debiased values, shrunk towards the prior mean m by one factor s ≤ 1 until all are positive: m
          + s·(t − m). For losses with a logarithm (Poisson, gamma). The overall mean is kept, and the differences
          between labels shrink by s.

    Returns
    -------
    array of float64
        One number per code; index it with codes.

    Raises
    ------
    InvalidInput
        If the decoder is unknown, or not available for the mechanism.

    Examples
    --------
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms import RROnBins, code_values
    >>> mechanism = RROnBins.optimal(Prior([0, 10, 100], [1, 1, 1]), epsilon=3)
    >>> code_values(mechanism).round(1)
    array([  0., 105.])
    >>> code_values(mechanism, "bins").round(1)
    array([ 7.3, 91.4])
    """
    if decoder == "auto":
        decoder = training_decoder(mechanism)
    if decoder == "bins":
        return mechanism.outputs
    if decoder == "debiased":
        return debiased_values(mechanism)
    if decoder == "positive":
        return positive_values(mechanism)
    raise InvalidInput(f"unknown target values {described(decoder)}; choose from {', '.join(DECODERS)}")


def training_decoder(mechanism: FiniteMechanism) -> str:
    """Return the decoder for `auto`: the registry's, but `debiased` only if a mean minimises the loss."""
    entry = MECHANISMS[mechanism.kind]
    loss = None if mechanism.loss is None else LOSSES.get(mechanism.loss)
    seeks_mean = mechanism.loss is None or (loss is not None and loss.seeks_mean)
    return "debiased" if entry.training_values == "debiased" and seeks_mean else "bins"


def learnable_values(mechanism: FiniteMechanism, functions: Callable[[Floats], Floats], records: int) -> Floats:
    """Return values for codes from which a model on `records` records learns a function of the label best.

    This works for any mechanism with a prior, also one designed for another purpose; see
    `labeldp.design.visibility.best_values`.

    Parameters
    ----------
    mechanism : FiniteMechanism
        The mechanism that randomized the labels.
    functions : callable
        Maps an array of labels to the function at each of them; several functions are several columns.
    records : int
        The number of private labels that the model is trained on.

    Returns
    -------
    array of float64
        A value for each code; a column for each function.

    Raises
    ------
    InvalidInput
        If the mechanism does not include a prior.

    Examples
    --------
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms import RROnBins
    >>> from labeldp.mechanisms.decoding import learnable_values
    >>> mechanism = RROnBins.optimal(Prior([0, 10, 100], [1, 1, 1]), epsilon=3)
    >>> learnable_values(mechanism, lambda labels: 1.0 * (labels > 50), records=10_000).round(2)
    array([-0.05,  1.05])
    """
    prior, _ = coarse_prior(prior_of(mechanism))
    masses = np.maximum(prior.masses, 1e-9)
    masses = masses / masses.sum()
    return best_values(
        mechanism.matrix(prior.values),
        visible_bias_matrix(masses, VISIBLE),
        masses,
        weight_of_variance(records),
        np.asarray(functions(prior.values)),
    )


def prior_of(mechanism: FiniteMechanism) -> Prior:
    """Return the mechanism's prior. Raise `InvalidInput` if it does not include one."""
    if mechanism.prior is None:
        raise InvalidInput(
            f"this needs the distribution of the labels, and the mechanism {mechanism.kind} carries no prior. Use "
            "squared loss, or release the labels with the mechanism auto"
        )
    return mechanism.prior


def debiased_values(mechanism: FiniteMechanism) -> Floats:
    """Return values t with Σ_j P[j | symbol] t_j = the prior mean of the labels behind that symbol.

    Randomized response and windows have a formula, `WindowTable.debiased`. For any other table the equations are
    solved, with the least variance if several solutions exist.
    """
    table = mechanism.table
    means = symbol_means(mechanism)
    if table.outputs == 1:
        return np.full(1, means[0])
    if isinstance(table, WindowTable):
        if table.inputs > 1 and table.weight(0, table.outputs - 1) == table.weight(table.inputs - 1, table.outputs - 1):
            raise InvalidInput(
                "this mechanism gives every output equally often, so nothing can be learned from it: release with a larger epsilon"
            )
        return table.debiased(means)
    return _solved(mechanism, means)


def positive_values(mechanism: FiniteMechanism) -> Floats:
    """Return the debiased values, shrunk towards the prior mean until the smallest is a hundredth of that mean."""
    values = debiased_values(mechanism)
    prior = mechanism.prior
    if prior is None or prior.values[0] < 0 or prior.mean <= 0:
        raise InvalidInput(
            "positive target values are for labels that are not negative, with a prior: use target values 'debiased' or 'auto'"
        )
    floor = max(FLOOR_SHARE * prior.mean, float(prior.values[0]) / 2)
    lowest = float(values.min())
    if lowest >= floor:
        return values
    return np.asarray(prior.mean + (prior.mean - floor) / (prior.mean - lowest) * (values - prior.mean))


def symbol_means(mechanism: FiniteMechanism) -> Floats:
    """Return the prior mean of the labels that share a symbol, or one of these labels if their mass is zero."""
    prior = mechanism.prior
    encoder = mechanism.encoder
    if prior is None:
        if encoder.symbols == mechanism.outputs.size:
            return mechanism.outputs
        raise InvalidInput(
            "debiased values need the mechanism's prior, and this mechanism carries none: use target values 'bins'"
        )
    size = max(encoder.symbols, mechanism.table.inputs)
    symbols = encoder.encode(prior.values)
    mass = np.bincount(symbols, prior.masses, minlength=size)
    moment = np.bincount(symbols, prior.masses * prior.values, minlength=size)
    fallback = mechanism.outputs
    if fallback.size != size:
        fallback = np.zeros(size)
        fallback[encoder.encode(encoder.representatives())] = encoder.representatives()
    return np.where(mass > 0, moment / np.where(mass > 0, mass, 1), fallback)


def _solved(mechanism: FiniteMechanism, means: Floats) -> Floats:
    if means.size > SOLVABLE:
        raise InvalidInput(
            f"debiased values of {mechanism.kind} are solved for at most {SOLVABLE:,} cells: use target values 'bins', or fewer cells"
        )
    matrix = mechanism.table.probabilities()
    weight = np.sqrt(matrix.mean(axis=0))
    values = least_squares(matrix / weight, means) / weight
    worst = float(np.abs(matrix @ values - means).max())
    if not worst <= 1e-6 * max(np.ptp(means), 1e-300):
        raise InvalidInput(
            f"{mechanism.kind} at ε = {mechanism.epsilon:.3g} cannot be debiased: no values have the right means "
            f"(they miss by {worst:.3g}). Use target values 'auto', or the mechanism rr-on-bins"
        )
    return np.asarray(values)


def posterior_means(mechanism: FiniteMechanism, prior: Prior | None = None) -> Floats:
    """Return E[label | code] for each code: the guess of least squared error for a single label.

    Parameters
    ----------
    mechanism : FiniteMechanism
        The mechanism that randomized the labels.
    prior : Prior, optional
        The distribution of the labels; the mechanism's own by default.

    Returns
    -------
    array of float64
        One guess per code.

    Examples
    --------
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms import RROnBins, posterior_means
    >>> posterior_means(RROnBins([0, 10], epsilon=1), Prior([0, 10], [1, 1])).round(2)
    array([2.69, 7.31])
    """
    known = mechanism.prior if prior is None else prior
    if known is None:
        raise InvalidInput("posterior means need a prior, and this mechanism carries none: give prior=…")
    joint = known.masses[:, None] * mechanism.matrix(known.values)
    means: Floats = (known.values @ joint) / joint.sum(axis=0)
    return means


def refined_means(
    mechanism: FiniteMechanism, codes: NDArray[np.uint32], predictions: Floats, prior: Prior | None = None
) -> Floats:
    """Return E[label | code, prediction] for each record, to train on once more: one step of the idea behind ALIBI.

    Before its code is seen, a record's label has the prior distribution, tilted so that its mean is the prediction.

    Parameters
    ----------
    mechanism : FiniteMechanism
        The mechanism that randomized the labels.
    codes : array of uint32
        The record's codes.
    predictions : array of float64
        The predictions of a first model, clipped into the range of the labels.
    prior : Prior, optional
        The distribution of the labels; the mechanism's own by default.

    Returns
    -------
    array of float64
        One guess per record.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms import RROnBins, refined_means
    >>> mechanism, prior = RROnBins([0, 10], epsilon=1), Prior([0, 10], [1, 1])
    >>> refined_means(mechanism, np.array([0, 0, 1]), np.array([1.0, 5.0, 9.0]), prior).round(1)
    array([0.4, 2.7, 9.6])
    """
    known = mechanism.prior if prior is None else prior
    if known is None:
        raise InvalidInput("refined means need a prior, and this mechanism carries none: give prior=…")
    held = known.masses > 0
    labels, masses = known.values[held], known.masses[held]
    if labels.size == 1:
        return np.full(codes.shape, labels[0])
    unit = (labels - known.mean) / np.sqrt(known.variance)
    # A family of tilts exp(θ·y), close enough together to interpolate between.
    angles = 12 * np.linspace(-1, 1, _TILTS) ** 3
    exponents = angles[:, None] * unit
    tilted = masses * np.exp(exponents - exponents.max(axis=1, keepdims=True))
    tilted /= tilted.sum(axis=1, keepdims=True)
    channel = mechanism.matrix(labels)
    means = (tilted * labels) @ channel / (tilted @ channel)
    place = np.interp(predictions, tilted @ labels, np.arange(_TILTS))
    low = np.minimum(place.astype(np.int64), _TILTS - 2)
    share = place - low
    refined: Floats = (1 - share) * means[low, codes] + share * means[low + 1, codes]
    return refined


def indicator_values(mechanism: FiniteMechanism) -> Floats:
    """Return, for each code of randomized classes, unbiased estimates of the class indicators: the inverse of P[code | class]."""
    channel = mechanism.matrix(mechanism.outputs)
    return solve(channel, np.eye(len(channel)))
