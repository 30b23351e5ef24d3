"""The meaning of ε: what someone who knows everything else can learn about one label.

`meaning` states the bounds for a reader who knows all other records, and for any other reader. The m rows of one person together
count as m·ε.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from labeldp.budget import exact_epsilon
from labeldp.errors import InvalidInput, described, is_number, is_whole
from labeldp.formatting import ReprMixin, count_of, percent, plain

ALMOST_SURE = 0.95
"""The advantage above which little is protected."""
KNOWS_OTHERS, ANY_READER = 1, 2
"""Multiples of ε in the exponent of the largest change of odds, for a reader who knows all other records and for any reader.

Let t be the message, D the labels, and D' the same labels with one replaced by a fixed value. The odds of a claim given t and the
odds given that t was made from D' differ by (Σ_A P[t | D]p(D) / Σ_A P[t | D']p(D)) / (the same over not A). Each fraction lies between
e^-ε and e^ε, hence 2ε. A reader who knows all other records has one P[t | D'] for all D, which cancels, hence ε.
"""


def meaning() -> str:
    """Return the meaning of ε for beliefs about one label, in the wording of the documentation.

    Examples
    --------
    >>> from labeldp.evaluate.risk import meaning
    >>> print(meaning().partition(". ")[0])
    For a reader who knows all other records, the message changes the odds of any claim about your label by a factor of at most e^ε
    """
    return (
        "For a reader who knows all other records, the message changes the odds of any claim about your label by a factor of at most "
        f"{_power(KNOWS_OTHERS)}. For other readers, compare what they believe after reading the message with what they would believe if they "
        "knew that your label had been replaced by a fixed value before the message was made. The odds under the two beliefs differ by a factor of at most "
        f"{_power(ANY_READER)}. ε does not limit what the other records teach about people like you."
    )


def _power(multiple: int) -> str:
    return "e^ε" if multiple == 1 else f"e^({multiple}ε)"


@dataclass(frozen=True, repr=False)
class Risk(ReprMixin):
    """What an ε lets someone who knows everything but one label learn about it, in the worst case.

    Attributes
    ----------
    epsilon : float
        The ε of one label.
    rows : int
        The number of labels of one person.

    Raises
    ------
    InvalidInput
        If ε is not in (0, 40], or rows is not a whole number from 1 on.

    Privacy
    -------
    Bounds for an attacker who knows all features and all other records. `meaning` has the bound for other readers. What the other records
    teach about people like this one is not limited (docs/guides/audits.md#what-an-attacker-can-do). Measured attacks achieve less
    (docs/research/measurements.md).

    Examples
    --------
    >>> from labeldp.evaluate import Risk
    >>> risk = Risk(epsilon=1)
    >>> print(risk.sentence("more than 200"))
    Someone who knows all other records and considers "more than 200" 50 % likely will consider it at most 73 % likely after reading the message, and at least 27 %.
    >>> round(risk.odds_factor, 2), round(risk.advantage, 2)
    (2.72, 0.46)
    >>> round(Risk(epsilon=1, rows=3).odds_factor, 1)
    20.1
    """

    epsilon: float
    rows: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", float(exact_epsilon(self.epsilon)))
        if not is_whole(self.rows, 1):
            raise InvalidInput(f"rows per person must be a whole number from 1 on, got {described(self.rows)}")

    @property
    def total(self) -> float:
        """The ε of one person: that of a label, times the number of rows."""
        return self.epsilon * self.rows

    @property
    def odds_factor(self) -> float:
        """The largest factor by which the odds of a claim about this person can change for someone who knows all others; infinite on overflow."""
        try:
            return math.exp(KNOWS_OTHERS * self.total)
        except OverflowError:
            return math.inf

    @property
    def advantage(self) -> float:
        """How far an attacker can be above guessing between two equally likely values: right minus wrong answers, as a share."""
        return math.tanh(self.total / 2)

    @property
    def protects(self) -> bool:
        """Whether an attacker stays clearly below certainty: an advantage of less than 0.95."""
        return self.advantage < ALMOST_SURE

    def most(self, belief: float) -> float:
        """Return the largest possible belief after the release.

        Parameters
        ----------
        belief : float
            The probability given to a statement before the release, from 0 to 1.

        Returns
        -------
        float
        """
        _check(belief)
        return belief / (belief + (1 - belief) * math.exp(-self.total)) if belief else 0.0

    def least(self, belief: float) -> float:
        """Return the smallest possible belief after the release.

        Parameters
        ----------
        belief : float
            The probability given to a statement before the release, from 0 to 1.

        Returns
        -------
        float
        """
        _check(belief)
        small = belief * math.exp(-self.total)
        return small / (small + 1 - belief) if belief < 1 else 1.0

    def sentence(self, statement: str, belief: float = 0.5) -> str:
        """Return the risk as a sentence.

        Parameters
        ----------
        statement : str
            What someone wants to know about a label, such as "more than 200".
        belief : float
            The probability given to it before.

        Returns
        -------
        str
        """
        return (
            f'Someone who knows all other records and considers "{statement}" {percent(belief)} likely will consider it at most '
            f"{percent(self.most(belief))} likely after reading the message, and at least {percent(self.least(belief))}."
        )

    def words(self, statement: str) -> list[str]:
        """Return the risk in a few sentences.

        Parameters
        ----------
        statement : str
            What someone wants to know about a label.

        Returns
        -------
        list of str
            One line each. The first states for whom the others hold.
        """
        hidden = "this label" if self.rows == 1 else "this person's labels"
        whose = "one label" if self.rows == 1 else f"the {count_of(self.rows, 'row')} of one person together"
        strong = "" if self.protects else " That is hardly any protection."
        right = percent((1 + self.advantage) / 2)
        return [
            f"For someone who knows everything but {hidden}:",
            self.sentence(statement),
            f"The odds of any claim about {whose} change at most {odds(self.odds_factor)} times.",
            f"An attacker who guesses between two equally likely values is right in at most {right} of the cases.{strong}",
        ]

    def _facts(self) -> dict[str, str]:
        return {
            "epsilon": f"{self.epsilon:g}",
            "rows": f"{self.rows:,}",
            "odds_factor": plain(self.odds_factor, 3),
            "advantage": f"{self.advantage:.3g}",
        }


def odds(factor: float) -> str:
    """Return a factor of odds as text, with words for very large numbers."""
    if factor < 1e6:
        return plain(factor, 3)
    return f"10^{math.log10(factor):.0f}" if math.isfinite(factor) else "endlessly many"


def _check(belief: float) -> None:
    if not is_number(belief, 0, 1):
        raise InvalidInput(f"a belief is a probability from 0 to 1, got {described(belief)}")
