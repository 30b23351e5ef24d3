"""The folder of a release: the names of its files, and `manifest.json`, which lists all of them with their digests.

Every kind of release is such a folder. It has a manifest, a public description in JSON, the guarantee in plain words, and data:

    message/                     (`LABELS`, written by `labeldp privatize`)
      manifest.json              every other file with its SHA-256 and size, and perhaps the sender's signature
      mechanism.json             the mechanism and the release, public
      PRIVACY.md                 the guarantee in plain words
      labels.parquet             the first batch: id, code and private label of each record
      labels/part-00001.parquet  later batches, numbered from 1

A batch is one file, as above, or a folder of that name with the parts of the batch, numbered from 0 without a gap. A cluster
writes parts; one machine writes a file. Rows follow each other in the order of the parts, and a part may be empty.

      labels.parquet/part-00000.parquet
      labels.parquet/part-00001.parquet
      labels/part-00001.parquet/part-00000.parquet

The manifest is `{"manifest": {…}, "signature": {…} or null}`. The signature covers the canonical text of the first part
(see `Manifest.canonical`). Both are in one file because a later batch replaces both, and a single rename can replace
one file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

from labeldp.artifact.signing import SigningKey, VerifyKey
from labeldp.budget import decimal_text
from labeldp.errors import InvalidInput, expect_path
from labeldp.json_text import expect_format, parse_json, read_bytes, read_record
from labeldp.release_kind import CARD, LABELS, ReleaseKind

FORMAT = "labeldp-release"
FORMAT_VERSION = 1
ALGORITHM = "Ed25519"
MANIFEST = "manifest.json"
MOST_BYTES = 1 << 26
"""Enough for a manifest of 250,000 files."""
MOST_PARTS = 100_000
"""The limit for part numbers with five digits."""

DESKTOP_FILES = re.compile(r"\.DS_Store|\._.*|Thumbs\.db|desktop\.ini|\.directory|\.~lock\..*#", re.IGNORECASE)
"""Files that desktop programs create when someone opens a folder or a file in it. They are ignored and never read."""

SHA256 = re.compile("[0-9a-f]{64}")
RELEASE_ID = re.compile("[0-9a-f]{32}")
_AGAIN = "Ask for it again"


def part_path(batch: Path, part: int) -> Path:
    """Return the path of one part of a batch that is a folder. Parts count from 0."""
    return batch / f"part-{part:05d}.parquet"


def batch_name(file: str) -> str:
    """Return the batch name of a data file: its own name, or the name of its folder of parts."""
    folder = PurePosixPath(file).parent
    return folder.as_posix() if folder.suffix else file


def exact_text(epsilon: Fraction) -> str:
    """Return an ε as exact text."""
    return decimal_text(epsilon, places=400)


@cache
def installed_version() -> str:
    """Return the version of labeldp. Looking it up takes milliseconds."""
    return version("labeldp")


def file_digest(file: Path) -> str:
    """Return the SHA-256 of a file, by which the labels party recognises its released batches."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@dataclass(frozen=True)
class ListedFile:
    """One file of a release: its name in the folder, SHA-256 and size, and for data the number of rows."""

    name: str
    sha256: str
    bytes: int
    rows: int | None = None

    def __post_init__(self) -> None:
        if not SHA256.fullmatch(self.sha256) or self.bytes < 0 or (self.rows or 0) < 0:
            raise InvalidInput("the SHA-256, the size or the number of rows of a file is damaged")

    @classmethod
    def of(cls, file: Path, name: str, rows: int | None = None) -> ListedFile:
        """Return the entry for a file on disk that will have this name in the folder."""
        return cls(name, file_digest(file), file.stat().st_size, rows)

    def check(self, folder: Path) -> None:
        """Raise `InvalidInput` if the file is missing or differs from the listed one."""
        path = folder / self.name
        refuse_links(folder, self.name)
        if not path.is_file():
            raise InvalidInput(f"{folder} is not complete: {self.name} is missing. {_AGAIN}")
        try:
            same = path.stat().st_size == self.bytes and file_digest(path) == self.sha256
        except OSError as error:
            raise InvalidInput(f"cannot read {path}: {error.strerror}") from error
        if not same:
            hint = (
                ""
                if self.rows is not None
                else ". A release must be copied byte by byte: programs that change line endings, such as git, break it"
            )
            raise InvalidInput(
                f"{path} was edited or damaged: its size or SHA-256 is not the one in {MANIFEST}. Use an untouched copy, or ask "
                f"for it again{hint}"
            )


@dataclass(frozen=True)
class ListedBatch:
    """One batch: the name of its file or of its folder of parts, and the entries of its files in their order."""

    name: str
    files: tuple[ListedFile, ...]

    @classmethod
    def of(cls, data: Path, name: str, count: Callable[[Path], int]) -> ListedBatch:
        """Return the entries for a file or a folder of parts on disk that will have this name in the release.

        Raise `InvalidInput` for links and for a folder with anything but its parts. `count` returns the number of rows
        of a file, and raises an error for a file that does not belong there.
        """
        refuse_links(data.parent, data.name)
        if not data.is_dir():
            return cls(name, (ListedFile.of(data, name, count(data)),))
        return cls(name, tuple(ListedFile.of(part, f"{name}/{part.name}", count(part)) for part in _parts_in(data)))

    @property
    def rows(self) -> int:
        """The number of records."""
        return sum(file.rows or 0 for file in self.files)

    @property
    def sha256(self) -> str:
        """The digest of the batch in the key file: a file's SHA-256, or the SHA-256 of the canonical text of all parts' entries."""
        if self._is_one_file:
            return self.files[0].sha256
        return hashlib.sha256(canonical_text([asdict(file) for file in self.files])).hexdigest()

    def is_batch(self, number: int, kind: ReleaseKind) -> bool:
        """Return whether the names match this batch of a release: one file, or parts without a gap."""
        path = kind.batch_path(Path(), number)
        if self._is_one_file:
            return self.name == path.as_posix()
        names = [part_path(path, part).as_posix() for part in range(len(self.files))]
        return len(names) <= MOST_PARTS and [file.name for file in self.files] == names

    @property
    def _is_one_file(self) -> bool:
        return [file.name for file in self.files] == [self.name]


@dataclass(frozen=True)
class Manifest:
    """The kind, id and cost of a release, and the files that it consists of."""

    kind: str
    release: str
    epsilon_total: str
    files: tuple[ListedFile, ...]
    format: str = FORMAT
    format_version: int = FORMAT_VERSION

    @property
    def data(self) -> tuple[ListedFile, ...]:
        """The data files, in the order of their batches and parts."""
        return tuple(file for file in self.files if file.rows is not None)

    @property
    def batches(self) -> tuple[ListedBatch, ...]:
        """The batches, in their order."""
        groups = groupby(self.data, key=lambda file: batch_name(file.name))
        return tuple(ListedBatch(name, tuple(files)) for name, files in groups)

    @property
    def papers(self) -> tuple[str, ...]:
        """The digests of the description and of `PRIVACY.md`."""
        return tuple(file.sha256 for file in self.files if file.rows is None)

    @property
    def records(self) -> int:
        """The number of records in all batches."""
        return sum(file.rows or 0 for file in self.files)

    def canonical(self) -> bytes:
        """Return the text that is signed: JSON in ASCII with sorted keys and no spaces, so that one manifest has one text."""
        return canonical_text(asdict(self))

    def content(self, key: SigningKey | None) -> bytes:
        """Return the content of `manifest.json`, signed if there is a key. Raise `InvalidInput` for more files than readers accept."""
        signature = key and {
            "algorithm": ALGORITHM,
            "key": key.verify_key.fingerprint,
            "value": key.sign(self.canonical()),
        }
        text = json.dumps({"manifest": asdict(self), "signature": signature}, indent=1) + "\n"
        if len(text) > MOST_BYTES:
            raise InvalidInput(
                f"the release would have {len(self.files):,} files, and its {MANIFEST} more than {MOST_BYTES:,} bytes, which readers "
                "do not accept. Write the batch in fewer parts"
            )
        return text.encode("ascii")

    def check_files(self, folder: Path, *, allowed: str | None = None) -> None:
        """Raise `InvalidInput` if a file is missing, differs from the listed one, or is not listed.

        A batch with the name `allowed` may exist and is not checked. If it exists, the card may be the new one.
        """
        listed = {MANIFEST, *(file.name for file in self.files)}
        others = [name for name in sorted(_files_in(folder)) if name not in listed and batch_name(name) != allowed]
        others = [name for name in others if not DESKTOP_FILES.fullmatch(Path(name).name)]
        added = allowed is not None and os.path.lexists(folder / allowed)
        for name in filter(self._is_next, others):  # until it is listed, the card may be the new one
            raise InvalidInput(self._unlisted(folder, name))
        for file in self.files:
            if not (added and file.name == CARD):
                file.check(folder)
        for name in others:
            raise InvalidInput(self._unlisted(folder, name))

    def ignored_files(self, folder: Path) -> list[str]:
        """Return the files in the folder that a desktop program left there."""
        return sorted(name for name in _files_in(folder) if DESKTOP_FILES.fullmatch(Path(name).name))

    def _is_next(self, name: str) -> bool:
        """Return whether a file belongs to the batch that `apply` would add next."""
        further = re.escape(LABELS.batch_path(Path(), len(self.batches)).as_posix())
        return self.kind == LABELS and re.fullmatch(rf"{further}(/part-\d{{5}}\.parquet)?", name) is not None

    def _unlisted(self, folder: Path, name: str) -> str:
        text = f"{folder / name} is not listed in {MANIFEST}"
        if self._is_next(name):
            return (
                f"{text}: a run of apply is under way or was interrupted, or someone added the file. The labels party must run "
                "apply with the same batch again before it sends the message"
            )
        return f"{text}: the folder has no other files. Move it out of the folder, or ask for the release again"


@dataclass(frozen=True)
class Signature:
    """The fingerprint of the key named in a signature, and whether the signature was verified."""

    key: str
    value: str
    verified: bool = False


@dataclass(frozen=True)
class _Signed:
    algorithm: str
    key: str
    value: str


@dataclass(frozen=True)
class _Content:
    manifest: Manifest
    signature: _Signed | None


def seal(
    folder: Path,
    kind: ReleaseKind,
    release: str,
    epsilon: Fraction,
    papers: tuple[str, str],
    count: Callable[[Path], int],
    key: SigningKey | None = None,
) -> None:
    """Complete a folder that contains the data of a new release: write its description, its card and, last, its manifest.

    `count` returns the number of rows of a data file, and raises an error for a file that does not belong there.
    """
    for name, text in zip(kind.papers, papers, strict=True):
        (folder / name).write_bytes(text.encode())  # the same bytes on every system
    listed = tuple(ListedFile.of(folder / name, name) for name in kind.papers)
    data = kind.batch_path(folder, 0)
    batch = ListedBatch.of(data, data.name, count)
    manifest = Manifest(kind, release, exact_text(epsilon), listed + batch.files)
    (folder / MANIFEST).write_bytes(manifest.content(key))


def open_release(
    path: str | os.PathLike[str], kind: ReleaseKind, verify_key: str | os.PathLike[str] | None = None
) -> tuple[Path, Manifest, Signature | None]:
    """Return a folder of this kind, its manifest and its signature, after comparing every file with the manifest.

    With `verify_key`, the PEM file of the sender's public key, the release must be signed with it.
    """
    expect_path(path, "path", f"give the folder of {kind.noun}")
    verify = None if verify_key is None else VerifyKey.read(verify_key)
    folder = release_folder(path, kind)
    manifest, signature = read_manifest(folder, kind, verify)
    manifest.check_files(folder)
    return folder, manifest, signature


def read_manifest(
    folder: Path, kind: ReleaseKind, verify: VerifyKey | None = None
) -> tuple[Manifest, Signature | None]:
    """Return the manifest of a release and its signature. With `verify`, it must be signed with that key.

    Other files in the folder are not read.
    """
    content = _content(folder)
    _refuse_others(folder, kind)
    try:
        manifest, signature = _checked(content, kind)
    except InvalidInput as error:
        raise InvalidInput(f"{folder / MANIFEST} is damaged: {error}. {_AGAIN}") from None
    if verify is None:
        return manifest, signature
    if signature is None:
        raise InvalidInput(f"{folder} is not signed, so nothing shows who sent it. Ask for a signed one")
    if not verify.accepts(signature.value, manifest.canonical()):
        raise InvalidInput(
            f"{folder} was not signed with the key {verify.fingerprint}, or was edited after it was signed"
            f"{'' if signature.key == verify.fingerprint else f'; it names the key {signature.key}'}. Do not use it"
        )
    return manifest, Signature(verify.fingerprint, signature.value, verified=True)


def kind_in(folder: Path) -> str | None:
    """Return the kind given in the manifest of a folder, or None if a manifest cannot be opened."""
    try:
        kind = _head(_content(folder)).get("kind")
    except InvalidInput:
        return None
    return kind if isinstance(kind, str) else None


def release_folder(path: str | os.PathLike[str], kind: ReleaseKind = LABELS) -> Path:
    """Return the path of a folder that looks like a release of this kind. Whether it is complete is checked with the manifest."""
    folder = Path(path)
    if not (folder / kind.description).is_file() and not (folder / MANIFEST).is_file():
        raise InvalidInput(
            f"{folder} is not {kind.noun}: {kind.noun} is a folder with {MANIFEST}, {kind.description} and "
            f"{kind.batch_path(Path(), 0)}{_meant(folder)}"
        )
    _refuse_others(folder, kind)
    return folder


def _refuse_others(folder: Path, kind: ReleaseKind) -> None:
    """Raise `InvalidInput` if the manifest of a folder names another kind of release."""
    other = next((one for one in ReleaseKind if one is not kind and kind_in(folder) == one), None)
    if other is not None:
        raise InvalidInput(f"{folder} is {other.noun}, not {kind.noun}: give the folder of {kind.noun}")


def canonical_text(record: object) -> bytes:
    """Return JSON in ASCII with sorted keys and no spaces, so that one record has one text."""
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode("ascii")


def refuse_links(folder: Path, name: str) -> None:
    """Raise `InvalidInput` for a file that is a link or is reached through a link inside the folder."""
    path = folder
    for step in Path(name).parts:
        path = path / step
        if path.is_symlink():
            raise InvalidInput(
                f"{path} is a link, and its target can change: copy the files themselves, or ask for them again"
            )


def inner_releases(folder: Path) -> list[Path]:
    """Return the folders of releases inside a folder, by name."""
    return sorted(place.parent for place in folder.glob(f"[!.]*/{MANIFEST}"))


def _meant(path: Path) -> str:
    """Return a hint for users who gave the archive of a release, a file inside its folder, or the folder around it."""
    try:
        inner = inner_releases(path)
        if inner or not path.exists():
            return f". Did you mean {inner[0]}?" if len(inner) == 1 else ""
        if path.is_file() and (zipfile.is_zipfile(path) or tarfile.is_tarfile(path)):
            return ". Unpack the archive first, and give the folder"
    except OSError:
        return ""
    inside = next((place for place in path.parents[:3] if (place / MANIFEST).is_file()), None)
    return "" if inside is None else f". Give the folder {inside}"


def _content(folder: Path) -> Any:
    """Return the content of `manifest.json`, unchecked."""
    path = folder / MANIFEST
    refuse_links(folder, MANIFEST)
    if not path.is_file():
        raise InvalidInput(f"{folder} is incomplete: {MANIFEST} is missing. {_AGAIN}")
    try:
        return parse_json(read_bytes(path, MOST_BYTES), path)
    except InvalidInput as error:
        raise InvalidInput(f"{error}. {_AGAIN}") from None


def _head(content: Any) -> dict[str, Any]:
    manifest = content.get("manifest") if isinstance(content, dict) else None
    return manifest if isinstance(manifest, dict) else {}


def _checked(content: Any, kind: ReleaseKind) -> tuple[Manifest, Signature | None]:
    """Return the two parts of `manifest.json`, checked against the form that `Manifest.content` writes for this kind."""
    expect_format(_head(content), FORMAT, FORMAT_VERSION, "a manifest")
    read = read_record(_Content, content, "the file")
    manifest, signed = read.manifest, read.signature
    if manifest.kind != kind:
        raise InvalidInput(f"it is not {kind.noun}: its kind is {manifest.kind!r:.20}")
    files, batches = manifest.files, manifest.batches
    in_order = [file.name for file in files[:2]] == kind.papers and files[2:] == manifest.data
    if not in_order or not batches or not all(batch.is_batch(n, kind) for n, batch in enumerate(batches)):
        raise InvalidInput(f"it lists other names than {kind.noun} has")
    if signed is None:
        return manifest, None
    if signed.algorithm != ALGORITHM or not SHA256.fullmatch(signed.key):
        raise InvalidInput(f"its signature is not of the kind {ALGORITHM}, or lacks a key")
    return manifest, Signature(signed.key, signed.value)


def _parts_in(folder: Path) -> list[Path]:
    """Return the parts in the folder of a batch. It must contain at least one part and nothing else."""
    held = sorted(path for path in folder.iterdir() if not DESKTOP_FILES.fullmatch(path.name))
    parts = [part_path(folder, part) for part in range(len(held))]
    if not parts:
        raise InvalidInput(f"{folder} is empty: a batch that is a folder has at least one part")
    if len(parts) > MOST_PARTS:
        raise InvalidInput(f"{folder} has {len(parts):,} files, and a batch has at most {MOST_PARTS:,} parts")
    for path, part in zip(held, parts, strict=True):
        refuse_links(folder, path.name)
        if path != part or not path.is_file():
            raise InvalidInput(
                f"{path} is not a part of the batch: its folder may contain {parts[0].name} and so on, without a gap, and nothing else"
            )
    return parts


def _files_in(folder: Path) -> Iterator[str]:
    """Return the names of all files in the folder and below it. Links are not followed: a link is a file."""
    for place, folders, files in os.walk(folder):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        yield from ((Path(place) / name).relative_to(folder).as_posix() for name in (*files, *links))
