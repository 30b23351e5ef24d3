"""The key file: the labels party's secret key, the releases made with it, and the batches that each has released.

It is a JSON file that only its owner can read. It is as sensitive as the labels.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from labeldp.artifact.manifest import RELEASE_ID
from labeldp.artifact.signing import require_private
from labeldp.artifact.staging import exclusive, flush
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.json_text import parse_json, read_record, read_text
from labeldp.sampling.table import Words

FORMAT = "labeldp-key"
FORMAT_VERSION = 1
KEY_BYTES = 32


@dataclass(frozen=True)
class KeptRelease:
    """One release made with this key, recorded when its mechanism is fixed.

    `parts` are the digests of the batches in the message. The first one is recorded before the message is published.
    `pending` is the fingerprint of a batch that was begun and not recorded as finished. Its file may or may not be in
    the message, so only the same batch may come next. `pending_part` is the digest of that file, recorded after the
    draw and before it is added to the message, and `pending_papers` are `papers` with the new card. `ledger` is true if
    the release was charged to a ledger, which must then record later batches. `papers` are the digests of
    `mechanism.json` and `PRIVACY.md`, and `signed_by` is the fingerprint of the key that signed the message, if any.
    With these `apply` detects changes to a message, or a missing signature, and does not sign them. `served` are the
    digests of the files next to the key file that list the persons of each batch, if the unit of privacy is a person.
    If several labels share the persons, `batches` are the fingerprints of persons and ids of later batches, including a
    begun one.
    """

    id: str
    id_type: str
    input_hmac: str
    request: str
    mechanism: str
    done: bool = False
    parts: tuple[str, ...] = ()
    pending: str | None = None
    ledger: bool = False
    pending_part: str | None = None
    pending_papers: tuple[str, ...] = ()
    papers: tuple[str, ...] = ()
    signed_by: str | None = None
    served: tuple[str, ...] = ()
    batches: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not RELEASE_ID.fullmatch(self.id):
            raise InvalidInput("the id of a release in it")


@dataclass(frozen=True)
class _Content:
    """The file."""

    key: str
    releases: tuple[KeptRelease, ...]
    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    warning: str = (
        "as sensitive as the labels: anyone with this key can undo the noise. Use it in one place only: a copy does not learn "
        "what was released with the other."
    )


class KeyFile:
    """A key and its releases, used by one run at a time. Changes are completely on disk before a call returns.

    Get one from `KeyFile.use`, which locks the file for the whole run. Without the lock, two runs could overwrite each
    other's releases, and a forgotten batch could be drawn twice.
    """

    def __init__(self, path: Path, key: bytes, releases: dict[str, KeptRelease], *, stored: bool) -> None:
        self.path, self.key, self.stored = path, key, stored
        self._releases = releases

    @classmethod
    @contextmanager
    def use(cls, path: Path, *, create: bool = False) -> Iterator[KeyFile]:
        """Open the key file at `path`, locked until the block ends. With `create`, make a new key if the file does not exist.

        A new key stays in memory until `save` or `put`, so a run that fails before leaves no file. A symbolic link is
        resolved first, because replacing the link itself would leave an outdated key file at its target.
        """
        place = path.resolve()
        if not create and not place.exists():
            raise InvalidInput(f"there is no key file {path}. Give the one that privatize wrote for this message")
        with exclusive(place, f"the key file {path}"):
            _new_copy(place).unlink(missing_ok=True)  # a killed run may have left it
            yield (
                cls._read(place, path)
                if os.path.lexists(place)
                else cls(place, os.urandom(KEY_BYTES), {}, stored=False)
            )

    @classmethod
    def _read(cls, place: Path, shown: Path) -> KeyFile:
        if not place.is_file():
            raise InvalidInput(f"{shown} is not a file: give the path of a key file, or a new path to make one")
        require_private(shown, f"the key file {shown}", "and it is as sensitive as the labels")
        try:
            record = parse_json(read_text(place, shown), shown)
        except InvalidInput as error:
            raise InvalidInput(
                f"{error}, so it is not a labeldp key file. Check the path, or restore the file"
            ) from None
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise InvalidInput(f"{shown} is not a labeldp key file. Check the path, or give a new path to make one")
        if record.get("format_version") != FORMAT_VERSION:
            raise InvalidInput(
                f"the key file {shown} has version {record.get('format_version')!r}, but this labeldp reads version "
                f"{FORMAT_VERSION}. Install the labeldp that wrote it, or a newer one"
            )
        try:
            content = read_record(_Content, record, "it")
            key = bytes.fromhex(content.key)
        except InvalidInput as error:
            raise InvalidInput(f"the key file {shown} is damaged ({error}). Restore it from a backup") from None
        except ValueError:  # its message may show a part of the key
            raise InvalidInput(f"the key file {shown} is damaged (its key). Restore it from a backup") from None
        if len(key) != KEY_BYTES:
            raise InvalidInput(
                f"the key in {shown} has {len(key)} bytes and must have {KEY_BYTES}: the file is damaged. Restore it from a backup"
            )
        return cls(place, key, {release.id: release for release in content.releases}, stored=True)

    @property
    def releases(self) -> tuple[KeptRelease, ...]:
        """All releases made with this key, oldest first."""
        return tuple(self._releases.values())

    def find(self, release: str) -> KeptRelease | None:
        """Return the release with this id, or None."""
        return self._releases.get(release)

    def resumable(self, input_hmac: str, request: str) -> KeptRelease | None:
        """Return an unfinished release of the same input and request, or None."""
        wanted = (input_hmac, request)
        begun = (kept for kept in self.releases if not kept.done and (kept.input_hmac, kept.request) == wanted)
        return next(begun, None)

    def save(self) -> None:
        """Write a new key to disk. This must happen before anything is charged or drawn with it."""
        if not self.stored:
            self._write(self._releases)

    def put(self, release: KeptRelease) -> KeptRelease:
        """Add or replace a release. It is on disk before the call returns."""
        self._write(self._releases | {release.id: release})
        return release

    def serve(self, release: str, persons: Iterable[Words]) -> str:
        """Write the next file of persons who have private labels, their keyed words in ascending order. Return its digest.

        The caller records the digest with the release. Until then the file is ignored and may be overwritten.
        """
        known = self.find(release)
        place = self._served_file(release, 0 if known is None else len(known.served))
        digest = hashlib.sha256()
        try:
            place.unlink(missing_ok=True)
            with open(place, "xb", opener=partial(os.open, mode=0o600)) as file:
                for words in persons:
                    content = np.ascontiguousarray(words, "<u8").tobytes()
                    digest.update(content)
                    file.write(content)
            flush(place)
            flush(place.parent)
        except OSError as error:
            raise LabelDPError(
                f"cannot write the file of persons {place}: {error.strerror}. Fix the cause and run the same command again"
            ) from error
        return digest.hexdigest()

    def served(self, kept: KeptRelease) -> list[Words]:
        """Return the words of all persons whom a release has served, in sorted arrays that are read from disk on demand."""
        found: list[Words] = []
        for number, wanted in enumerate(kept.served):
            place = self._served_file(kept.id, number)
            try:
                with place.open("rb") as file:
                    intact = hashlib.file_digest(file, "sha256").hexdigest() == wanted
                size = place.stat().st_size
            except OSError:
                intact, size = False, 0
            if not intact:
                raise InvalidInput(
                    f"{place}, which lists the persons in the message, is missing or was changed. Without it a person could get a second "
                    "label: restore it, or make a new release with privatize, which is charged"
                )
            found.append(np.memmap(place, "<u8", "r") if size else np.empty(0, np.uint64))
        return found

    def _served_file(self, release: str, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{release[:12]}.persons-{number}")

    def _write(self, releases: dict[str, KeptRelease]) -> None:
        record = asdict(_Content(self.key.hex(), tuple(releases.values())))
        copy = _new_copy(self.path)
        try:
            with open(copy, "xb", opener=partial(os.open, mode=0o600)) as file:
                file.write(json.dumps(record, indent=1).encode())
            flush(copy)
            copy.replace(self.path)
            flush(self.path.parent)
        except BaseException as error:
            copy.unlink(missing_ok=True)  # it contains the key, and an interrupted run may still write there
            if not isinstance(error, OSError):
                raise
            raise LabelDPError(
                f"cannot write the key file {self.path}: {error.strerror}. Fix the cause and run the same command again"
            ) from error
        self._releases, self.stored = releases, True


def _new_copy(path: Path) -> Path:
    """Return the path where the next version is written before it replaces the file."""
    return path.with_name(f".{path.name}.labeldp-new")
