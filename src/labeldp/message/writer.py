"""Writes the folder of a new message."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labeldp.mechanisms import FiniteMechanism
from labeldp.message.layout import CARD, DESCRIPTION, labels_path
from labeldp.message.manifest import Header, describe
from labeldp.message.privacy_card import privacy_card_text


@contextmanager
def new_message(folder: Path, mechanism: FiniteMechanism, header: Header) -> Iterator[Path]:
    """Makes the folder of a message and everything in it but the labels, whose path it gives to the block to write."""
    folder.mkdir()
    yield labels_path(folder, 0)
    (folder / DESCRIPTION).write_text(describe(mechanism, header), encoding="utf-8")
    (folder / CARD).write_text(privacy_card_text(mechanism, header), encoding="utf-8")
