"""The layout of a message's folder: its version and the names of its files.

    message/
      manifest.json              what the message consists of, by digest, and the sender's signature
      mechanism.json             the mechanism and the release, public
      PRIVACY.md                 the guarantee in plain words
      labels.parquet             the first batch: id, code and private label of each record
      labels/part-00001.parquet  later batches, numbered from 1

A batch is one file, as above, or a folder of that name with the parts of the batch, numbered from 0 without a gap. A cluster
writes parts; one machine writes a file. Rows follow each other in the order of the parts, and a part may hold no rows.

      labels.parquet/part-00000.parquet
      labels.parquet/part-00001.parquet
      labels/part-00001.parquet/part-00000.parquet

The suffix of the labels files says which format they have (see `labels_file.FORMATS`).
"""

from pathlib import Path, PurePosixPath

from labeldp.errors import InvalidInput

MESSAGE_VERSION = 2
"""Version 1 had no manifest. Both JSON files say the version, and the signature is made for it.

Parts came later and are version 2 too: messages without parts are what they were, and a reader from before parts refuses their
names in the manifest."""

MANIFEST = "manifest.json"
DESCRIPTION = "mechanism.json"
CARD = "PRIVACY.md"
SUFFIX = ".parquet"
"""The format in which new messages are written."""
MOST_PARTS = 100_000
"""So many parts have numbers of five digits."""


def labels_path(folder: Path, batch: int, suffix: str | None = None) -> Path:
    """The labels of a batch, a file or a folder of parts; 0 is the first batch. Their format is `SUFFIX` unless given."""
    suffix = suffix or SUFFIX
    return folder / f"labels{suffix}" if batch == 0 else folder / "labels" / f"part-{batch:05d}{suffix}"


def part_path(labels: Path, part: int) -> Path:
    """One part of a batch whose labels are a folder. Parts count from 0 and have the format that the folder's name says."""
    return labels / f"part-{part:05d}{labels.suffix}"


def batch_name(file: str) -> str:
    """The name of the batch that a labels file of this name belongs to: its own name, or that of the folder of parts."""
    folder = PurePosixPath(file).parent
    return folder.as_posix() if folder.suffix else file


def check_version(version: object) -> None:
    """Refuses a message of another version than this labeldp writes."""
    if version != MESSAGE_VERSION:
        raise InvalidInput(
            f"the message has version {version!r:.20}, but this labeldp reads version {MESSAGE_VERSION}. Install the labeldp that "
            "wrote it, or a newer one"
        )
