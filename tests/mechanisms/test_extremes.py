"""Every mechanism at the ends of what ε and a domain may be: it proves its guarantee or refuses, and does nothing else."""

from __future__ import annotations

import pytest

from labeldp.domain import Domain
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.losses import LOSSES
from labeldp.mechanisms import FiniteMechanism, Mechanism
from labeldp.mechanisms.registry import MECHANISMS, Request
from labeldp.priors import Prior

DOMAINS = [
    Domain(0, 10, cells=11),
    Domain(1, 10, cells=2),
    Domain(0, 1e100, cells=11),
    Domain(1e-100, 1e100, cells=11),
    Domain(-1e99, 7e99, cells=5),
    Domain(0, 1e-99, cells=7),
    Domain(1e-100, 3e-100, cells=7),
    Domain(1e-100, 1, cells=5),
]
EPSILONS = ["1e-9", "1.5e-9", "1e-5", "40"]
LOSS_NAMES = [
    *(entry.example for entry in LOSSES),
    *("huber(1e-100)", "huber(1e100)", "pinball(1e-300)", "pinball(0.9999999999999999)"),
]


def works_or_refuses(name, domain, epsilon, loss):
    """Make, draw, write and read the mechanism. Warnings are errors in these tests, as is any other exception."""
    try:
        mechanism = MECHANISMS[name].make(Request(domain, epsilon, loss, Prior.uniform(domain), 10_000))
        drawn = mechanism.randomize([domain.lower, domain.upper])
        read = Mechanism.from_json(mechanism.to_json())
    except LabelDPError:
        return False
    assert drawn.size == 2
    assert read == mechanism
    if isinstance(mechanism, FiniteMechanism):
        assert mechanism.proof().holds
    return True


@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("name", MECHANISMS.names)
def test_extremes_work_or_are_refused(name, loss, thorough):
    for domain in DOMAINS if thorough else DOMAINS[1::2]:
        for epsilon in EPSILONS if thorough else ("1e-9", "40"):
            works_or_refuses(name, domain, epsilon, loss)


@pytest.mark.parametrize("name", MECHANISMS.names)
@pytest.mark.parametrize("epsilon", ["1e-5", "40"])
def test_an_ordinary_domain_works_at_small_and_large_epsilon(name, epsilon):
    assert works_or_refuses(name, Domain(0, 10, cells=11), epsilon, "squared")


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "loss"), [("1e-9", "squared"), ("40", "absolute")])
@pytest.mark.parametrize("name", [entry.name for entry in MECHANISMS if entry.exact])  # the others have no cells
def test_a_million_cells_work_or_are_refused(name, epsilon, loss):
    works_or_refuses(name, Domain(0, 1, cells=1_000_000), epsilon, loss)


@pytest.mark.parametrize("epsilon", ["1e-50", 9.9e-10])
@pytest.mark.parametrize("name", MECHANISMS.names)
def test_an_epsilon_that_says_nothing_is_refused(name, epsilon):
    domain = DOMAINS[0]
    with pytest.raises(InvalidInput, match="at least 1e-09"):
        MECHANISMS[name].make(Request(domain, epsilon, "squared", Prior.uniform(domain), 10_000))
