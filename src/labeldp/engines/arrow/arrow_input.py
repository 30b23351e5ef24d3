"""`ArrowInput`: files of labels for a release on one machine."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.domain import Domain, OutOfRange
from labeldp.engines.arrow import engine
from labeldp.engines.arrow.faults import reported_together
from labeldp.engines.arrow.held_ids import spill_of_held
from labeldp.engines.arrow.integer_ids import with_integer_type
from labeldp.engines.arrow.repeated_ids import without_duplicates
from labeldp.engines.arrow.source import PARQUET_SUFFIXES, LabelSource, belongs_to, count_rows
from labeldp.engines.arrow.unchanged import unchanged
from labeldp.engines.scan import Progress, Scan
from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.reader import Message
from labeldp.sampling import KeyedRandomness


@dataclass(frozen=True)
class ArrowInput:
    """A `LabelInput` that streams a source in bounded memory. See there for what the methods promise."""

    source: LabelSource
    keeps_order: ClassVar[bool] = True
    least_row_bytes: ClassVar[int] = 9
    """While a row is sorted: a key of 8 bytes and a code."""

    @property
    def label_column(self) -> str:
        return self.source.label_column

    @property
    def id_column(self) -> str | None:
        return self.source.id_column

    @property
    def id_name(self) -> str:
        return self.source.id_name

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
                f"the source's unit is {unit}, but that of the bounds is {domain.unit or 'not named'}: name it once, in the "
                f'domain, as in Domain({domain.lower:g}, {domain.upper:g}, unit="{unit}")'
            )
        return ArrowInput(replace(self.source, unit=domain.unit))

    def with_ids_as(self, id_type: pa.DataType) -> "ArrowInput":
        return ArrowInput(with_integer_type(self.source, id_type)) if pa.types.is_integer(id_type) else self

    def readable_as(self, id_kind: str) -> bool:
        try:
            for _ in replace(self.source, id_type=id_kind).batches():
                pass
        except InvalidInput:
            return False
        return True

    def row_count(self) -> int | None:
        return self._parquet_rows

    def scan(
        self,
        domain: Domain,
        *,
        key: bytes,
        out_of_range: OutOfRange,
        grid: Domain | None = None,
        progress: Progress | None = None,
    ) -> Scan:
        source = without_duplicates(self.source, self.row_count())
        with reported_together(self.source, domain, out_of_range):
            return engine.scan(source, domain, key=key, out_of_range=out_of_range, grid=grid, progress=progress)

    def count_cells(
        self, grid: Domain, scanned: Scan, *, key: bytes, advice: str, progress: Progress | None = None
    ) -> NDArray[np.int64]:
        return engine.count_cells(unchanged(self.source, scanned, key, advice), grid, progress=progress)

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
        randomness = KeyedRandomness(key, release)
        return engine.randomize(
            unchanged(self.source, scanned, key, advice),
            mechanism,
            domain,
            randomness,
            scanned,
            labels_file=labels,
            work=work,
            keep_order=keep_order,
            released=None if held is None else spill_of_held(held, scanned.id_type, randomness),
            released_rows=0 if held is None else held.records,
            progress=progress,
        )

    @cached_property
    def _parquet_rows(self) -> int | None:
        """The number of records if Parquet's metadata tell it. Other formats would have to be read for it."""
        if all(file.suffix.lower() in PARQUET_SUFFIXES for file in self.source.files()):
            return count_rows(self.source)
        return None
