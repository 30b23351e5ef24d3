"""From a channel of floats to an exactly ε-DP integer table, with outputs recomputed for the integers."""

from dataclasses import dataclass
from fractions import Fraction
from operator import mul

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import Epsilon
from labeldp.channels.program import Channel
from labeldp.errors import InvalidInput
from labeldp.linear_algebra import least_squares
from labeldp.sampling import WeightTable

_LARGEST_BIAS = Fraction(1, 10**9)
"""The largest error of a mean that is accepted, as a share of the range of the labels."""


@dataclass(frozen=True, eq=False)
class IntegerChannel:
    """A channel in integers, exactly ε-DP, with its outputs.

    Parameters
    ----------
    table : WeightTable
        The integer weights, one row per anchor.
    outputs : array of float64
        The value of each output.
    worst_error : fractions.Fraction
        The largest difference between a mean and its target, exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.channels import Channel, integer_channel
    >>> channel = Channel(np.array([[0.7, 0.3], [0.3, 0.7]]), np.array([-0.75, 1.75]))
    >>> exact = integer_channel(channel, epsilon=1, masses=np.array([0.5, 0.5]), means=np.array([0.0, 1.0]))
    >>> float(exact.worst_error) < 1e-15
    True
    """

    table: WeightTable
    outputs: Floats
    worst_error: Fraction


def integer_channel(channel: Channel, epsilon: Epsilon, masses: Floats, means: Floats | None = None) -> IntegerChannel:
    """The channel rounded to integers, with outputs whose mean at anchor i is `means[i]` under the rounded probabilities.

    Rounding changes the probabilities a little, so the outputs are solved for again. Among all solutions it takes the one that
    changes the outputs least, in mean square under the prior.

    Parameters
    ----------
    channel : Channel
        The channel to round.
    epsilon : float, int, str, Decimal or Fraction
        The guarantee.
    masses : array of float64
        The probability of each anchor.
    means : array of float64, optional
        The mean that the output should have at each anchor. Left out, the outputs stay as they are.

    Returns
    -------
    IntegerChannel
        The table and its outputs.

    Raises
    ------
    InvalidInput
        If a mean misses its target by more than 1e-9 of their range, computed in rational arithmetic.
    PrivacyRefused
        If the channel is not ε-DP.

    Privacy
    -------
    The table is exactly ε-DP: `WeightTable.from_probabilities` proves it in rational arithmetic.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.channels import integer_channel, unbiased_channel
    >>> values, masses = np.array([0.0, 1.0, 5.0]), np.array([0.5, 0.3, 0.2])
    >>> exact = integer_channel(unbiased_channel(values, masses, 1.0), 1, masses, values)
    >>> (exact.table.probabilities() @ exact.outputs).round(9).tolist()
    [0.0, 1.0, 5.0]
    """
    table = WeightTable.from_probabilities(channel.probabilities, epsilon)
    outputs = channel.outputs.copy()
    if means is None:
        return IntegerChannel(table, outputs, Fraction(0))
    probabilities = table.probabilities()
    root = np.sqrt(np.maximum(masses @ probabilities, 1e-15))
    weights = table.weights()
    error = _errors(weights, outputs, means)
    for _ in range(4):
        missing = np.array([float(e) for e in error])
        step = least_squares(probabilities / root, missing, rcond=1e-14) / root
        better = outputs + step
        found = _errors(weights, better, means)
        if max(map(abs, found)) >= max(map(abs, error)):
            break
        outputs, error = better, found
    worst = max(map(abs, error))
    span = Fraction(float(means[-1])) - Fraction(float(means[0]))
    if worst > _LARGEST_BIAS * span:
        raise InvalidInput(
            f"no outputs make this table unbiased: an error of {float(worst):.3g} remains at epsilon = {epsilon}. "
            "Use fewer anchors or a larger epsilon."
        )
    return IntegerChannel(table, outputs, worst)


def _errors(weights: list[list[int]], outputs: Floats, means: Floats) -> list[Fraction]:
    """The targets minus the means of the outputs under the integer table, exactly."""
    # Every output is an integer over one common power of two, so a row takes integer products only.
    pairs = [float(value).as_integer_ratio() for value in outputs]
    denominator = max(d for _, d in pairs)
    scaled = [n * (denominator // d) for n, d in pairs]
    return [
        Fraction(float(mean)) - Fraction(sum(map(mul, row, scaled)), denominator << 64)
        for mean, row in zip(means, weights, strict=True)
    ]
