"""The kinds of release: their names in manifests and ledgers, the files in their folders, and whether they can be resumed."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Self

CARD = "PRIVACY.md"


class ReleaseKind(StrEnum):
    """A kind of release. Its value is its name in manifests and ledgers.

    Attributes
    ----------
    noun : str
        The name of the folder in errors, with its article.
    description : str
        The file that describes the release.
    data : str
        The stem of the data files: "labels" for labels.parquet and labels/part-00001.parquet.
    suffix : str
        The ending of the data files.
    resumable : bool
        Whether draws are a function of a key. If so, a key file can resume the release, and the ledger records its
        mechanism and when it is complete. Other kinds are drawn at once and need not be committed.
    """

    noun: str
    description: str
    data: str
    resumable: bool
    suffix: str

    def __new__(
        cls, value: str, noun: str, description: str, data: str, resumable: bool, suffix: str = ".parquet"
    ) -> Self:
        """Make a kind from one line of the list below."""
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.noun, kind.description, kind.data, kind.resumable = noun, description, data, resumable
        kind.suffix = suffix
        return kind

    LABELS = "labels", "a message", "mechanism.json", "labels", True
    SUMS = "sums", "an answer with sums", "sums.json", "records", False
    SCORE = "score", "a score", "score.json", "figures", False, ".csv"
    REPORT = "report", "a report", "report.json", "figures", False, ".csv"

    def batch_path(self, folder: Path, batch: int) -> Path:
        """Return the path of a batch, a file or a folder of parts; 0 is the first batch."""
        return folder / f"{self.data}{self.suffix}" if batch == 0 else folder / self.data / f"part-{batch:05d}.parquet"

    @property
    def papers(self) -> list[str]:
        """The files that contain text, in the order of the manifest."""
        return [self.description, CARD]


LABELS, SUMS, SCORE, REPORT = ReleaseKind
