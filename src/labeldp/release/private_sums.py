"""`PrivateSums`: released noisy sums of labels, with their proof, their card and their JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, as_numpy
from labeldp.artifact.card import Card
from labeldp.budget import MAX_EPSILON, Epsilon, exact_epsilon, rounded_up, shown_amount
from labeldp.domain import Domain, OutOfRange
from labeldp.errors import InvalidInput, PrivacyRefused, described
from labeldp.formatting import ReprMixin, count_of
from labeldp.json_text import Stored
from labeldp.release.grid_labels import (
    ExactPass,
    HeldLabels,
    SumsBudget,
    are_several,
    checked_partitions,
    checked_signs,
    draw_answer,
)
from labeldp.release.ledger import Ledger
from labeldp.release.noisy_sums import LARGEST_SUM, SCORES, Answer, NoisyNumbers, Weighting, parts_of, total_cost
from labeldp.sampling.integer_noise import WIDEST, check_cube

MOST_ANSWERS = 2000
"""The most answers: adding up this many fractions takes a second."""
_WORDS = {
    "histogram": "histogram",
    "cells": "sums over cells",
    "signs": "sums against signs",
    "numbers": "sums by group",
    "histograms": "histograms by group",
    "hits": "counts of one of two classes",
}


@dataclass(frozen=True)
class ProofLine:
    """What one answer costs: the most that one label changes, over the scale of the noise.

    Attributes
    ----------
    kind : str
        The kind of the answer.
    numbers : int
        How many numbers it has.
    sensitivity : int
        The most by which one label changes its exact numbers.
    scale : float
        The scale of its noise; 0.0 without noise.
    epsilon : Fraction
        `sensitivity` over the exact value of `scale`.
    place : int or None
        The index of the class that it is about, if it is about one.
    """

    kind: str
    numbers: int
    sensitivity: int
    scale: float
    epsilon: Fraction
    place: int | None = None

    def __str__(self) -> str:
        words = _WORDS[self.kind] if self.place is None else f"{_WORDS[self.kind]}, class {self.place + 1}"
        return (
            f"{words} ({count_of(self.numbers, 'number')}): sensitivity {self.sensitivity} / scale {self.scale!r} = epsilon "
            f"{shown_amount(self.epsilon)}"
        )


@dataclass(frozen=True)
class SumsProof:
    """The costs of all answers as exact fractions, against the ε that is claimed for them together.

    Attributes
    ----------
    epsilon_claimed : Fraction
        The ε that is claimed.
    lines : tuple of ProofLine
        One for each answer.

    Examples
    --------
    >>> from labeldp import PrivateSums
    >>> sums = PrivateSums.over_cells([30, 40, 90], [0, 0, 1], epsilon=1, domain=(0, 100))
    >>> print(sums.proof())
    proven: claimed epsilon = 1, the answers cost 1
      sums over cells (2 numbers): sensitivity 1048576 / scale 1048576.0 = epsilon 1
    """

    epsilon_claimed: Fraction
    lines: tuple[ProofLine, ...]

    @classmethod
    def of(cls, answers: Sequence[NoisyNumbers], claimed: Fraction) -> SumsProof:
        """The proof for these answers.

        Parameters
        ----------
        answers : sequence of Answer or of GroupSums
            The answers; each computes its sensitivity from its kind and its public fields.
        claimed : Fraction
            The ε that is claimed for all of them.

        Returns
        -------
        SumsProof
        """
        return cls(
            claimed,
            tuple(ProofLine(a.kind, a.values.size, a.sensitivity, a.scale, a.epsilon_exact, a.place) for a in answers),
        )

    @property
    def total(self) -> Fraction:
        """What all answers cost together: of those about single classes, the ones about the two most expensive classes count."""
        return total_cost((line.place, line.epsilon) for line in self.lines)

    @property
    def holds(self) -> bool:
        """Whether the total is at most what is claimed."""
        return self.total <= self.epsilon_claimed

    def require(self) -> SumsProof:
        """Insist that the proof holds.

        Returns
        -------
        SumsProof
            This one.

        Raises
        ------
        PrivacyRefused
            If it does not hold.
        """
        if not self.holds:
            raise PrivacyRefused(
                f"these sums are not {shown_amount(self.epsilon_claimed)}-DP: their answers cost epsilon = {shown_amount(self.total)} together. Do not use them, and ask for the sums again"
            )
        return self

    def __str__(self) -> str:
        verdict = "proven" if self.holds else "NOT private"
        first = f"{verdict}: claimed epsilon = {shown_amount(self.epsilon_claimed)}, the answers cost {shown_amount(self.total)}"
        if any(line.place is not None for line in self.lines):
            first += ", since a replaced label changes those about two classes"
        return "\n  ".join([first, *map(str, self.lines)])


@dataclass(frozen=True, eq=False, repr=False)
class PrivateSums(Stored, ReprMixin):
    """Noisy sums of labels over groups of records that features define, with the exact ε that they cost. Contains no label.

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
        The noisy numbers, in the order of the questions.
    epsilon_exact : Fraction
        What all answers may cost together, and what a ledger was charged.
    weighting : Weighting or None
        The number of persons and their weights, if ε is for all labels of a person.

    Raises
    ------
    PrivacyRefused
        If the answers cost more than is claimed.

    Privacy
    -------
    ε-DP for replacing one label by another valid one, or all labels of one person. The features, which group a record belongs to, and which records exist are
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

    format = "labeldp private sums"
    noun = "private sums"

    domain: Domain
    records: int
    answers: tuple[Answer, ...]
    epsilon_exact: Fraction
    weighting: Weighting | None = None

    def __post_init__(self) -> None:
        exact_epsilon(self.epsilon_exact)
        if len(self.answers) > MOST_ANSWERS:
            raise InvalidInput(f"private sums have at most {MOST_ANSWERS:,} answers")
        if type(self.records) is not int or not 2 <= self._total * self.domain.count < LARGEST_SUM or self.records < 2:
            raise InvalidInput(
                f"the number of records must be a whole number of at least 2, got {described(self.records)}"
            )
        if self.weighting is not None and not self.weighting.persons <= self.records <= self.weighting.total:
            raise InvalidInput("private sums have more persons than records, or records without a weight")
        for answer in self.answers:
            if answer.weight != (1 if self.weighting is None else self.weighting.each):
                raise InvalidInput("an answer has another unit of privacy than the other private sums")
            _check_answer(answer, self.domain, self._total)
        self.proof().require()

    @property
    def _total(self) -> int:
        return self.records if self.weighting is None else self.weighting.total

    @property
    def size(self) -> int:
        """The number of records, or of persons where that is the unit of privacy."""
        return self.records if self.weighting is None else self.weighting.persons

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
        persons: Any = None,
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
        persons : array-like, optional
            The person whom each record belongs to, integers or text. ε is then for all labels of a person together: a person with k
            records counts as one, each record with a weight of 1/k.
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
        budget = SumsBudget(epsilon, ledger, dataset, "record" if persons is None else "person")
        held = _clipped(labels, domain, out_of_range, clip, persons)
        codes, sizes = checked_partitions(cells, _cells_in(cells), held.records)
        return cls._drawn(budget, held, "cells", sizes, lambda: held.over_cells(codes, sizes))

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
        persons: Any = None,
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
        persons : array-like, optional
            The person whom each record belongs to, integers or text. ε is then for all labels of a person together: a person with k
            records counts as one, each record with a weight of 1/k.
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
        budget = SumsBudget(epsilon, ledger, dataset, "record" if persons is None else "person")
        held = _clipped(labels, domain, out_of_range, clip, persons)
        table = checked_signs(signs, held.records)
        return cls._drawn(budget, held, "signs", table.shape[1:], lambda: held.against_signs(table))

    @classmethod
    def _drawn(
        cls, budget: SumsBudget, held: HeldLabels, kind: str, sizes: tuple[int, ...], exact: ExactPass
    ) -> PrivateSums:
        answer = draw_answer(budget, held, kind, sizes, exact, budget.epsilon)
        return cls(held.domain, held.records, (answer,), budget.epsilon, held.weighting)

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
        """Return the guarantee in plain words, for everyone who gets the sums.

        Returns
        -------
        str
            Markdown.
        """
        return sums_card(self).text()

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
    """Raise `InvalidInput` for an answer that cannot be about `records` labels on this grid."""
    if not answer.scored and (answer.domain != domain or answer.domain.whole != domain.whole):
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
    """The ends of a clip in label values as grid units; without a clip, the ends of the grid."""
    if clip is None:
        return 0, domain.count - 1
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


def _clipped(
    labels: Any,
    domain: Domain | tuple[float, float],
    out_of_range: OutOfRange,
    clip: tuple[float, float] | None,
    persons: Any,
) -> HeldLabels:
    held = HeldLabels(labels, domain, out_of_range, persons)
    held.clip(*clip_units(clip, held.domain))
    return held


_WHAT = {
    "histogram": "counts of labels in {} equal parts of the bounds",
    "cells": "sums of labels over {} cells of records",
    "signs": "sums of labels against {} columns of signs",
}


def sums_card(sums: PrivateSums, columns: str = "") -> Card:
    """Return the card. `columns` is a section on the columns that were answered."""
    domain, answers, proof = sums.domain, sums.answers, sums.proof()
    persons = None if sums.weighting is None else sums.size
    costs = "\n".join(f"- {rounded_up(answer.epsilon_exact)} paid for {_what(answer, domain)}." for answer in answers)
    if any(answer.place is not None for answer in answers):
        costs += "\n\nA replaced label leaves one class and joins another, so of the costs for single classes those of the two most expensive classes count."
    verdict = "are proven to cost" if proof.holds else "do NOT keep the promise: they cost"
    single = single_text(*cells_in(answers), persons=persons is not None)
    return Card(
        "these sums",
        f"These are noisy sums of {count_of(sums.records, 'label')}{f' of {persons:,} persons' if persons else ''}.",
        domain,
        sums.records,
        proof.epsilon_claimed,
        f"""ε splits as follows:

{costs or "- Nothing was asked."}

Each cost is the most by which {"one label changes" if persons is None else "all labels of a person change"} the exact sums, divided by the scale of the noise, as fractions. Together they
{verdict} {rounded_up(proof.total)} (`PrivateSums.proof()` repeats this).{f"{chr(10)}{chr(10)}{single}." if single else ""}""",
        "- **The features, and which records exist.** The number of records in each cell and the sums of signs are here without noise.",
        NOISE.format(
            "Cells, signs, clips and predictions were made from features, public numbers and earlier sums in this list"
        )
        + columns,
        counted=persons,
    )


NOISE = """\
## What the guarantee rests on

- {}. Had they depended on labels in any other way, the guarantee would not hold.
- The noise was drawn once for each sum, in exact integer arithmetic, by OpenDP's sampler of integer Laplace noise, with random bits
  of the operating system and of the generator that OpenDP seeds with them."""
"""The section of a card on noisy sums; the first line is what they were computed from."""


def cells_in(answers: Sequence[Answer]) -> tuple[int, int]:
    """Return the number of cells of all answers with a single record or the weight of one person at most, and the number of cells."""
    counts = [answer.totals for answer in answers if answer.kind == "cells"]
    return sum(int(np.count_nonzero((one > 0) & (one <= 1))) for one in counts), sum(one.size for one in counts)


def single_text(single: int, cells: int, *, persons: bool = False) -> str:
    """Return what cells of a single record or person mean, or nothing if there are none."""
    if not single:
        return ""
    if persons:
        return f"{single:,} of {cells:,} cells have a weight of one person at most: the sum there may be a noisy label of one person"
    verb = "holds" if single == 1 else "hold"
    return f"{single:,} of {cells:,} cells {verb} a single record: the sum there is a noisy label of that record"


def _what(answer: Answer, domain: Domain) -> str:
    what = _WHAT[answer.kind].format(f"{answer.values.size:,}")
    if len(answer.sizes) > 1:
        what += f" in {len(answer.sizes)} partitions"
    if answer.place is not None and domain.classes is not None:
        return f"{what}, where a label is 1 if it is {domain.classes[answer.place]!r} and 0 otherwise"
    if answer.scored:
        what, domain = what.replace("sums of labels", "sums of the labels' normal scores"), SCORES
    if answer.kind == "histogram" or answer.clip == (0, domain.count - 1):
        return what
    start = 0.0 if answer.residuals else domain.lower
    low, high = (start + end * domain.step for end in answer.clip)
    each = "score" if answer.scored else "label"
    less = f", each {each} less what earlier sums predict" if answer.residuals else ""
    return f"{what}{less}, clipped to {low:.6g} … {high:.6g}"
