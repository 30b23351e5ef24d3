"""Blocks of effects, the sums that were asked for, and the answers: all that inference needs, whatever the number of records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.central.answer import Answer
from labeldp.central.partitions import Codes


@dataclass(frozen=True, eq=False)
class Block:
    """A partition of the records, and a root of the prior covariance of its cells' effects (at an average variance of 1).

    Attributes
    ----------
    name : str
        The column, or two columns.
    kind : {"mean", "column", "pair"}
        What it stands for: the overall mean is one cell.
    roots : array of float
        One row for each cell.
    ordered : bool
        Whether the cells lie along a line.
    """

    name: str
    kind: str
    roots: Floats
    ordered: bool = False

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.roots)


class Evidence:
    """Blocks with the counts of records in all pairs of their cells; questions and answers.

    A question is a number for each cell of all blocks, most of them zero: the sum of the labels of the records, each times the
    numbers of its cells. Answers are less the sum that a label of `offset` everywhere would give.
    """

    def __init__(self, records: int, offset: float) -> None:
        self.records = records
        self.offset = offset
        self.blocks: list[Block] = []
        self.codes: list[Codes] = []
        self.ends = np.zeros(1, np.int64)
        self.gram = np.zeros((0, 0))
        self.questions = np.zeros((0, 0))
        self.answers = np.zeros(0)
        self.noise = np.zeros(0)

    def add(self, blocks: list[Block], codes: list[Codes]) -> None:
        """Add blocks, with the cell of each record in them."""
        known = len(self.blocks)
        self.blocks += blocks
        self.codes += codes
        self.ends = np.concatenate([[0], np.cumsum([block.cells for block in self.blocks])])
        gram = np.zeros((self.ends[-1], self.ends[-1]))
        gram[: len(self.gram), : len(self.gram)] = self.gram
        for j in range(known, len(self.blocks)):
            for i in range(j + 1):
                counts = self._crossed(i, j)
                gram[self.place(i), self.place(j)] = counts
                gram[self.place(j), self.place(i)] = counts.T
        self.gram = gram
        more = len(gram) - len(self.questions)
        self.questions = np.vstack([self.questions, np.zeros((more, self.questions.shape[1]))])

    def learn(self, questions: Floats, answer: Answer) -> None:
        """Take an answer to questions, which are given as one column of numbers for each."""
        self.questions = np.hstack([self.questions, questions])
        self.answers = np.concatenate([self.answers, answer.sums - self.offset * answer.counts])
        self.noise = np.concatenate([self.noise, np.full(questions.shape[1], answer.sums_variance)])

    def place(self, block: int) -> slice:
        """Where a block's cells are among all."""
        return slice(int(self.ends[block]), int(self.ends[block + 1]))

    def block_of(self, question: Floats) -> int:
        """The block that a question is about, if it is about the cells of one."""
        return int(np.searchsorted(self.ends, np.flatnonzero(question)[0], side="right")) - 1

    def cells_of(self, block: int) -> Floats:
        """The questions for the sums over each cell of a block."""
        return np.eye(len(self.gram))[:, self.place(block)]

    def roots(self) -> Floats:
        """The roots of all blocks as one matrix, and nothing between blocks."""
        whole = np.zeros((len(self.gram), self.owners().size))
        column = 0
        for number, block in enumerate(self.blocks):
            width = block.roots.shape[1]
            whole[self.place(number), column : column + width] = block.roots
            column += width
        return whole

    def owners(self) -> NDArray[np.int64]:
        """The block of each column of `roots`."""
        return np.repeat(np.arange(len(self.blocks)), [block.roots.shape[1] for block in self.blocks])

    def _crossed(self, i: int, j: int) -> Floats:
        """The number of records in each pair of cells of two blocks."""
        rows, columns = self.blocks[i].cells, self.blocks[j].cells
        if i == j:
            return np.diag(np.bincount(self.codes[j], minlength=columns).astype(np.float64))
        pairs = self.codes[i].astype(np.int32) * np.int32(columns) + self.codes[j]
        return np.bincount(pairs, minlength=rows * columns).astype(np.float64).reshape(rows, columns)
