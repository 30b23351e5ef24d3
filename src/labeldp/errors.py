"""Every error that labeldp raises on purpose. The command line turns `exit_code` into its exit status."""

from __future__ import annotations

from fractions import Fraction


class LabelDPError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 1


class InvalidInput(LabelDPError, ValueError):  # noqa: N818 - reads as what it is
    """Something given by the user is wrong: the text says what, where, and what to do."""

    exit_code = 2


class MissingExtra(InvalidInput):
    """A package is not installed that an extra of labeldp brings: the text says how to install it."""


class PrivacyRefused(InvalidInput):
    """The guarantee asked for cannot be proven, so nothing is released."""


class InsufficientBudget(LabelDPError):  # noqa: N818
    """The ledger holds less budget than a release asks for."""

    exit_code = 3

    def __init__(self, dataset: str, requested: Fraction, remaining: Fraction) -> None:
        self.dataset = dataset
        self.requested = requested
        self.remaining = remaining
        super().__init__(
            f"dataset {dataset!r} has ε = {_amount(remaining)} left, this release asks for ε = {_amount(requested)}. "
            "Nothing was released. Ask for a smaller epsilon, or agree on a larger budget with the data's owner."
        )

    def __reduce__(self) -> tuple[type[InsufficientBudget], tuple[str, Fraction, Fraction]]:
        return type(self), (self.dataset, self.requested, self.remaining)  # survives multiprocessing


def _amount(value: Fraction) -> str:
    """Short where short says it all, exact where two close amounts must not look the same."""
    short = f"{float(value):.6g}"
    return short if Fraction(short) == value else f"{float(value):.17g}"
