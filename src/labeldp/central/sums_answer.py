"""The folder with which the labels party answers: `sums.json`, `records.parquet` and `PRIVACY.md`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from labeldp.central.private_sums import PrivateSums
from labeldp.engines.batches import checked_ids
from labeldp.errors import InvalidInput, PrivacyRefused, why_unreadable
from labeldp.json_text import read_text
from labeldp.message.listing import DESKTOP_FILES, refuse_links
from labeldp.tables.parquet import check_density, open_parquet, rows_in

READ_ROWS = 1 << 19
SUMS, RECORDS, CARD = "sums.json", "records.parquet", "PRIVACY.md"


def is_answer(path: Path) -> bool:
    """Whether a folder is an answer with sums, as far as its file names tell."""
    return path.is_dir() and (path / SUMS).is_file()


@dataclass(frozen=True, eq=False)
class SumsAnswer:
    """Noisy sums, and the ids of the records that were summed.

    Attributes
    ----------
    path : Path
        The folder.
    sums : PrivateSums
        A histogram, then sums against signs, then sums over cells.
    ids : pyarrow.Array
        The ids of the records, sorted.
    """

    path: Path
    sums: PrivateSums
    ids: pa.Array

    @classmethod
    def open(cls, path: str | Path) -> SumsAnswer:
        """Read a folder, and prove ε again. Refuse links, files that do not belong there, and files that contradict each other.

        There are no digests and no signature: numbers or ids that were replaced by other possible ones are not noticed, nor is
        another `PRIVACY.md`.
        """
        folder = Path(path)
        if not is_answer(folder):
            raise InvalidInput(
                f"{folder} is not an answer with sums: labeldp sums writes a folder with {SUMS} and {RECORDS}"
            )
        _check_files(folder)
        try:
            sums = PrivateSums.from_json(read_text(folder / SUMS))
        except PrivacyRefused:
            raise
        except InvalidInput as error:
            raise InvalidInput(
                f"{folder / SUMS} is damaged: {error}. Copy the folder again, or ask for it again"
            ) from None
        return cls(folder, sums, _read_ids(folder / RECORDS, sums.records))


def _check_files(folder: Path) -> None:
    """Raise `InvalidInput` for links and for files that `write_answer` does not write, except those that desktops leave."""
    for file in sorted(folder.iterdir()):
        refuse_links(folder, file.name)
        if file.name not in (SUMS, RECORDS, CARD) and not DESKTOP_FILES.fullmatch(file.name):
            raise InvalidInput(f"{file} does not belong to an answer with sums: remove it, or ask for the folder again")


def write_answer(
    folder: Path, sums: PrivateSums, ids: pa.Array, id_column: str, names: Sequence[Sequence[str]]
) -> None:
    """Fill an empty folder. `names` are the columns that each answer after the histogram is about."""
    sorted_ids = ids.take(pc.array_sort_indices(ids))
    (folder / SUMS).write_text(sums.to_json(), encoding="utf-8")
    pq.write_table(pa.table([sorted_ids], [id_column]), folder / RECORDS, compression="zstd")
    (folder / CARD).write_text(sums.card() + _columns_text(sums, names), encoding="utf-8")


def _columns_text(sums: PrivateSums, names: Sequence[Sequence[str]]) -> str:
    """Which columns each answer is about, for the end of the card."""
    lines = [
        f"- Answer {place} ({answer.kind}): {', '.join(repr(name)[:60] for name in columns)}."
        for place, (answer, columns) in enumerate(zip(sums.answers[1:], names, strict=True), 2)
    ]
    return (
        f"\n## The columns\n\n{SUMS} has a histogram of the labels first. Then it answers these columns:\n\n"
        + "\n".join(lines)
        + "\n"
    )


def _read_ids(file: Path, records: int) -> pa.Array:
    """Read the ids of this number of records, in batches, and stop at the first id that is not larger than the one before it.

    `write_answer` sorts the ids, so they are distinct exactly if they are strictly increasing.
    """
    if not file.is_file():
        raise InvalidInput(f"{file.parent} is not a whole answer: {file.name} is missing. Copy the folder again")
    wrong = InvalidInput(
        f"{file.parent} is damaged: {file.name} must list {records:,} different ids in ascending order, one for each label that was summed. "
        "Copy the folder again"
    )
    parts: list[pa.Array] = []
    try:
        with open_parquet(file, piecewise=True) as parquet:
            schema = parquet.schema_arrow
            if len(schema) != 1 or pa.types.is_nested(schema.types[0]):
                raise InvalidInput(f"{file} must have one column, the ids. Copy the folder again")
            if rows_in(parquet.metadata) != records:
                raise wrong
            check_density(records, file)
            for batch in parquet.iter_batches(READ_ROWS):
                ids = checked_ids(batch.column(0), schema.names[0], sum(map(len, parts)), file, None)
                if not _increasing(parts[-1][-1:] if parts else ids[:0], ids):
                    raise wrong
                parts.append(ids)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {file}: {why_unreadable(error)}. Copy the folder again") from None
    if sum(map(len, parts)) != records:
        raise wrong
    return pa.concat_arrays(parts)


def _increasing(last: pa.Array, ids: pa.Array) -> bool:
    """Whether ids are strictly increasing, also from the last one before them."""
    together = pa.concat_arrays([last, ids])
    return bool(pc.all(pc.less(together[:-1], together[1:]), min_count=0).as_py())
