"""The rows of each person, sorted on disk, so that a few of them can be chosen in bounded memory.

For each row the files store the word of its person, its rank and its number (`EntryChoice`). Leading bits of the
person's word choose the partition, so all rows of a person are in the same one. The files contain keyed digests and row
numbers, but no labels.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.artifact.labels_file import id_kind
from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.arrow.spill import PartitionedColumn, parted, partition_bits
from labeldp.engines.batches import checked_ids
from labeldp.engines.passes import Selection
from labeldp.errors import InvalidInput
from labeldp.sampling import EntryChoice, choose_entries, person_sizes
from labeldp.sampling.randomness import MOST_ENTRIES
from labeldp.sampling.table import Words
from labeldp.tables.files import is_text, read_columns, readable

_CHECKS = (1 << 30, 1 << 31)
"""Column numbers that label columns do not use. Their ranks are summed to recognise persons and ids."""
UNKNOWN_ROWS = 1 << 27
"""The assumed number of rows of inputs that do not state it, for the number of partitions."""


@dataclass(frozen=True)
class SharedPersons:
    """Several label columns with the same persons: `weights` contains an integer for each, and `own` is the released column.

    An entry of a column with weight w has the lowest of w ranks, so it is chosen w times as often as an entry of weight 1.
    """

    weights: tuple[int, ...] = (1,)
    own: int = 0

    def ranks(self, choice: EntryChoice, words: Words, ids: pa.Array, column: int) -> Words:
        """Return the ranks of the entries of a column."""
        lowest = choice.ranks(words, ids, column)
        for time in range(1, self.weights[column]):
            np.minimum(lowest, choice.ranks(words, ids, column + (time << 16)), out=lowest)
        return lowest


ALONE = SharedPersons()


class PersonSpill:
    """The `PersonEntries` of files, in the folder for temporary files. Memory is O(rows of a partition) plus one bit per row.

    Parameters
    ----------
    choice : EntryChoice
        The keyed function that chooses.
    rows : int or None
        The approximate number of rows, if known.
    shared : SharedPersons, optional
        The label columns that share the persons. The choice covers the entries of all of them; the entries of one are
        selected.
    """

    def __init__(self, choice: EntryChoice, rows: int | None, shared: SharedPersons = ALONE) -> None:
        folder = Path(tempfile.gettempdir())
        self.choice, self.shared, self.kind = choice, shared, ""
        size = UNKNOWN_ROWS if rows is None else rows
        self._bits = partition_bits(size)
        columns = [PartitionedColumn(folder, np.uint64) for _ in range(3)]
        self._persons, self._ranks, self._rows = columns
        for column in columns:  # the files stay open during the lifetime of this object
            weakref.finalize(self, column.close)
        self._records, self._sums = 0, [0] * len(_CHECKS)

    def add(self, persons: pa.Array, ids: pa.Array) -> Words:
        """Write the next rows. Return the words of their persons. Raise `InvalidInput` if persons change their type."""
        kind = id_kind(persons.type)
        if self.kind not in ("", kind):
            raise InvalidInput(
                f"persons change their type between whole numbers and text at row {self._records + 1} (rows count from 1), so one "
                "person could count as two: convert the column to one type first"
            )
        self.kind = kind
        words = self.choice.persons(persons)
        order, starts = parted(words, self._bits)
        columns = len(self.shared.weights)
        numbers = np.arange(self._records, self._records + words.size, dtype=np.uint64) * np.uint64(columns)
        for column in range(columns):
            self._persons.append(words[order], starts)
            self._ranks.append(self.shared.ranks(self.choice, words, ids, column)[order], starts)
            self._rows.append((numbers + np.uint64(column))[order], starts)
        self._records += words.size
        for number, column in enumerate(_CHECKS):
            self._sums[number] += int(self.choice.ranks(words, ids, column).sum()) if columns > 1 else 0
        return words

    @property
    def fingerprint(self) -> str:
        """A keyed hash of all persons and ids, in any order, where label columns share them."""
        return "".join(f"{total % (1 << 64):016x}" for total in self._sums)

    def sizes(self) -> NDArray[np.int64]:
        """Return the number of persons by their number of entries: of rows, times the number of label columns."""
        total = np.zeros(MOST_ENTRIES + 1, np.int64)
        for number in range(1 << self._bits):
            total += person_sizes(self._persons.read(number))
        return total

    def choose(self, entries: int, served: Sequence[Words] = ()) -> Selection:
        """Choose at most `entries` rows of each person who was not served before."""
        bits, records, check = np.zeros((self._records + 7) // 8, np.uint8), 0, 0
        columns = np.uint64(len(self.shared.weights))
        for number in range(1 << self._bits):
            persons, ranks, rows = (column.read(number) for column in (self._persons, self._ranks, self._rows))
            new = ~self._served(persons, number, served)
            persons, ranks, rows = persons[new], ranks[new], rows[new]
            chosen = choose_entries(persons, ranks, entries) & (rows % columns == np.uint64(self.shared.own))
            found = rows[chosen] // columns
            np.bitwise_or.at(
                bits, (found >> np.uint64(3)).astype(np.intp), np.uint8(1) << (found & np.uint64(7)).astype(np.uint8)
            )
            records += found.size
            check += int(ranks[chosen].sum())
        return Selection(bits, records, check % (1 << 64))

    def words(self, served: Sequence[Words] = ()) -> Iterator[Words]:
        """Yield the words of all persons who were not served before, in ascending order."""
        for number in range(1 << self._bits):
            persons = np.unique(self._persons.read(number))
            yield persons[~self._served(persons, number, served)]

    def _served(self, persons: Words, number: int, served: Sequence[Words]) -> NDArray[np.bool_]:
        """Return which persons of a partition are in one of the sorted arrays."""
        found = np.zeros(persons.size, np.bool_)
        for known in served:
            limits = [number << 64 - self._bits, (number + 1) << 64 - self._bits]
            first, end = (int(np.searchsorted(known, np.uint64(min(limit, (1 << 64) - 1)))) for limit in limits)
            found |= np.isin(persons, known[first : end + (limits[1] >= 1 << 64)])
        return found


def count_persons(source: LabelSource) -> NDArray[np.int64]:
    """Return the number of persons of a source by their number of rows, for a plan. Reads only the column of persons."""
    name, spill, first = source.person_column, PersonSpill(EntryChoice(os.urandom(32)), None), 0
    assert name is not None, "the source has a column of persons"
    for file in source.files():
        with readable(file):
            for batch in read_columns(file, [name], source.delimiter):
                column, text = batch.column(name), is_text(file)
                persons = checked_ids(column, name, first, file, "str", text_file=text, noun="person")
                spill.add(persons, pa.array(np.arange(first, first + batch.num_rows)))
                first += batch.num_rows
    if not first:
        raise InvalidInput(f"{source.path} contains no records: there is nothing to randomize")
    return spill.sizes()
