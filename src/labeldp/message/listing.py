"""What a manifest lists: the files of a message, and the batches that its labels files are."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from labeldp.errors import InvalidInput
from labeldp.message.labels_file import file_digest
from labeldp.message.layout import MANIFEST, MOST_PARTS, labels_path, part_path

DESKTOP_FILES = re.compile(r"\.DS_Store|\._.*|Thumbs\.db|desktop\.ini|\.directory|\.~lock\..*#", re.IGNORECASE)
"""Files that a desktop writes into a folder when somebody looks at it or opens a file in it. They are ignored, and never read."""

_AGAIN = "Ask for the message again"


@dataclass(frozen=True)
class ListedFile:
    """One file of a message: its name in the folder, SHA-256 and size, and for labels the number of rows."""

    name: str
    sha256: str
    bytes: int
    rows: int | None = None

    @classmethod
    def of(cls, file: Path, name: str, rows: int | None = None) -> ListedFile:
        """The entry for a file as it is on disk, which will have that name in the message."""
        return cls(name, file_digest(file), file.stat().st_size, rows)

    def check(self, folder: Path) -> None:
        """Refuses a file that is missing or not the listed one, byte by byte."""
        path = folder / self.name
        refuse_links(folder, self.name)
        if not path.is_file():
            raise InvalidInput(f"{folder} is not a whole message: {self.name} is missing. {_AGAIN}")
        try:
            same = path.stat().st_size == self.bytes and file_digest(path) == self.sha256
        except OSError as error:
            raise InvalidInput(f"cannot read {path}: {error.strerror}") from error
        if not same:
            hint = (
                ""
                if self.rows is not None
                else ". A message travels as bytes: programs that change the ends of lines, such as git, break it"
            )
            raise InvalidInput(
                f"{path} was edited or damaged: its size or SHA-256 is not the one in {MANIFEST}. Use an untouched copy, or ask "
                f"for the message again{hint}"
            )


@dataclass(frozen=True)
class ListedBatch:
    """One batch of a message: the name of its file or of its folder of parts, and the entries of its files in their order."""

    name: str
    files: tuple[ListedFile, ...]

    @classmethod
    def of(cls, labels: Path, name: str, count: Callable[[Path], int]) -> ListedBatch:
        """The entries for a file or a folder of parts as it is on disk, which will have that name in the message.

        Refuses links and a folder that holds anything but its parts. `count` gives the number of rows of a file, and refuses
        one that does not belong into the message.
        """
        refuse_links(labels.parent, labels.name)
        if not labels.is_dir():
            return cls(name, (ListedFile.of(labels, name, count(labels)),))
        return cls(name, tuple(ListedFile.of(part, f"{name}/{part.name}", count(part)) for part in _parts_in(labels)))

    @property
    def rows(self) -> int:
        """The number of records."""
        return sum(file.rows or 0 for file in self.files)

    @property
    def sha256(self) -> str:
        """What the key file knows the batch by: a file's own SHA-256, or that of the canonical text of the entries of all parts."""
        if self._names_are_a_file:
            return self.files[0].sha256
        return hashlib.sha256(canonical_text([asdict(file) for file in self.files])).hexdigest()

    def is_batch(self, number: int, suffix: str) -> bool:
        """Whether the names are those of this batch of a message: one file, or parts without a gap."""
        path = labels_path(Path(), number, suffix)
        if self._names_are_a_file:
            return self.name == path.as_posix()
        names = [part_path(path, part).as_posix() for part in range(len(self.files))]
        return len(names) <= MOST_PARTS and [file.name for file in self.files] == names

    @property
    def _names_are_a_file(self) -> bool:
        return [file.name for file in self.files] == [self.name]


def canonical_text(record: object) -> bytes:
    """JSON in ASCII with sorted keys and no spaces, so that one record has one text."""
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode("ascii")


def _parts_in(folder: Path) -> list[Path]:
    """The parts in the folder of a batch, which must hold at least one and nothing besides."""
    held = sorted(path for path in folder.iterdir() if not DESKTOP_FILES.fullmatch(path.name))
    parts = [part_path(folder, part) for part in range(len(held))]
    if not parts:
        raise InvalidInput(f"{folder} holds no labels: a batch that is a folder has at least one part")
    if len(parts) > MOST_PARTS:
        raise InvalidInput(f"{folder} has {len(parts):,} files, and a batch has at most {MOST_PARTS:,} parts")
    for path, part in zip(held, parts, strict=True):
        refuse_links(folder, path.name)
        if path != part or not path.is_file():
            raise InvalidInput(
                f"{path} is not a part of the batch: its folder may hold {parts[0].name} and so on, without a gap, and nothing else"
            )
    return parts


def refuse_links(folder: Path, name: str) -> None:
    """Refuses a file that is a link or lies behind one inside the folder."""
    path = folder
    for step in Path(name).parts:
        path = path / step
        if path.is_symlink():
            raise InvalidInput(
                f"{path} is a link, and what it points to can change: copy the files themselves, or ask for them again"
            )
