"""What a release asks of an engine: the passes over its input."""

from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.domain import Domain, OutOfRange
from labeldp.engines.scan import Progress, Scan
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.reader import Message


class LabelInput(Protocol):
    """Labels and their ids as an engine reads them, more than once: one pass checks, one may count, one randomizes.

    `release/` decides what happens in which order and writes everything but the labels. It calls `check_places` and
    `in_unit` first, then `scan`, and only after the release is charged `count_cells` and `randomize`. It passes the same `key`
    to all of them. Whatever the engine, equal keys, ids, labels and mechanisms give equal private labels.

    Errors name places and rows and never show a label or an id. An engine raises `InvalidInput` for an input that cannot be
    released and `OSError` or `MemoryError` for a machine that failed; `release/` then says what was charged and how to go on.
    """

    @property
    def label_column(self) -> str:
        """The name of the label column."""

    @property
    def id_column(self) -> str | None:
        """The name of the id column, or None if row numbers are the ids."""

    @property
    def id_name(self) -> str:
        """The name of the id column in the message."""

    @property
    def keeps_order(self) -> bool:
        """Whether `randomize` can write the rows in the order of the input."""

    @property
    def least_row_bytes(self) -> int:
        """The least disk space that a row takes beside the message while it is randomized, to refuse a full disk in time."""

    def check_places(self, message: Path, key_file: Path | None) -> None:
        """Refuses an input that cannot be read twice, or that the message or the key file would become a part of.

        Reads nothing. What holds for every input is checked by `release/`.
        """

    def in_unit(self, domain: Domain) -> "LabelInput":
        """The input, which reads durations in the unit of the domain. Refuses an input that names another unit."""

    def with_ids_as(self, id_type: pa.DataType) -> "LabelInput":
        """The input with ids of the type that they have in a message, for a later batch.

        It refuses integers that the type cannot hold. Ids of another kind stay as they are, and `Scan.id_kind` shows it.
        """

    def readable_as(self, id_kind: str) -> bool:
        """Whether all ids could be read as "int" or "str". Reads the input; only an error's advice depends on it."""

    def row_count(self) -> int | None:
        """The number of records if it is known without reading them, else None. Only a hint: `scan` counts."""

    def scan(
        self,
        domain: Domain,
        *,
        key: bytes,
        out_of_range: OutOfRange,
        grid: Domain | None = None,
        progress: Progress | None = None,
    ) -> Scan:
        """Checks, fingerprints (under `key`) and counts all records: per cell if a grid is given.

        Refuses repeated ids as far as memory allows, since nothing is charged yet. `randomize` refuses the others.
        """

    def count_cells(
        self, grid: Domain, scanned: Scan, *, key: bytes, advice: str, progress: Progress | None = None
    ) -> NDArray[np.int64]:
        """Exact counts of the labels per cell of a grid that was not known at the scan.

        Refuses an input that is not the one that was scanned; `advice` ends the error.
        """

    def randomize(
        self,
        mechanism: FiniteMechanism,
        domain: Domain,
        scanned: Scan,
        *,
        key: bytes,
        release: bytes,
        advice: str,
        labels: Path,
        work: Path,
        keep_order: bool = False,
        held: Message | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Draws every label and writes them to `labels`, a new file or folder. Returns the number of rows written.

        Privacy: labels are drawn with `KeyedRandomness(key, release)`, so a record that is drawn again gets the same draw. If the
        input is not the one that was scanned (`advice` ends the error), or an id is repeated, this raises, and what was written
        must not be used. Rows come in an order that depends on their ids only, unless `keep_order`.

        `work` is an empty folder on the disk of `labels`, which is removed later. Rows whose ids are in the message `held`
        are drawn and not written; `keep_order` cannot be had then. `progress` is told of every record twice.
        """
