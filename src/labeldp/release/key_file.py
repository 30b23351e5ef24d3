"""The labels party's key, and what must stay with it: which releases it randomized, and what each has released.

A JSON file that only its owner can read. It is as sensitive as the labels.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from labeldp.errors import InvalidInput, LabelDPError
from labeldp.release.locks import exclusive
from labeldp.release.staging import flush

FORMAT = "labeldp-key"
FORMAT_VERSION = 1
KEY_BYTES = 32


@dataclass(frozen=True)
class KeptRelease:
    """One release under this key, its mechanism fixed. `parts` are the stamps of the batches that the message holds.

    `pending` is the input of a batch whose file may or may not be in the message: only that input may follow.
    """

    id: str
    id_type: str
    input_hmac: str
    request: str
    mechanism: str
    done: bool = False
    parts: tuple[str, ...] = ()
    pending: str | None = None

    def __post_init__(self) -> None:
        texts = (self.id, self.id_type, self.input_hmac, self.request, self.mechanism, *self.parts, self.pending or "")
        if not all(isinstance(text, str) for text in texts) or not re.fullmatch("[0-9a-f]{32}", self.id):
            raise ValueError("a release in it is not whole")
        object.__setattr__(self, "parts", tuple(self.parts))


class KeyFile:
    """A key and its releases, held by one run at a time. Changes are on disk, whole, before a call returns.

    Get one from `KeyFile.use`. Two runs that changed one file from what each had read would forget each other's
    releases, and a forgotten batch could be drawn twice; hence the lock for the whole run.
    """

    def __init__(self, path: Path, key: bytes, releases: dict[str, KeptRelease], *, stored: bool) -> None:
        self.path, self.key, self.stored = path, key, stored
        self._releases = releases

    @classmethod
    @contextmanager
    def use(cls, path: Path, *, create: bool = False) -> Iterator[KeyFile]:
        """The key file at `path`, locked until the block ends. With `create`, a new key if there is no file.

        A new key is only in memory until `save` or `put`, so that a run that is refused leaves no file. A link is
        followed first: replacing the link itself would leave an outdated key file at the place that it names.
        """
        place = path.resolve()
        if not create and not place.exists():
            raise InvalidInput(f"there is no key file {path}. Give the one that privatize wrote for this message")
        with exclusive(place, f"the key file {path}"):
            _new_copy(place).unlink(missing_ok=True)  # what a killed run left of the next version
            yield (
                cls._read(place, path)
                if os.path.lexists(place)
                else cls(place, os.urandom(KEY_BYTES), {}, stored=False)
            )

    @classmethod
    def _read(cls, place: Path, shown: Path) -> KeyFile:
        if not place.is_file():
            raise InvalidInput(f"{shown} is not a file: give the path of a key file, or a new path and one is made")
        mode = stat.S_IMODE(place.stat().st_mode)
        if os.name == "posix" and mode & 0o077:  # Windows has access lists, of which these bits say nothing
            raise InvalidInput(
                f"the key file {shown} can be read by others (mode {mode:o}), and it is as sensitive as the labels. "
                f"Run: chmod 600 {shown}"
            )
        try:
            record = json.loads(place.read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidInput(f"cannot read the key file {shown}: {error.strerror}") from error
        except ValueError:
            record = None
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise InvalidInput(f"{shown} is not a labeldp key file. Check the path; give a new path and a key is made")
        if record.get("format_version") != FORMAT_VERSION:
            raise InvalidInput(
                f"the key file {shown} is of version {record.get('format_version')!r}, this labeldp reads {FORMAT_VERSION}: "
                "install the version that wrote it, or a newer one"
            )
        try:
            key = bytes.fromhex(record["key"])
            releases = [KeptRelease(**release) for release in record["releases"]]
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"the key file {shown} is damaged ({error}). Restore it from a backup") from error
        if len(key) != KEY_BYTES:
            raise InvalidInput(
                f"the key in {shown} has {len(key)} bytes and must have {KEY_BYTES}: the file is damaged. Restore it from a backup"
            )
        return cls(place, key, {release.id: release for release in releases}, stored=True)

    @property
    def releases(self) -> tuple[KeptRelease, ...]:
        return tuple(self._releases.values())

    def find(self, release: str) -> KeptRelease | None:
        return self._releases.get(release)

    def resumable(self, input_hmac: str, request: str) -> KeptRelease | None:
        """A release that was begun for this very input and request and not finished."""
        wanted = (input_hmac, request)
        begun = (kept for kept in self.releases if not kept.done and (kept.input_hmac, kept.request) == wanted)
        return next(begun, None)

    def save(self) -> None:
        """Makes sure that the key is on disk: before anything is charged or drawn under it."""
        if not self.stored:
            self._write(self._releases)

    def put(self, release: KeptRelease) -> KeptRelease:
        """Adds or replaces a release, on disk before the call returns."""
        self._write(self._releases | {release.id: release})
        return release

    def _write(self, releases: dict[str, KeptRelease]) -> None:
        record: dict[str, Any] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "warning": "as sensitive as the labels: whoever has this key can undo the noise. Use it in one place only: "
            "a copy does not learn what was released with the other.",
            "key": self.key.hex(),
            "releases": [asdict(release) for release in releases.values()],
        }
        copy = _new_copy(self.path)
        try:
            with open(copy, "xb", opener=partial(os.open, mode=0o600)) as file:
                file.write(json.dumps(record, indent=1).encode())
            flush(copy)
            copy.replace(self.path)
            flush(self.path.parent)
        except OSError as error:
            copy.unlink(missing_ok=True)
            raise LabelDPError(
                f"cannot write the key file {self.path}: {error.strerror}. Mend that, then run the same command again"
            ) from error
        self._releases, self.stored = releases, True


def _new_copy(path: Path) -> Path:
    return path.with_name(f".{path.name}.labeldp-new")
