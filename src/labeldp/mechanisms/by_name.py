"""Mechanisms by name: which may be released, and how one is made."""

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
    entry = MECHANISMS[name]
    if not entry.exact:
        choices = ", ".join(other.name for other in MECHANISMS if other.exact)
        raise PrivacyRefused(
            f"the {name} mechanism draws floats, whose low bits leak the label, so it is for comparison only. "
            f"Choose one of {choices}."
        )
    return entry


def design(name: str, request: Request) -> FiniteMechanism:
    """The exact mechanism of that name, made for the request."""
    entry = releasable(name)
    if entry.needs_prior and request.prior is None:
        raise InvalidInput(f"{name} needs a prior")
    made: FiniteMechanism = entry.make(request)
    return made
