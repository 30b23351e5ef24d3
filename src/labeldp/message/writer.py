"""Writes the folder of a new message."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labeldp.mechanisms import FiniteMechanism
from labeldp.message.description import Header, describe
from labeldp.message.labels_file import labels_file
from labeldp.message.layout import CARD, DESCRIPTION, MANIFEST, labels_path
from labeldp.message.listing import ListedBatch, ListedFile
from labeldp.message.manifest import Manifest
from labeldp.message.privacy_card import privacy_card_text
from labeldp.message.signing import SigningKey


@contextmanager
def new_message(
    folder: Path, mechanism: FiniteMechanism, header: Header, key: SigningKey | None = None
) -> Iterator[Path]:
    """Makes the folder of a message and everything in it but the labels, whose path it gives to the block to write.

    The block writes one file there, or makes a folder of parts (see `layout.part_path`). The manifest is written last, and
    signed if there is a key.
    """
    folder.mkdir()
    labels = labels_path(folder, 0)
    yield labels
    for name, text in ((DESCRIPTION, describe(mechanism, header)), (CARD, privacy_card_text(mechanism, header))):
        (folder / name).write_bytes(text.encode())  # the same bytes on every system
    papers = tuple(ListedFile.of(folder / name, name) for name in (DESCRIPTION, CARD))
    batch = ListedBatch.of(labels, labels.name, lambda path: labels_file(path, header, mechanism).count_written())
    (folder / MANIFEST).write_bytes(Manifest.of(header.release, mechanism, papers + batch.files).content(key))
