"""One round of sums between two parties: the features party plans all sums at once, and makes a model of the answer.

Nothing is known about the labels when the sums are chosen, so all columns are expected to matter equally, and no later sums depend on
earlier ones. That is the price of a single answer; `SumsLearner` asks in stages.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon, format_amount, parse_amount
from labeldp.errors import InvalidInput
from labeldp.formatting import ReprMixin, count_of
from labeldp.json_text import expect_format, parse_json
from labeldp.learn.feature_columns import ColumnKey
from labeldp.learn.record_checks import exactly
from labeldp.learn.sums.inference import Evidence, prior_belief
from labeldp.learn.sums.partitions import Partitions
from labeldp.learn.sums.questions import plan
from labeldp.learn.sums.sums_learner import SumsLearner, inferred
from labeldp.learn.sums.sums_model import SumsModel
from labeldp.release.label_range import histogram_share, range_within
from labeldp.release.noisy_sums import Answer
from labeldp.release.private_sums import PrivateSums

FORMAT = "labeldp plan of cells"
FORMAT_VERSION = 1
_FIELDS = ("format", "format_version", "epsilon", "partitions", "signs", "cells")
WIDTH = 5.0
"""The width of the range to which labels are clipped, in standard deviations of the labels."""
EQUAL = ((0, 1.0), (1, 0.5), (2, 1 / 3), (3, 1 / 4), (4, 1 / 5), (1, 0.0), (2, 0.0), (3, 0.0), (4, 0.0))
"""Plans where all signed sums together get the same share of ε as each partition, as the labels party divides it."""


@dataclass(frozen=True, eq=False)
class SignQuestion:
    """One signed sum: +1 or −1 for each cell of a column.

    Attributes
    ----------
    column : int or None
        The column, or None for the sum of all labels.
    signs : array of int8
        One for each cell.
    """

    column: int | None
    signs: NDArray[np.int8]


@dataclass(frozen=True, eq=False, repr=False)
class CellsPlan(ReprMixin):
    """Which sums the features party asks for, and how its features become the columns that it sends.

    Attributes
    ----------
    partitions : Partitions
        The cells of each column of the features.
    signs : tuple of SignQuestion
        Signed sums, each a column of +1 and −1.
    whole : tuple of int
        Columns of the features that are sent cell by cell.
    epsilon : Fraction
        The ε that the plan was made for. Another one can be used; the plan is then not the best.

    Examples
    --------
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> from labeldp.release.cells_file import CellColumns
    >>> from labeldp.release.sum_queries import SumQueries
    >>> from labeldp.release.sums import SumsPlan, ask_columns
    >>> from labeldp.learn.sums.cells_plan import CellsPlan, model_from_answer
    >>> generator = np.random.default_rng(0)
    >>> features = pa.table({"size": generator.normal(size=5000), "shop": generator.choice(["a", "b"], 5000)})
    >>> plan = CellsPlan.make(features, epsilon=1)  # the features party
    >>> sent = CellColumns.of(plan.columns(features))
    >>> amounts = np.clip(100 + 40 * features["size"].to_numpy(), 0, 400)  # the labels party
    >>> queries = SumQueries(amounts, epsilon=1, domain=(0, 400))
    >>> answer = ask_columns(queries, SumsPlan(queries.epsilon_exact, sent, queries.size), None)
    >>> model = model_from_answer(plan, features, answer)  # the features party again
    >>> bool(np.corrcoef(model.predict(features), amounts)[0, 1] > 0.8)
    True
    """

    partitions: Partitions
    signs: tuple[SignQuestion, ...]
    whole: tuple[int, ...]
    epsilon: Fraction

    @classmethod
    def make(
        cls,
        features: Any,
        epsilon: Epsilon,
        *,
        categorical: Sequence[ColumnKey] | None = None,
        numeric: Sequence[ColumnKey] | None = None,
    ) -> CellsPlan:
        """Choose the sums of least expected error for these features, at this ε and before anything is known of the labels.

        Parameters
        ----------
        features : table or array
            The features of all records.
        epsilon : float, str, Decimal or Fraction
            What the labels party will spend.
        categorical, numeric : sequence of str or int, optional
            Columns to read as categories or as numbers regardless of their type.

        Returns
        -------
        CellsPlan

        Raises
        ------
        InvalidInput
            If the features cannot be read, have fewer than two records or too many columns.

        Privacy
        -------
        No labels are used.
        """
        amount = exact_epsilon(epsilon)
        rows = int(getattr(features, "num_rows", None) or len(features))
        if rows < 2:
            raise InvalidInput(f"sums are for at least two records, and the features have {rows}")
        learner = SumsLearner(features, categorical=categorical, numeric=numeric)
        evidence = Evidence(rows, 0.0)
        evidence.add(*learner.columns())
        scale = WIDTH / float(amount - histogram_share(amount, rows))
        asked = plan(evidence, prior_belief(evidence, 1.0), learner.candidates(evidence), scale, EQUAL)
        signs = tuple(_question(evidence, question) for question in asked.signs.T)
        return cls(learner.partitions, signs, tuple(block - 1 for block in asked.partitions), amount)

    def columns(self, features: Any) -> list[NDArray[np.integer]]:
        """Return the columns to send for these records: first columns of signs, then columns of cell numbers.

        Parameters
        ----------
        features : table or array
            The features.

        Returns
        -------
        list of array of int
        """
        return self._columns_of(self.partitions.cells(features))

    def _columns_of(self, codes: NDArray[np.uint16]) -> list[NDArray[np.integer]]:
        for number, size in enumerate(self.partitions.sizes):
            if (codes[:, number] >= size).any():
                raise InvalidInput(
                    f"the column {self.partitions.names[number]!r} lacks numbers, and had all of them when the plan was made: give the "
                    "same features, or make a new plan"
                )
        sent: list[NDArray[np.integer]] = []
        for one in self.signs:
            column = np.zeros(len(codes), np.uint16) if one.column is None else codes[:, one.column]
            sent.append(one.signs[column])
        return [*sent, *(codes[:, column] for column in self.whole)]

    @property
    def disclosed_features(self) -> tuple[str, ...]:
        """The columns of the features about which the columns to send reveal something."""
        used = {one.column for one in self.signs} | set(self.whole)
        return tuple(name for number, name in enumerate(self.partitions.names) if number in used)

    def to_json(self) -> str:
        """Return the whole plan. It contains cut points and categories of the features, so it is for the features party alone.

        Returns
        -------
        str
            JSON.
        """
        record = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "epsilon": format_amount(self.epsilon),
            "partitions": self.partitions.to_record(),
            "signs": [
                {"column": one.column, "signs": "".join("+" if sign > 0 else "-" for sign in one.signs)}
                for one in self.signs
            ],
            "cells": list(self.whole),
        }
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> CellsPlan:
        """Return what `to_json` wrote.

        Parameters
        ----------
        text : str or bytes
            The JSON text.

        Returns
        -------
        CellsPlan

        Raises
        ------
        InvalidInput
            If the text was damaged, has an unknown field, or comes from another version.
        """
        record = parse_json(text, "the plan of cells")
        expect_format(record, FORMAT, FORMAT_VERSION, "a plan of cells")
        _, _, epsilon, cells, signs, whole = exactly(record, *_FIELDS, what="the plan of cells")
        partitions = Partitions.from_record(cells)
        sizes = partitions.sizes
        if not isinstance(signs, list) or not isinstance(whole, list) or not signs + whole:
            raise InvalidInput("the plan of cells asks for no sums, or is damaged")
        if any(type(column) is not int or not 0 <= column < len(sizes) for column in whole) or len(set(whole)) != len(
            whole
        ):
            raise InvalidInput("the plan of cells asks for a column that it does not have, or for one twice")
        asked = tuple(_question_from(one, sizes) for one in signs)
        return cls(partitions, asked, tuple(whole), exact_epsilon(parse_amount(epsilon)))

    def _facts(self) -> dict[str, str]:
        return {
            "features": f"{len(self.disclosed_features)}",
            "signs": f"{len(self.signs)}",
            "cells": ", ".join(f"{self.partitions.sizes[column]}" for column in self.whole) or "none",
        }


def model_from_answer(
    wanted: CellsPlan, features: Any, sums: PrivateSums, weights: NDArray[np.int64] | None = None
) -> SumsModel:
    """Make a model from the labels party's answer.

    Parameters
    ----------
    wanted : CellsPlan
        The plan that was sent.
    features : table or array
        The features of the records that were summed, in any order.
    sums : PrivateSums
        The answer: a histogram, sums against signs, then sums over the cells of each column.
    weights : array of int64, optional
        The weight of each record in the sums, if the answer is for persons: they are in its folder.

    Returns
    -------
    SumsModel

    Raises
    ------
    InvalidInput
        If the answer is about other records or other columns: the number of records in each cell must be the same.

    Privacy
    -------
    Costs nothing: the sums are private already.
    """
    counts, answers = _in_order(wanted, sums)
    learner = SumsLearner(features, wanted.partitions)
    sent = wanted._columns_of(learner.codes)  # noqa: SLF001
    rows = len(learner.codes)
    if rows != sums.records:
        raise InvalidInput(
            f"{sums.records:,} labels were summed, and these are the features of {count_of(rows, 'record')}: give the features of the labels"
        )
    if (weights is None) != (sums.weighting is None):
        raise InvalidInput(
            "the answer and the weights of its records do not fit: give weights if the sums are for persons"
        )
    found = range_within(answers[0].clip, counts, sums.size)
    evidence = Evidence(rows, found.mean, None if weights is None else weights / counts.weight)
    evidence.add(*learner.columns())
    later = list(answers)
    if wanted.signs:
        answer = later.pop(0)
        each = np.ones(rows, np.int64) if weights is None else weights
        _check_counts(np.array([np.sum(one * each) for one in sent[: len(wanted.signs)]]), answer)
        evidence.learn(_placed_signs(evidence, wanted), answer)
    for column, answer in zip(wanted.whole, later, strict=True):
        size, cells = evidence.blocks[column + 1].cells, answer.values.size
        _check_counts(np.bincount(learner.codes[:, column], weights, minlength=size), answer)
        evidence.learn(evidence.cells_of(column + 1)[:, :cells], answer)
    belief, found = inferred(evidence, found, sums.domain)
    return learner.model(evidence, belief, (), found, sums.domain)


def _in_order(wanted: CellsPlan, sums: PrivateSums) -> tuple[Answer, tuple[Answer, ...]]:
    """Return the histogram, and the answers to the questions of the plan."""
    kinds = ["histogram", *(["signs"] if wanted.signs else []), *["cells"] * len(wanted.whole)]
    answers = sums.answers
    if [answer.kind for answer in answers] != kinds or (wanted.signs and answers[1].values.size != len(wanted.signs)):
        raise InvalidInput(
            "these sums do not answer this plan: it asks for other columns. Give the plan.json that was written together with "
            "the cells.parquet that was sent"
        )
    if any(len(answer.sizes) > 1 or answer.clip != answers[1].clip or not answer.scale for answer in answers[1:]):
        raise InvalidInput(
            "these sums do not answer a plan of cells: their clips differ or are a single value, or partitions share an answer. Ask for the "
            "sums again"
        )
    return answers[0], answers[1:]


def _check_counts(own: NDArray[Any], answer: Answer) -> None:
    summed = answer.counts
    if summed.size > own.size or (own[: summed.size] != summed).any() or own[summed.size :].any():
        raise InvalidInput(
            "the answer does not fit these features: it has other numbers of records in some cells. Give the features and the "
            "plan.json from which the cells.parquet was made that was sent"
        )


def _placed_signs(evidence: Evidence, wanted: CellsPlan) -> Floats:
    questions = np.zeros((len(evidence.gram), len(wanted.signs)))
    for place, one in enumerate(wanted.signs):
        block = 0 if one.column is None else one.column + 1
        questions[evidence.place(block), place] = one.signs
    return questions


def _question(evidence: Evidence, numbers: Floats) -> SignQuestion:
    """Return the one block that a column of numbers for all cells is about, and its signs."""
    block = evidence.block_of(numbers)
    return SignQuestion(block - 1 if block else None, numbers[evidence.place(block)].astype(np.int8))


def _question_from(record: Any, sizes: Sequence[int]) -> SignQuestion:
    column, text = exactly(record, "column", "signs", what="a question of the plan of cells")
    if column is not None and (type(column) is not int or not 0 <= column < len(sizes)):
        raise InvalidInput("a question of the plan of cells is about a column that it does not have")
    size = 1 if column is None else sizes[column]
    if not isinstance(text, str) or len(text) != size or set(text) - {"+", "-"}:
        raise InvalidInput("the signs of a question of the plan of cells do not fit the cells of its column")
    return SignQuestion(column, np.array([1 if sign == "+" else -1 for sign in text], np.int8))
