"""The sender's signature: Ed25519 keys in PEM files, and signatures made with them.

`openssl genpkey -algorithm ed25519` makes the same kind of file as `write_signing_keys`.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from labeldp.errors import InvalidInput, LabelDPError, expect_path
from labeldp.json_text import read_bytes

CONTEXT = b"labeldp release manifest 1\0"
"""A prefix of the signed bytes, so that a signature made for another purpose is never valid for a release."""

MOST_BYTES = 1 << 16
"""The maximum size of a PEM file with one key."""

_NO_KEY = (ValueError, UnsupportedAlgorithm, InternalError)
"""Errors of `cryptography` for a file without a valid key. The last one is for keys of the wrong length."""

_MAKE = "labeldp signing-keys NAME makes a pair"


@dataclass(frozen=True)
class VerifyKey:
    """A sender's public key, which verifies signatures."""

    public: Ed25519PublicKey = field(repr=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> VerifyKey:
        """Read the public key in a PEM file."""
        expect_path(path, "verify_key", "give the PEM file of the sender's public key")
        pem = _content(Path(path), "public key")
        if b"PRIVATE KEY" in pem:
            raise InvalidInput(
                f"{path} contains a private key, which only the sender should have: give the file of the public key"
            )
        try:
            key = load_pem_public_key(pem)
        except _NO_KEY:
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise InvalidInput(f"{path} is not the PEM file of an Ed25519 public key. {_MAKE}")
        return cls(key)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the key, in hexadecimal: the output of `openssl pkey -pubin -outform DER | sha256sum`."""
        shown = self.public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(shown).hexdigest()

    def accepts(self, signature: str, content: bytes) -> bool:
        """Return whether the owner of this key signed `content`."""
        try:
            self.public.verify(base64.b64decode(signature, validate=True), CONTEXT + content)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True)
class SigningKey:
    """A sender's private key."""

    private: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str], message: Path) -> SigningKey:
        """Read the private key in a PEM file. Only its owner may be able to read it, and it must not be inside the message."""
        expect_path(path, "sign_key", "give the PEM file of your private key")
        if Path(path).resolve().is_relative_to(message.resolve()):
            raise InvalidInput(
                f"the signing key {path} is inside the message {message} and would be sent along with it: move it out first"
            )
        pem = _content(Path(path), "signing key")
        if b"PUBLIC KEY" in pem:
            raise InvalidInput(f"{path} contains a public key, and signing needs the private one: give its file")
        require_private(Path(path), f"the signing key {path}", "who could sign in your name")
        try:
            key = load_pem_private_key(pem, password=None)
        except TypeError as error:
            raise InvalidInput(
                f"the signing key {path} is protected by a password, which labeldp does not ask for. Give a key without one, "
                f"in a file that only you can read (openssl pkey -in {path} -out NEW writes it)"
            ) from error
        except _NO_KEY:
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidInput(f"{path} is not the PEM file of an Ed25519 private key. {_MAKE}")
        return cls(key)

    @property
    def verify_key(self) -> VerifyKey:
        """The public key."""
        return VerifyKey(self.private.public_key())

    def sign(self, content: bytes) -> str:
        """Return the signature in base 64. The same content has the same signature."""
        return base64.b64encode(self.private.sign(CONTEXT + content)).decode()


def write_signing_keys(name: Path) -> tuple[Path, Path, str]:
    """Make a new pair: NAME-private.pem, which only its owner can read, and NAME-public.pem. Return both and the fingerprint."""
    if not name.name or name.name == "..":
        raise InvalidInput(f"{name} is a folder: give the name of the pair as well, as in {name / 'sales'}")
    if not name.parent.is_dir():
        raise InvalidInput(f"the folder {name.parent} does not exist: make it first")
    private = Ed25519PrivateKey.generate()
    pems = {
        name.with_name(f"{name.name}-private.pem"): private.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ),
        name.with_name(f"{name.name}-public.pem"): private.public_key().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        ),
    }
    key, public = pems
    for path in pems:
        if os.path.lexists(path):
            raise InvalidInput(f"{path} exists and is not overwritten: choose another name")
    with ExitStack() as undo:
        for path, pem in pems.items():
            try:
                with open(path, "xb", opener=partial(os.open, mode=0o600 if path == key else 0o644)) as file:
                    undo.callback(path.unlink)
                    file.write(pem)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise LabelDPError(f"cannot write {path}: {error.strerror}. No key was made") from error
        undo.pop_all()
    return key, public, VerifyKey(private.public_key()).fingerprint


def require_private(file: Path, what: str, danger: str) -> None:
    """Raise `InvalidInput` if other users can read a file."""
    mode = stat.S_IMODE(file.stat().st_mode)
    if os.name == "posix" and mode & 0o077:  # on Windows these bits are meaningless
        raise InvalidInput(f"{what} can be read by others (mode {mode:o}), {danger}. Run: chmod 600 {file}")


def _content(path: Path, what: str) -> bytes:
    """Return the content of a key's file."""
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder: give the file of the {what}")
    if not path.exists():
        raise InvalidInput(f"there is no {what} {path}. {_MAKE}")
    return read_bytes(path, MOST_BYTES, f"the {what} {path}")
