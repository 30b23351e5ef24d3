"""`ArrowInput`: files of labels for a release on one machine, in bounded memory.

Each pass uses two threads: one reads a batch, or sorts a partition, while the other processes the previous one.
"""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.artifact.labels_file import LabelsWriter, code_dtype, id_kind
from labeldp.artifact.reader import Message
from labeldp.domain import Domain, OutOfRange
from labeldp.engines.arrow import input_report
from labeldp.engines.arrow.person_spill import ALONE, PersonSpill, SharedPersons
from labeldp.engines.arrow.source import LabelSource, belongs_to, estimate_rows
from labeldp.engines.arrow.spill import RepeatedIdError, Spill, open_spill, spill_rows
from labeldp.engines.batches import InputFingerprint, LabelBatch, count_outside, draw_batch, repeated_id
from labeldp.engines.passes import DrawJob, Scan
from labeldp.errors import InvalidInput
from labeldp.priors import histogram
from labeldp.sampling import EntryChoice, KeyedRandomness
from labeldp.tables.files import Progress

Item = TypeVar("Item")
_END = object()


@dataclass(frozen=True)
class ArrowInput:
    """A `LabelInput` that streams a source. The protocol documents the methods.

    Attributes
    ----------
    source : LabelSource
        The files.
    integer_type : pyarrow.DataType or None
        The type of integer ids, if it differs from the type in the source.
    shared : SharedPersons
        The label columns that share the persons. One of them is released here.
    """

    source: LabelSource
    integer_type: pa.DataType | None = None
    shared: SharedPersons = ALONE
    keeps_order: ClassVar[bool] = True
    least_row_bytes: ClassVar[int] = 9
    """The size of a row while it is sorted: a key of 8 bytes and a code."""

    @property
    def label_column(self) -> str:
        return self.source.label_column

    @property
    def id_column(self) -> str | None:
        return self.source.id_column

    @property
    def id_name(self) -> str:
        return self.source.id_name

    @property
    def person_column(self) -> str | None:
        return self.source.person_column

    def check_places(self, message: Path, key_file: Path | None) -> None:
        given = Path(self.source.path)
        if given.exists() and not given.is_file() and not given.is_dir():
            raise InvalidInput(
                f"{given} is not a file or a folder, and the input is read more than once: save it to a file first"
            )
        if given.is_dir() and (message.absolute().parent.resolve() / message.name).is_relative_to(given.resolve()):
            raise InvalidInput(
                f"the message {message} would lie inside the input folder {given} and be read as labels next time: "
                "choose a place outside"
            )
        if given.is_dir() and key_file is not None and belongs_to(key_file.resolve(), given.resolve()):
            raise InvalidInput(
                f"the key file {key_file} would lie inside the input folder {given} and be read as labels: choose a place outside"
            )

    def in_unit(self, domain: Domain) -> "ArrowInput":
        unit = self.source.unit
        if unit not in (None, domain.unit):
            raise InvalidInput(
                f"the source's unit is {unit}, but the unit of the bounds is {domain.unit or 'not named'}: name it once, in the "
                f'domain, as in Domain({domain.lower:g}, {domain.upper:g}, unit="{unit}")'
            )
        return replace(self, source=replace(self.source, unit=domain.unit, classes=domain.classes))

    def with_ids_as(self, id_type: pa.DataType) -> "ArrowInput":
        return replace(self, integer_type=id_type) if pa.types.is_integer(id_type) else self

    def readable_as(self, id_kind: str) -> bool:
        try:
            for _ in replace(self.source, id_type=id_kind).batches():
                pass
        except InvalidInput:
            return False
        return True

    def row_count(self) -> int | None:
        return self._rows

    def scan(
        self,
        domain: Domain,
        *,
        key: bytes,
        out_of_range: OutOfRange,
        grid: Domain | None = None,
        progress: Progress | None = None,
    ) -> Scan:
        fingerprint = InputFingerprint(key)
        counts = None if grid is None else np.zeros(grid.count, np.int64)
        records = clipped = id_bytes = 0
        id_type: pa.DataType | None = None
        id_types: dict[str, None] = {}
        words: list[NDArray[np.uint64]] = []
        persons = None if self.person_column is None else PersonSpill(EntryChoice(key), self._rows, self.shared)
        with input_report.reported_together(self.source, domain, out_of_range), prefetched(self._batches) as batches:
            for batch in batches:
                if id_type is not None and batch.ids.type != id_type:
                    raise _mixed_types(id_type, batch.ids.type, batch.first_row)
                id_type = batch.ids.type
                id_types[batch.types.ids] = None
                clipped += count_outside(batch, domain, out_of_range)
                if counts is not None and grid is not None:
                    counts += histogram(batch.labels, grid)
                of_persons = None if persons is None else persons.add(batch.persons, batch.ids)
                digests = fingerprint.add(batch, of_persons)
                records += batch.labels.size
                id_bytes += batch.ids.nbytes
                if self.id_column is not None and max(records, self._rows or 0) <= input_report.EARLY_ROWS:
                    words.append(digests.low)
                else:
                    words.clear()
                _tell(progress, batch.labels.size)
            self._refuse_repeated(words, fingerprint)
        assert id_type is not None, "a source yields at least one batch"
        found = fingerprint.hexdigest()
        return Scan(records, clipped, id_type, tuple(id_types), found, id_bytes, grid, counts, persons)

    def count_cells(
        self, grid: Domain, scanned: Scan, *, key: bytes, advice: str, progress: Progress | None = None
    ) -> NDArray[np.int64]:
        counts = np.zeros(grid.count, np.int64)
        with prefetched(lambda: self._unchanged(scanned, key, advice)) as batches:
            for batch in batches:
                counts += histogram(batch.labels, grid)
                _tell(progress, batch.labels.size)
        return counts

    def randomize(self, job: DrawJob, scanned: Scan, progress: Progress | None = None) -> int:
        mechanism, held = job.mechanism, job.held
        assert held is None or not job.keep_order, "with keep_order, rows are written before held ids are known"
        randomness = KeyedRandomness(job.key, job.release)
        size = spill_rows(scanned.records, scanned.id_bytes, 0 if held is None else held.records)
        skipped = 0
        with ExitStack() as stack:
            code_type = code_dtype(mechanism.outputs.size)
            spill = stack.enter_context(open_spill(job.work / "rows", scanned.id_type, size, code_type))
            writer = stack.enter_context(LabelsWriter(job.labels, self.id_name, scanned.id_type, mechanism))
            with prefetched(lambda: self._unchanged(scanned, job.key, job.advice)) as batches:
                for batch in batches:
                    digests, codes = draw_batch(batch, mechanism, job.domain, randomness)
                    spill.add(batch.ids, digests, codes)  # also finds equal digests
                    if job.keep_order:
                        writer.write(batch.ids, codes)
                    _tell(progress, batch.labels.size)
            known = None
            if held is not None:
                known = stack.enter_context(open_spill(job.work / "held", scanned.id_type, size, np.uint8))
                _add_held(known, held, randomness)
            try:
                with prefetched(lambda: spill.partitions(known)) as parts:
                    for part in parts:
                        skipped += part.skipped
                        if not job.keep_order:
                            writer.write(part.ids, part.codes)
                        _tell(progress, len(part.ids) + part.skipped)
            except RepeatedIdError as found:
                rows = self._repeated_rows(InputFingerprint(job.key), found.id)
                raise repeated_id(rows, "Nothing was released") from None
        return scanned.drawn - skipped

    @cached_property
    def _rows(self) -> int | None:
        return estimate_rows(self.source)

    def _batches(self) -> Generator[LabelBatch]:
        """Read the source, with integer ids in the type of the message."""
        for batch in self.source.batches():
            if self.integer_type is None or not pa.types.is_integer(batch.ids.type):
                yield batch
                continue
            try:
                ids = batch.ids.cast(self.integer_type)
            except pa.ArrowInvalid:
                raise InvalidInput(
                    f"{self.source.path}: some ids from row {batch.first_row + 1} on (rows count from 1) do not fit into "
                    f"{self.integer_type}, the type of the message's ids. Only a new release can hold them"
                ) from None  # the error shows an id
            yield replace(batch, ids=ids)

    def _unchanged(self, scanned: Scan, key: bytes, advice: str) -> Generator[LabelBatch]:
        """Read the source. Raise `InvalidInput` if it differs from the scan, before anything is published.

        Under one release, an id must never be drawn with two labels. A release is resumed by the fingerprint of its
        scan, so the labels that are randomized or counted must be the scanned ones, even if someone writes to the file
        in between. `key` is the key of the scan, and `advice` is the end of the error message.

        If rows were chosen, only these are yielded. They are identified by their numbers, so their ranks are summed
        again as a check.
        """
        changed = InvalidInput(f"{self.source.path} changed while it was read. Nothing was released. {advice}")
        fingerprint, choice, selection, check = InputFingerprint(key), EntryChoice(key), scanned.selection, 0
        assert (selection is None) == (self.person_column is None), "rows of persons are chosen before they are drawn"
        for batch in self._batches():
            if batch.ids.type != scanned.id_type:  # later steps expect the scanned type
                raise changed
            if selection is None:
                fingerprint.add(batch)
                yield batch
                continue
            persons = choice.persons(batch.persons)
            fingerprint.add(batch, persons)
            mask = selection.mask(batch.first_row, batch.labels.size)
            if mask.size != batch.labels.size:
                raise changed
            chosen = batch.chosen(mask)
            check += int(self.shared.ranks(choice, persons[mask], chosen.ids, self.shared.own).sum())
            yield chosen
        if fingerprint.hexdigest() != scanned.input_hmac or (
            selection is not None and check % (1 << 64) != selection.check
        ):
            raise changed

    def _refuse_repeated(self, words: list[NDArray[np.uint64]], fingerprint: InputFingerprint) -> None:
        """Raise `InvalidInput` if ids repeat, given one word of each digest. Nothing is charged yet.

        Larger inputs are searched while they are randomized, after the release is charged.
        """
        ordered = np.sort(np.concatenate(words or [np.empty(0, np.uint64)]))
        words.clear()
        suspects = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        # 64 bits of two text ids may agree by chance, so the ids are compared
        if suspects.size and (rows := self._repeated_rows(fingerprint, suspects)):
            raise repeated_id(rows, "Nothing was released or charged")

    def _repeated_rows(self, fingerprint: InputFingerprint, suspects: NDArray[np.uint64] | pa.Array) -> tuple[int, ...]:
        """Return the first two rows with the same id, given words of digests or an array of ids."""
        words = fingerprint.digests(suspects).low if isinstance(suspects, pa.Array) else suspects
        rows: dict[object, int] = {}
        for batch in self._batches():
            for index in np.flatnonzero(np.isin(fingerprint.digests(batch.ids).low, words)).tolist():
                value, row = batch.ids[index].as_py(), batch.first_row + index
                if value in rows:
                    return rows[value], row
                rows[value] = row
        return ()


def _tell(progress: Progress | None, rows: int) -> None:
    if progress is not None:
        progress(rows)


@contextmanager
def prefetched(make: Callable[[], Generator[Item]]) -> Iterator[Iterator[Item]]:
    """Yield the items of the iterator that `make` returns. Another thread makes each item while the previous one is in use.

    The items, their order and the position of errors do not depend on the threads. At most one item is buffered. When
    the block ends, the iterator is closed, in its own thread, before the resources of the block.
    """
    with ThreadPoolExecutor(1, "labeldp-prefetch") as thread:
        items = make()
        try:
            yield _in_order(thread, items)
        finally:
            thread.submit(items.close).result()


def _in_order(thread: ThreadPoolExecutor, items: Iterator[Item]) -> Iterator[Item]:
    waiting: Future[object] = thread.submit(next, items, _END)
    while (item := waiting.result()) is not _END:
        waiting = thread.submit(next, items, _END)
        yield item  # type: ignore[misc]


def _add_held(spill: Spill, message: Message, randomness: KeyedRandomness) -> None:
    """Add all ids of a message to a spill, for comparison with new rows."""
    for ids, _ in (batch for file in message.files for batch in file.batches()):
        same = ids.cast(spill.id_type)
        digests = randomness.id_digests(same, digest=message.mechanism.digest_bytes)
        spill.add(same, digests, np.zeros(len(same), np.uint8))


def _mixed_types(before: pa.DataType, after: pa.DataType, row: int) -> InvalidInput:
    hint = (
        "convert them to one type first, or give --id-type str"
        if id_kind(before) == id_kind(after)
        else "give --id-type str to read all ids as text"
    )
    return InvalidInput(f"ids change their type from {before} to {after} at row {row + 1} (rows count from 1): {hint}")
