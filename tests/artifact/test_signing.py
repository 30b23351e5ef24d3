"""A sender's keys: PEM files as openssl writes them; any other kind of file is refused with its reason."""

from __future__ import annotations

import base64
import os
import shutil
import stat
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from labeldp.artifact.signing import SigningKey, VerifyKey, write_signing_keys
from labeldp.errors import InvalidInput, LabelDPError

PKCS8 = (Encoding.PEM, PrivateFormat.PKCS8)


@pytest.fixture
def outside(tmp_path):
    """A message, which holds no key."""
    return tmp_path / "message"


def private_file(path, content):
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def test_a_pair_signs_and_verifies(tmp_path, outside):
    key, public, fingerprint = write_signing_keys(tmp_path / "sender")
    assert (key.name, public.name) == ("sender-private.pem", "sender-public.pem")
    signing, verify = SigningKey.read(key, outside), VerifyKey.read(public)
    assert signing.verify_key.fingerprint == verify.fingerprint == fingerprint
    signature = signing.sign(b"content")
    assert signing.sign(b"content") == signature
    assert verify.accepts(signature, b"content")
    assert not verify.accepts(signature, b"other content")
    assert not VerifyKey.read(write_signing_keys(tmp_path / "other")[1]).accepts(signature, b"content")


def test_a_signature_made_for_another_purpose_does_not_fit(tmp_path, outside):
    key, public, _ = write_signing_keys(tmp_path / "sender")
    bare = base64.b64encode(SigningKey.read(key, outside).private.sign(b"content")).decode()
    assert not VerifyKey.read(public).accepts(bare, b"content")


@pytest.mark.skipif(os.name != "posix", reason="Windows has no file modes")
def test_only_its_owner_can_read_a_new_private_key(tmp_path, outside):
    key, _, _ = write_signing_keys(tmp_path / "sender")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    key.chmod(0o640)
    with pytest.raises(InvalidInput, match=r"can be read by others \(mode 640\).*chmod 600"):
        SigningKey.read(key, outside)


@pytest.mark.parametrize("there", ["sender-private.pem", "sender-public.pem"])
def test_no_key_is_overwritten(tmp_path, there):
    (tmp_path / there).write_text("mine")
    with pytest.raises(InvalidInput, match=f"{there} exists"):
        write_signing_keys(tmp_path / "sender")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(there, "mine")]


def test_a_pair_is_written_whole_or_not_at_all(tmp_path):
    with pytest.raises(InvalidInput, match="nowhere does not exist: make it first"):
        write_signing_keys(tmp_path / "nowhere" / "sender")
    (tmp_path / "sender-public.pem").symlink_to(tmp_path / "nowhere")
    with pytest.raises(LabelDPError, match="is not overwritten"):
        write_signing_keys(tmp_path / "sender")
    assert [path.name for path in tmp_path.iterdir()] == ["sender-public.pem"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_keys_of_openssl_are_read_and_ours_are_read_by_it(tmp_path, outside):
    def openssl(*arguments):
        return subprocess.run(["openssl", *arguments], cwd=tmp_path, check=True, capture_output=True).stdout

    openssl("genpkey", "-algorithm", "ed25519", "-out", "theirs.key")
    openssl("pkey", "-in", "theirs.key", "-pubout", "-out", "theirs.pub")
    (tmp_path / "theirs.key").chmod(0o600)
    signing = SigningKey.read(tmp_path / "theirs.key", outside)
    assert VerifyKey.read(tmp_path / "theirs.pub").accepts(signing.sign(b"content"), b"content")
    key, public, _ = write_signing_keys(tmp_path / "ours")
    assert openssl("pkey", "-in", key.name, "-pubout") == public.read_bytes()


ED25519, ELLIPTIC = Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP256R1())
WRONG = {
    "elliptic": ELLIPTIC.private_bytes(*PKCS8, NoEncryption()),
    "text": b"my key",
    "cut": ED25519.private_bytes(*PKCS8, NoEncryption())[:60],
    "raw": ED25519.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()),
    "bytes": b"\xff\xfe\0",
    "length of another kind": ED25519.private_bytes(*PKCS8, NoEncryption()).replace(b"K2Vw", b"K2Vx"),  # says Ed448
}
PUBLIC = ED25519.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
def test_another_kind_of_private_key_is_refused(tmp_path, outside, content):
    with pytest.raises(InvalidInput, match="is not the PEM file of an Ed25519 private key"):
        SigningKey.read(private_file(tmp_path / "k", content), outside)


def test_the_wrong_half_is_refused(tmp_path, outside):
    with pytest.raises(InvalidInput, match="contains a public key"):
        SigningKey.read(private_file(tmp_path / "k", PUBLIC), outside)
    with pytest.raises(InvalidInput, match="contains a private key"):
        VerifyKey.read(private_file(tmp_path / "k", ED25519.private_bytes(*PKCS8, NoEncryption())))


def test_a_password_is_not_asked_for(tmp_path, outside):
    protected = ED25519.private_bytes(*PKCS8, BestAvailableEncryption(b"secret"))
    with pytest.raises(InvalidInput, match="protected by a password"):
        SigningKey.read(private_file(tmp_path / "k", protected), outside)


@pytest.mark.parametrize("name", ["text", "bytes", "elliptic public", "length of another kind, public"])
def test_another_kind_of_public_key_is_refused(tmp_path, name):
    content = {
        "elliptic public": ELLIPTIC.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "length of another kind, public": PUBLIC.replace(b"K2Vw", b"K2Vx"),
        **WRONG,
    }[name]
    (tmp_path / "k").write_bytes(content)
    with pytest.raises(InvalidInput, match="is not the PEM file of an Ed25519 public key"):
        VerifyKey.read(tmp_path / "k")


def test_what_is_no_file_of_a_key_is_refused(tmp_path, outside):
    (tmp_path / "long").write_bytes(PUBLIC * 1000)
    for path, says in (
        (tmp_path / "nothing", "there is no"),
        (tmp_path, "is a folder"),
        (tmp_path / "long", "has more than 65,536 bytes"),
    ):
        with pytest.raises(InvalidInput, match=says):
            VerifyKey.read(path)
        with pytest.raises(InvalidInput, match=says):
            SigningKey.read(path, outside)


def test_a_private_key_inside_the_message_is_refused(tmp_path):
    key, _, _ = write_signing_keys(tmp_path / "sender")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(InvalidInput, match="would be sent along"):
        SigningKey.read(key, tmp_path / "link")


def test_a_key_does_not_show_itself(tmp_path, outside):
    key, _, _ = write_signing_keys(tmp_path / "sender")
    assert repr(SigningKey.read(key, outside)) == "SigningKey()"
