"""The labels party's key, and what must stay with it: which releases it randomized, and what each has released.

A JSON file that only its owner can read. It is as sensitive as the labels.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from labeldp.errors import InvalidInput

FORMAT = "labeldp-key"
FORMAT_VERSION = 1
KEY_BYTES = 32


@dataclass(frozen=True)
class KeptRelease:
    """One release under this key. `mechanism` is set once it is fixed; `parts` counts the batches in the message.

    `pending` is the input of a batch whose file may or may not be in the message: only that input may follow.
    """

    id: str
    id_type: str
    input_hmac: str
    request: str
    mechanism: str | None = None
    done: bool = False
    parts: int = 0
    pending: str | None = None


@dataclass(frozen=True)
class KeyFile:
    """A key and its releases. Changes are written at once, atomically."""

    path: Path
    key: bytes = field(repr=False)
    releases: tuple[KeptRelease, ...] = ()

    @classmethod
    def open(cls, path: Path) -> KeyFile:
        """An existing key file, refused if others can read it or it is not whole."""
        if not path.is_file():
            raise InvalidInput(f"there is no key file {path}")
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            raise InvalidInput(
                f"the key file {path} can be read by others (mode {mode:o}), and it is as sensitive as the labels. Run: chmod 600 {path}"
            )
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            known = isinstance(record, dict) and record.get("format") == FORMAT
        except (ValueError, UnicodeDecodeError):
            known = False
        if not known:
            raise InvalidInput(f"{path} is not a labeldp key file; give a new path and one is made")
        if record.get("format_version") != FORMAT_VERSION:
            raise InvalidInput(
                f"the key file {path} is of version {record.get('format_version')!r}, this labeldp reads {FORMAT_VERSION}"
            )
        try:
            key = bytes.fromhex(record["key"])
            releases = tuple(KeptRelease(**release) for release in record["releases"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"the key file {path} is damaged: {error}") from error
        if len(key) != KEY_BYTES:
            raise InvalidInput(f"the key in {path} has {len(key)} bytes and must have {KEY_BYTES}: the file is damaged")
        return cls(path, key, releases)

    @classmethod
    def open_or_create(cls, path: Path) -> KeyFile:
        """The key file, made with a new random key if there is none."""
        if path.exists():
            return cls.open(path)
        made = cls(path, os.urandom(KEY_BYTES))
        made._write(exclusive=True)
        return made

    def find(self, release: str) -> KeptRelease | None:
        return next((kept for kept in self.releases if kept.id == release), None)

    def resumable(self, input_hmac: str, request: str) -> KeptRelease | None:
        """A release that was begun for this very input and request and not finished."""
        return next(
            (
                kept
                for kept in self.releases
                if not kept.done and (kept.input_hmac, kept.request) == (input_hmac, request)
            ),
            None,
        )

    def put(self, release: KeptRelease) -> KeyFile:
        """This file with `release` added or replaced, on disk before the call returns."""
        others = tuple(kept for kept in self.releases if kept.id != release.id)
        changed = replace(self, releases=(*others, release))
        changed._write()  # noqa: SLF001 - its own class
        return changed

    def _write(self, *, exclusive: bool = False) -> None:
        record: dict[str, Any] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "warning": "as sensitive as the labels: whoever has this key can undo the noise",
            "key": self.key.hex(),
            "releases": [asdict(release) for release in self.releases],
        }
        text = json.dumps(record, indent=1).encode()
        target = self.path if exclusive else self.path.with_name(f".{self.path.name}.{os.getpid()}.new")
        flags = os.O_WRONLY | os.O_CREAT | (os.O_EXCL if exclusive else os.O_TRUNC)
        try:
            handle = os.open(target, flags, 0o600)
        except OSError as error:
            raise InvalidInput(f"cannot write the key file {self.path}: {error.strerror}") from error
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if not exclusive:
            target.rename(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
