"""Numbers for the codes whose means are the label and its square."""

from __future__ import annotations

import pytest
from private_populations import DOMAIN, MECHANISMS, PRIOR, VALUES

from labeldp.errors import InvalidInput
from labeldp.evaluate.constraints import moment_values
from labeldp.mechanisms import RROnBins, Unbiased


@pytest.mark.parametrize("origin", [0, 7])
def test_the_moments_of_an_unbiased_mechanism_are_exact_at_every_anchor(origin):
    mechanism = Unbiased.optimal(PRIOR, 2, domain=DOMAIN, anchors=21)
    moments = moment_values(mechanism, 1000, origin=origin)
    channel = mechanism.matrix(VALUES)
    assert channel @ moments.label == pytest.approx(VALUES - origin, abs=1e-8)
    assert channel @ moments.square == pytest.approx((VALUES - origin) ** 2, abs=1e-4)


@pytest.mark.parametrize("kind", ["bins", "auto"])
def test_where_no_numbers_are_right_for_every_label_they_are_right_on_average(kind):
    mechanism = MECHANISMS[kind]
    moments = moment_values(mechanism, 1000)
    masses = 0.99 * PRIOR.masses + 0.01 / VALUES.size
    average = masses @ mechanism.matrix(VALUES)
    assert average @ moments.label == pytest.approx(masses @ VALUES)
    assert average @ moments.square == pytest.approx(masses @ VALUES**2)


def test_more_records_trade_variance_for_less_bias():
    mechanism = MECHANISMS["auto"]
    channel = mechanism.matrix(VALUES)
    few, many = (moment_values(mechanism, records, visible=1.0).square for records in (10, 10**6))

    def bias_and_variance(values):
        mean = channel @ values
        return PRIOR.masses @ (mean - VALUES**2) ** 2, PRIOR.masses @ (channel @ values**2 - mean**2)

    assert bias_and_variance(many)[0] < bias_and_variance(few)[0]
    assert bias_and_variance(many)[1] > bias_and_variance(few)[1]


def test_a_mechanism_without_a_prior_is_refused():
    with pytest.raises(InvalidInput, match="prior"):
        moment_values(RROnBins([1.0, 4.0], 1), 10)
