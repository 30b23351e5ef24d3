"""`manifest.json`: every file of a message with its SHA-256, size and number of rows, and perhaps the sender's signature.

    {"manifest": {…}, "signature": {…} or null}

The signature is over the canonical text of the first part (see `Manifest.canonical`). Both are in one file because a later
batch replaces them, and one file is replaced by one rename. A batch that is a folder has one entry for each of its parts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

from labeldp.errors import InvalidInput
from labeldp.json_text import parse_json, read_bytes
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.description import epsilon_parts
from labeldp.message.labels_file import FORMATS
from labeldp.message.layout import CARD, DESCRIPTION, MANIFEST, MESSAGE_VERSION, batch_name, check_version, labels_path
from labeldp.message.listing import DESKTOP_FILES, ListedBatch, ListedFile, canonical_text
from labeldp.message.signing import SigningKey, VerifyKey

FORMAT = "labeldp-message"
ALGORITHM = "Ed25519"
MOST_BYTES = 1 << 26
"""A manifest of 250,000 files is shorter."""

_AGAIN = "Ask for the message again"


@dataclass(frozen=True)
class Manifest:
    """What a message consists of."""

    release: str
    epsilon_prior: str
    epsilon_labels: str
    epsilon_total: str
    files: tuple[ListedFile, ...]

    @classmethod
    def of(cls, release: str, mechanism: FiniteMechanism, files: tuple[ListedFile, ...]) -> Manifest:
        """The manifest of a message with this mechanism and these files."""
        return cls(release, **epsilon_parts(mechanism), files=files)

    @property
    def labels(self) -> tuple[ListedFile, ...]:
        """The labels files, in the order of their batches and parts."""
        return tuple(file for file in self.files if file.rows is not None)

    @property
    def batches(self) -> tuple[ListedBatch, ...]:
        """The batches, in their order."""
        groups = groupby(self.labels, key=lambda file: batch_name(file.name))
        return tuple(ListedBatch(name, tuple(files)) for name, files in groups)

    @property
    def papers(self) -> tuple[str, ...]:
        """The digests of `mechanism.json` and `PRIVACY.md`."""
        return tuple(file.sha256 for file in self.files if file.rows is None)

    @property
    def records(self) -> int:
        """The number of records in all batches."""
        return sum(file.rows or 0 for file in self.files)

    def canonical(self) -> bytes:
        """The text that is signed: JSON in ASCII with sorted keys and no spaces, so that one manifest has one text."""
        return canonical_text(self._record())

    def content(self, key: SigningKey | None) -> bytes:
        """The content of `manifest.json`, signed if there is a key. Refuses more files than readers take."""
        signature = key and {
            "algorithm": ALGORITHM,
            "key": key.verify_key.fingerprint,
            "value": key.sign(self.canonical()),
        }
        text = json.dumps({"manifest": self._record(), "signature": signature}, indent=1) + "\n"
        if len(text) > MOST_BYTES:
            raise InvalidInput(
                f"the message would have {len(self.files):,} files, and its {MANIFEST} more than {MOST_BYTES:,} bytes, which no reader "
                "takes. Write the batch in fewer parts"
            )
        return text.encode("ascii")

    def check_files(self, folder: Path, *, allowed: str | None = None) -> None:
        """Refuses a folder in which a file is missing, is not the listed one, or is not listed.

        The batch of the name `allowed` may be there, and is not looked at.
        """
        for file in self.files:
            file.check(folder)
        listed = {MANIFEST, *(file.name for file in self.files)}
        for name in sorted(_files_in(folder)):
            if name not in listed and batch_name(name) != allowed and not DESKTOP_FILES.fullmatch(Path(name).name):
                raise InvalidInput(self._unlisted(folder, name))

    def ignored_files(self, folder: Path) -> list[str]:
        """The files in the folder that are no part of the message and were left there by a desktop."""
        return sorted(name for name in _files_in(folder) if DESKTOP_FILES.fullmatch(Path(name).name))

    def _unlisted(self, folder: Path, name: str) -> str:
        text = f"{folder / name} is not listed in {MANIFEST}"
        further = (labels_path(Path(), len(self.batches), suffix) for suffix in FORMATS)
        if any(re.fullmatch(rf"{re.escape(path.as_posix())}(/part-\d{{5}}\{path.suffix})?", name) for path in further):
            return (
                f"{text}: a run of apply is under way or was interrupted, or somebody added the file. The labels party must run "
                "apply with the same batch again before it sends the message"
            )
        return f"{text}: a message has no other files. Move it out of the folder, or ask for the message again"

    def _record(self) -> dict[str, Any]:
        return {"format": FORMAT, "format_version": MESSAGE_VERSION, "records": self.records} | asdict(self)


@dataclass(frozen=True)
class Signature:
    """Who claims to have signed a manifest, by the fingerprint of the key, and whether that was verified."""

    key: str
    value: str
    verified: bool = False


def read_manifest(folder: Path, verify: VerifyKey | None = None) -> tuple[Manifest, Signature | None]:
    """The manifest of a message and its signature. With `verify`, only one that was signed with that key.

    Nothing else in the folder is read.
    """
    path = folder / MANIFEST
    try:
        record = _json(path)
        manifest, signature = _manifest(record["manifest"]), _signature(record["signature"])
    except InvalidInput:
        raise
    except (KeyError, TypeError) as error:
        raise InvalidInput(f"{path} is damaged: a part of it is missing or of another kind. {_AGAIN}") from error
    except ValueError as error:
        raise InvalidInput(f"{path} is damaged: {error}. {_AGAIN}") from error
    if verify is None:
        return manifest, signature
    if signature is None:
        raise InvalidInput(f"{folder} is not signed, so nothing shows who sent it. Ask for a signed message")
    if not verify.accepts(signature.value, manifest.canonical()):
        raise InvalidInput(
            f"{folder} was not signed with the key {verify.fingerprint}, or was edited after it was signed"
            f"{'' if signature.key == verify.fingerprint else f'; it names the key {signature.key}'}. Do not use it"
        )
    return manifest, Signature(verify.fingerprint, signature.value, verified=True)


def _json(path: Path) -> Any:
    if not path.is_file():
        raise InvalidInput(
            f"{path.parent} has no {MANIFEST}: it was lost, or the message was made by a labeldp that wrote none. {_AGAIN}"
        )
    try:
        return parse_json(read_bytes(path, MOST_BYTES), path)
    except InvalidInput as error:
        raise InvalidInput(f"{error}. {_AGAIN}") from None


def _manifest(record: dict[str, Any]) -> Manifest:
    """The manifest from its record, with every field as `Manifest._record` writes it and none besides."""
    if record["format"] != FORMAT:
        raise ValueError(f"its format is not {FORMAT}")
    check_version(record["format_version"])
    files = tuple(ListedFile(**entry) for entry in record["files"])
    if not all(map(_well_formed, files)):
        raise ValueError("the SHA-256, the size or the rows of a file are not such")
    texts = {one.name: record[one.name] for one in fields(Manifest) if one.name != "files"}
    if not all(isinstance(text, str) for text in texts.values()):
        raise ValueError(f"one of {', '.join(texts)} is not text")
    manifest = Manifest(**texts, files=files)
    if manifest.canonical() != canonical_text(record):
        raise ValueError("it has further parts, or its number of records is not the sum of its files")
    if not any(_are_a_message(manifest, suffix) for suffix in FORMATS):
        raise ValueError("it lists other names than a message has")
    return manifest


def _well_formed(file: ListedFile) -> bool:
    counts = (file.bytes,) if file.name in (DESCRIPTION, CARD) else (file.bytes, file.rows)
    return (
        isinstance(file.name, str)
        and isinstance(file.sha256, str)
        and re.fullmatch("[0-9a-f]{64}", file.sha256) is not None
        and (file.rows is None) == (len(counts) == 1)
        and all(type(count) is int and count >= 0 for count in counts)
    )


def _are_a_message(manifest: Manifest, suffix: str) -> bool:
    """Whether the files are listed under the names that a message has, in their order."""
    papers, batches = [file.name for file in manifest.files[:2]], manifest.batches
    in_order = papers == [DESCRIPTION, CARD] and manifest.files[2:] == manifest.labels
    return in_order and bool(batches) and all(batch.is_batch(n, suffix) for n, batch in enumerate(batches))


def _signature(record: dict[str, Any] | None) -> Signature | None:
    if record is None:
        return None
    if record["algorithm"] != ALGORITHM or not all(isinstance(record[name], str) for name in ("key", "value")):
        raise ValueError(f"its signature is not of the kind {ALGORITHM}")
    if not re.fullmatch("[0-9a-f]{64}", record["key"]):
        raise ValueError("its signature names no key")
    return Signature(record["key"], record["value"])


def _files_in(folder: Path) -> Iterator[str]:
    """The names of all files in the folder and below it. Links are not followed: a link is a file."""
    for place, folders, files in os.walk(folder):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        yield from ((Path(place) / name).relative_to(folder).as_posix() for name in (*files, *links))
