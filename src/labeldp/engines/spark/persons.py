"""The rows of each person in a Spark frame: one aggregation finds the ranks below which rows are chosen.

Workers compute the words of persons and the ranks of rows, which do not depend on labels, and Spark groups them. The
driver gets one limit for each person and broadcasts all of them. So workers choose rows where they read them, and
labels are never shuffled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it that

from labeldp.engines.passes import Selection
from labeldp.engines.spark.jobs import job, mapped, nothing_charged
from labeldp.engines.spark.worker import Batches, RecordReader
from labeldp.errors import InvalidInput
from labeldp.sampling import EntryChoice
from labeldp.sampling.randomness import MOST_ENTRIES
from labeldp.sampling.table import Words

MOST_PERSONS = 1 << 23
"""The maximum number of persons: the limits of more would not fit into every worker."""
_SIGN = np.uint64(1 << 63)
_RANKED = "person long, rank long"


@dataclass(frozen=True)
class Limits:
    """A selector of rows on a worker: it chooses rows whose ranks are below the limit of their person.

    Attributes
    ----------
    choice : EntryChoice
        The keyed function that chooses.
    limits : Broadcast
        The sorted words of persons, their limits, and whether all rows of a person are chosen.
    """

    choice: EntryChoice = field(repr=False)
    limits: Broadcast[tuple[Words, Words, NDArray[np.bool_]]]

    def mask(self, ids: pa.Array, persons: pa.Array) -> NDArray[np.bool_]:
        """Return which records are chosen. Records of persons without a limit are not chosen."""
        known, limits, everything = self.limits.value
        words = self.choice.persons(persons)
        places = np.minimum(np.searchsorted(known, words), known.size - 1)
        below = (self.choice.ranks(words, ids) < limits[places]) | everything[places]
        return np.asarray(below & (known[places] == words), np.bool_)


@dataclass(frozen=True)
class RankTask:
    """A task that returns the word of the person and the rank of each record, as signed numbers that sort like the unsigned ones."""

    choice: EntryChoice = field(repr=False)
    reader: RecordReader

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            ids = self.reader.typed_ids(batch.column(0))
            words = self.choice.persons(typed_persons(batch.column(1)))
            columns = [(each ^ _SIGN).view(np.int64) for each in (words, self.choice.ranks(words, ids))]
            yield pa.record_batch([pa.array(each) for each in columns], ["person", "rank"])


def typed_persons(persons: pa.Array) -> pa.Array:
    """Return persons as int64 or text, like the engine for files."""
    return persons.cast(pa.int64() if pa.types.is_integer(persons.type) else pa.large_string())


@dataclass(frozen=True)
class SparkPersons:
    """The `PersonEntries` of a frame with the columns id and person.

    Attributes
    ----------
    frame : DataFrame
        The ids and the persons.
    kind : str
        The type of the persons: "int" or "str".
    task : RankTask
        Ranks records.
    fingerprinted : callable
        Returns the selection of chosen rows, from their limits, after a pass over the frame.
    """

    frame: DataFrame
    kind: str
    task: RankTask
    fingerprinted: Callable[[Limits], Selection]

    @property
    def fingerprint(self) -> str:
        raise InvalidInput("several labels are not possible on Spark: use labeldp.release.several on files")

    def sizes(self) -> NDArray[np.int64]:
        counted = self._ranked().groupBy("person").count()
        found = counted.groupBy(F.least("count", F.lit(MOST_ENTRIES)).alias("entries")).count()
        with nothing_charged(), job(self.frame.sparkSession, 0, None):
            rows = found.collect()
        sizes = np.zeros(MOST_ENTRIES + 1, np.int64)
        for entries, count in rows:
            sizes[entries] = count
        if sizes.sum() > MOST_PERSONS:
            raise InvalidInput(
                f"there are {sizes.sum():,} persons, and Spark releases labels of at most {MOST_PERSONS:,}: use labeldp.privatize on files"
            )
        return sizes

    def choose(self, entries: int, served: Sequence[Words] = ()) -> Selection:
        ranks = F.sort_array(F.collect_list("rank"))
        limit = F.when(F.count("rank") > entries, F.get(ranks, entries)).alias("limit")
        with nothing_charged(), job(self.frame.sparkSession, 0, None):
            rows = self._ranked().groupBy("person").agg(limit).collect()
        known = np.array([person for person, _ in rows], np.int64).view(np.uint64) ^ _SIGN
        everything = np.array([found is None for _, found in rows], np.bool_)
        limits = np.array([found or 0 for _, found in rows], np.int64).view(np.uint64) ^ _SIGN
        for words in served:
            before = np.isin(known, words)
            everything[before], limits[before] = False, 0
        order = np.argsort(known)
        sent = self.frame.sparkSession.sparkContext.broadcast((known[order], limits[order], everything[order]))
        return self.fingerprinted(Limits(self.task.choice, sent))

    def words(self, served: Sequence[Words] = ()) -> Iterator[Words]:
        with nothing_charged(), job(self.frame.sparkSession, 0, None):
            rows = self._ranked().select("person").distinct().collect()
        found = np.sort(np.array([person for (person,) in rows], np.int64).view(np.uint64) ^ _SIGN)
        for words in served:
            found = found[~np.isin(found, words)]
        yield found

    def _ranked(self) -> DataFrame:
        return mapped(self.frame, self.task, _RANKED)
