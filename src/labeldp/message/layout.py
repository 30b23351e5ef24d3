"""The layout of a message's folder: its version and the names of its files.

    message/
      manifest.json              what the message consists of, by digest, and the sender's signature
      mechanism.json             the mechanism and the release, public
      PRIVACY.md                 the guarantee in plain words
      labels.parquet             the first batch: id, code and private label of each record
      labels/part-00001.parquet  later batches, numbered from 1

The suffix of the labels files says which format they have (see `labels_file.FORMATS`).
"""

from pathlib import Path

from labeldp.errors import InvalidInput

MESSAGE_VERSION = 2
"""Version 1 had no manifest. Both JSON files say the version, and the signature is made for it."""

MANIFEST = "manifest.json"
DESCRIPTION = "mechanism.json"
CARD = "PRIVACY.md"
SUFFIX = ".parquet"
"""The format in which new messages are written."""


def labels_path(folder: Path, batch: int, suffix: str | None = None) -> Path:
    """The labels file of a batch; 0 is the batch that the message was made with. Its format is `SUFFIX` unless given."""
    suffix = suffix or SUFFIX
    return folder / f"labels{suffix}" if batch == 0 else folder / "labels" / f"part-{batch:05d}{suffix}"


def check_version(version: object) -> None:
    """Refuses a message of another version than this labeldp writes."""
    if version != MESSAGE_VERSION:
        raise InvalidInput(
            f"the message has version {version!r:.20}, but this labeldp reads version {MESSAGE_VERSION}. Install the labeldp that "
            "wrote it, or a newer one"
        )
