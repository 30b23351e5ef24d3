"""What the mechanism of a release may cost."""

from fractions import Fraction

from labeldp.budget import decimal_text
from labeldp.errors import PrivacyRefused
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.description import total_epsilon


def check_charge(mechanism: FiniteMechanism, charged: Fraction) -> None:
    """Refuses a mechanism that costs more, its prior and its labels together, than was charged for it."""
    cost = total_epsilon(mechanism)
    if cost > charged:
        raise PrivacyRefused(
            f"the mechanism costs ε = {decimal_text(cost)} with its prior, but only ε = {decimal_text(charged)} was charged for "
            "this release. Nothing may be randomized with it: charge a release of its cost"
        )
