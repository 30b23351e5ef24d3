"""`PrivateSums`: noisy sums of labels as they are released, with their proof."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, as_numpy
from labeldp.budget import MAX_EPSILON, Epsilon, exact_epsilon, float_up, format_amount, parse_amount
from labeldp.central.answer import LARGEST_SUM, Answer, parts_of
from labeldp.central.held_labels import are_several
from labeldp.central.sum_source import SumSource
from labeldp.central.sums_card import card_text
from labeldp.central.sums_json import (
    answer_from_record,
    answer_to_record,
    domain_from_record,
    expect_fields,
    integer_from_text,
)
from labeldp.central.sums_proof import SumsProof
from labeldp.domain import Domain, OutOfRange
from labeldp.errors import InvalidInput, described
from labeldp.formatting import ReprMixin, count_of
from labeldp.json_text import parse_json
from labeldp.release.ledger import Ledger
from labeldp.sampling.integer_noise import WIDEST, check_cube

FORMAT = "labeldp private sums"
FORMAT_VERSION = 1
MOST_ANSWERS = 2000
"""The most answers that are read from a file: adding up so many fractions takes a second."""
_FIELDS = {"format", "format_version", "epsilon", "domain", "records", "answers"}


@dataclass(frozen=True, eq=False, repr=False)
class PrivateSums(ReprMixin):
    """Noisy sums of labels over groups of records that features define, with the exact ε that they cost. Holds no label.

    One sum over a group moves by at most the label's range when one label is replaced, however large the group is. So sums tell
    more about a model than labels that are randomized one by one, at the same ε. `over_cells` and `against_signs` make such
    sums from labels; `SumQueries` answers several questions within one budget.

    Attributes
    ----------
    domain : Domain
        The bounds of the labels and the grid on which they were summed.
    records : int
        How many labels there are, which is public.
    answers : tuple of Answer
        The noisy numbers, in the order in which they were asked for.
    epsilon_exact : Fraction
        What all answers may cost together, and what a ledger was charged.

    Raises
    ------
    PrivacyRefused
        If the answers cost more than is claimed.

    Privacy
    -------
    ε-DP for replacing one label by another valid one. The features, which group a record belongs to, and which records exist are
    not protected. `proof` adds up the costs as fractions, and `card` says all this in plain words.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import PrivateSums
    >>> generator = np.random.default_rng(0)
    >>> region = generator.integers(0, 3, 30_000)  # public
    >>> amounts = np.clip(generator.normal(100 + 50 * region, 40), 0, 400)  # sensitive
    >>> sums = PrivateSums.over_cells(amounts, region, epsilon=1, domain=(0, 400))
    >>> sums.means().round(-1).tolist()
    [100.0, 150.0, 200.0]
    >>> sums
    PrivateSums(records=30,000, epsilon=1, answers=cells of 3)
    """

    domain: Domain
    records: int
    answers: tuple[Answer, ...]
    epsilon_exact: Fraction

    def __post_init__(self) -> None:
        exact_epsilon(self.epsilon_exact)
        if type(self.records) is not int or not 2 <= self.records * self.domain.count < LARGEST_SUM or self.records < 2:
            raise InvalidInput(
                f"the number of records must be a whole number of at least 2, got {described(self.records)}"
            )
        for answer in self.answers:
            _check_answer(answer, self.domain, self.records)
        self.proof().require()

    @classmethod
    def over_cells(
        cls,
        labels: Any,
        cells: Any,
        epsilon: Epsilon,
        domain: Domain | tuple[float, float],
        *,
        clip: tuple[float, float] | None = None,
        out_of_range: OutOfRange = "clip",
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> PrivateSums:
        """Noisy sums of the labels over the cells of a public partition.

        Parameters
        ----------
        labels : array-like
            The true labels, at least two.
        cells : array of int, or several
            The cell of each record: numbers from 0 to the number of cells less one. Several partitions are a list of such arrays and
            share ε.
        epsilon : float, str, Decimal or Fraction
            What the sums cost.
        domain : Domain or (lower, upper)
            The public bounds of the labels, never read off them.
        clip : tuple of (float, float), optional
            Clip labels to this narrower range first, for less noise. It must be public too.
        out_of_range : {"clip", "clip-all", "error"}, default "clip"
            What happens to labels outside the bounds.
        ledger : Ledger, optional
            Charge ε to `dataset` in this ledger before anything is drawn.
        dataset : str, optional
            The dataset in `ledger` to charge.

        Returns
        -------
        PrivateSums
            With one answer.

        Raises
        ------
        InvalidInput
            If labels or cell numbers are refused, or a setting cannot work. Nothing is charged then.
        InsufficientBudget
            If the ledger has less than ε left.

        Privacy
        -------
        Costs ε. Each sum gets integer Laplace noise of scale m·R/ε, with R the width of the clip and m the number of partitions.
        Cell numbers must not depend on labels.

        Examples
        --------
        >>> from labeldp import Domain, PrivateSums
        >>> sums = PrivateSums.over_cells([5, 7, 8], [0, 1, 1], epsilon=20, domain=Domain.integers(0, 9))
        >>> sums.answers[0].counts.tolist()
        [1, 2]
        """
        source = SumSource(labels, epsilon, domain, out_of_range=out_of_range, ledger=ledger, dataset=dataset)
        return cls._of(source, clip, lambda: source.over_cells(cells, _cells_in(cells), source.remaining))

    @classmethod
    def against_signs(
        cls,
        labels: Any,
        signs: Any,
        epsilon: Epsilon,
        domain: Domain | tuple[float, float],
        *,
        clip: tuple[float, float] | None = None,
        out_of_range: OutOfRange = "clip",
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> PrivateSums:
        """Noisy sums of sign × label for several public columns of signs, with a sixth of the variance of Laplace noise.

        Parameters
        ----------
        labels : array-like
            The true labels, at least two.
        signs : array of int8 of shape (records, columns)
            +1 or −1 for each record and column, made from features.
        epsilon : float, str, Decimal or Fraction
            What the sums cost, all columns together.
        domain : Domain or (lower, upper)
            The public bounds of the labels, never read off them.
        clip : tuple of (float, float), optional
            Clip labels to this narrower range first, for less noise. It must be public too.
        out_of_range : {"clip", "clip-all", "error"}, default "clip"
            What happens to labels outside the bounds.
        ledger : Ledger, optional
            Charge ε to `dataset` in this ledger before anything is drawn.
        dataset : str, optional
            The dataset in `ledger` to charge.

        Returns
        -------
        PrivateSums
            With one answer.

        Raises
        ------
        InvalidInput
            If labels or signs are refused, or a setting cannot work. Nothing is charged then.
        InsufficientBudget
            If the ledger has less than ε left.

        Privacy
        -------
        Costs ε. All sums together get cube noise of scale R/ε, with R the width of the clip. Signs must not depend on labels.

        Examples
        --------
        >>> import numpy as np
        >>> from labeldp import PrivateSums
        >>> signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], np.int8)
        >>> sums = PrivateSums.against_signs([1, 2, 3, 4], signs, epsilon=1, domain=(0, 5))
        >>> sums.answers[0].sums.shape
        (2,)
        """
        source = SumSource(labels, epsilon, domain, out_of_range=out_of_range, ledger=ledger, dataset=dataset)
        return cls._of(source, clip, lambda: source.against_signs(signs, source.remaining))

    @classmethod
    def _of(cls, source: SumSource, clip: tuple[float, float] | None, ask: Callable[[], Answer]) -> PrivateSums:
        if clip is not None:
            source.clip(*clip_units(clip, source.domain))
        ask()
        return cls(source.domain, source.records, source.answers, source.epsilon_exact)

    @property
    def epsilon(self) -> float:
        """`epsilon_exact`, rounded up."""
        return float_up(self.epsilon_exact)

    @property
    def spent(self) -> Fraction:
        """What the answers cost together, at most `epsilon_exact`."""
        return self.proof().total

    def means(self) -> Floats:
        """The noisy mean label of each cell.

        Returns
        -------
        array of float64
            Not biased by the noise, so it may lie outside the bounds. NaN for a cell without records.

        Raises
        ------
        InvalidInput
            Unless exactly one answer is over cells; `answers[i].means()` is for one of several.
        """
        over_cells = [answer for answer in self.answers if answer.kind == "cells"]
        if len(over_cells) != 1:
            raise InvalidInput(
                f"{count_of(len(over_cells), 'answer')} of these sums are over cells: means() needs exactly one. Use answers[i].means()"
            )
        return over_cells[0].means()

    def proof(self) -> SumsProof:
        """What each answer costs as an exact fraction, and whether the total is within ε.

        Returns
        -------
        SumsProof
        """
        return SumsProof.of(self.answers, self.epsilon_exact)

    def card(self) -> str:
        """The guarantee in plain words, for whoever gets the sums.

        Returns
        -------
        str
            Markdown.
        """
        return card_text(self.domain, self.records, self.answers, self.proof())

    def to_json(self) -> str:
        """The complete public release: all answers and what is public about them.

        Returns
        -------
        str
            JSON, with integers as strings.
        """
        record = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "epsilon": format_amount(self.epsilon_exact),
            "domain": self.domain.to_json(),
            "records": str(self.records),
            "answers": [answer_to_record(answer) for answer in self.answers],
        }
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> PrivateSums:
        """What `to_json` wrote. The proof is done again.

        Parameters
        ----------
        text : str or bytes
            The JSON text.

        Returns
        -------
        PrivateSums

        Raises
        ------
        InvalidInput
            If the text is damaged or contradicts itself, has an unknown field, or comes from another version.
        PrivacyRefused
            If the answers cost more than is claimed.
        """
        record = parse_json(text, "the private sums")
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise InvalidInput(f"this JSON does not hold private sums (its format is not {FORMAT!r})")
        if type(record.get("format_version")) is not int or record["format_version"] != FORMAT_VERSION:
            raise InvalidInput(
                f"the private sums have another format version than {FORMAT_VERSION}, which this labeldp reads: install the version "
                "that wrote them, or a newer one"
            )
        expect_fields(record, _FIELDS, "the private sums")
        domain = domain_from_record(record["domain"])
        answers = record["answers"]
        if not isinstance(answers, list) or len(answers) > MOST_ANSWERS:
            raise InvalidInput(f"the answers of private sums must be a list of at most {MOST_ANSWERS:,}")
        made = tuple(answer_from_record(one, domain) for one in answers)
        return cls(domain, integer_from_text(record["records"], "records"), made, parse_amount(record["epsilon"]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrivateSums):
            return NotImplemented
        return self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def _facts(self) -> dict[str, str]:
        answers = ", ".join(f"{answer.kind} of {answer.values.size:,}" for answer in self.answers[:4])
        more = f" and {len(self.answers) - 4} more" if len(self.answers) > 4 else ""
        return {"records": f"{self.records:,}", "epsilon": f"{self.epsilon:g}", "answers": f"{answers or 'none'}{more}"}


def _check_answer(answer: Answer, domain: Domain, records: int) -> None:
    """Refuse an answer that cannot be about so many labels on this grid."""
    if answer.domain != domain or answer.domain.whole != domain.whole:
        raise InvalidInput("an answer has another domain than the other private sums")
    ends = np.cumsum(answer.sizes)[:-1]
    if answer.kind == "cells" and any(
        part.min() < 0 or sum(part.tolist()) != records for part in np.split(answer.counts, ends)
    ):
        raise InvalidInput(f"the records in the cells of an answer do not add up to {records:,}")
    if answer.kind == "signs" and ((abs(answer.counts) > records) | ((answer.counts - records) % 2 != 0)).any():
        raise InvalidInput(f"the signs of an answer cannot add up to this for {records:,} records")
    if (abs(answer.values) > LARGEST_SUM).any():
        raise InvalidInput("a number of an answer is larger than 2^61")
    if answer.scale:
        _check_scale(answer)
    elif (answer.values != _without_noise(answer, records)).any():
        raise InvalidInput(
            "an answer without noise is about labels that are all alike, and its numbers are not those of such labels"
        )


def _check_scale(answer: Answer) -> None:
    """Raise `InvalidInput` for noise that no sampler draws: such an answer was not made by `SumQueries`."""
    if answer.scale > WIDEST:
        raise InvalidInput("the scale of an answer is too large for noise of 64-bit integers: ask for the sums again")
    if answer.sensitivity > MAX_EPSILON * Fraction(answer.scale):
        raise InvalidInput(
            f"the scale of an answer is so small that it costs more than epsilon = {MAX_EPSILON}: ask for the sums again"
        )
    if answer.kind == "signs":
        check_cube(answer.values.size, answer.scale)


def _without_noise(answer: Answer, records: int) -> NDArray[np.int64]:
    """The only numbers that an answer without noise can have, because one label changes nothing there."""
    exact = np.zeros(answer.values.size, np.int64)
    if answer.kind == "histogram":
        exact[parts_of(np.array(answer.clip), answer.sizes[0], answer.domain.count)[0]] = records
    return exact


def _cells_in(codes: Any) -> Any:
    """How many cells each partition has: the largest cell number and one. They are public, as the partition is."""
    if are_several(codes):
        return [_cells_in(one) for one in codes]
    numbers = as_numpy(codes, "cells")
    return int(numbers.max()) + 1 if numbers.size and numbers.dtype.kind in "iu" else 1


def clip_units(clip: Any, domain: Domain) -> tuple[int, int]:
    """The ends of a clip in label values as grid units."""
    try:
        lower, upper = (float(end) for end in clip)
    except (TypeError, ValueError):
        raise InvalidInput(f"clip must be a (lower, upper) pair of label values, got {described(clip)}") from None
    if not domain.lower <= lower <= upper <= domain.upper:
        raise InvalidInput(
            f"clip must lie in order within the bounds {domain.lower:g} to {domain.upper:g}, got {lower:g} to {upper:g}"
        )
    first, last = domain.cell([lower, upper])
    return int(first), int(last)
