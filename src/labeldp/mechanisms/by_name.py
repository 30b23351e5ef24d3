"""Mechanisms by name: which may be released, and how one is made."""

from labeldp.budget import exact_epsilon
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.mechanisms.catalogue import MECHANISMS, Entry, Request
from labeldp.mechanisms.finite import FiniteMechanism

AUTO = "auto"
"""The name of the rule that chooses a mechanism for training a model (`labeldp.mechanisms.auto`)."""


def releasable(name: str) -> Entry:
    """The catalogue's entry of a mechanism that may be released.

    Raises
    ------
    InvalidInput
        If there is no such mechanism.
    PrivacyRefused
        If it is a float mechanism, which is for comparison only.
    """
    entry, choices = MECHANISMS.get(name), [entry for entry in MECHANISMS if entry.exact]
    if entry is None:
        raise MECHANISMS.unknown(name, choices)
    if not entry.exact:
        raise PrivacyRefused(
            f"the {name} mechanism draws floats, whose low bits leak the label, so it is for comparison only. "
            f"Choose one of {', '.join(choice.name for choice in choices)}."
        )
    return entry


def design(name: str, request: Request) -> FiniteMechanism:
    """The exact mechanism of that name, made for the request."""
    entry = releasable(name)
    if entry.needs_prior and request.prior is None:
        raise InvalidInput(f"{name} is designed for a prior: give one (prior=…, on the command line --prior FILE)")
    made = entry.make(request)
    if not isinstance(made, FiniteMechanism) or made.epsilon_exact > exact_epsilon(request.epsilon):
        raise PrivacyRefused(f"{name} did not make an exact mechanism of at most epsilon = {request.epsilon}")
    return made
