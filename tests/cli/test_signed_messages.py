"""A signed message as typed: `signing-keys`, `--sign-key`, `--verify-key`, and `audit` of all of it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forgery import edit_json, rewrite_manifest, rewrite_rows
from labeldp.artifact.reader import Message
from labeldp.release import apply as later_batch
from labeldp.release.ledger import Ledger

ROWS = 600
TRAINED = ("--features", "features.parquet", "--id", "id", "--out", "model", "--folds", 0)


BOUNDS = ("--epsilon", "1", "--lower", "0", "--upper", "10", "--cells", "11", "--mechanism", "rr-on-bins")


def request(folder="."):
    place = Path(folder)
    charge = ("--ledger", place / "ledger.db", "--dataset", "sales", "--key-file", place / "key")
    return (place / "monday.parquet", "--label", "y", "--id", "id", *BOUNDS, *charge, "--out", place / "message")


@pytest.fixture(scope="module")
def made(labeldp, tmp_path_factory):
    """Three folders with labels of two days, features, a ledger and the keys of two senders.

    The folder `signed` has a signed message, `unsigned` an unsigned one.
    """
    place = tmp_path_factory.mktemp("made")
    bare = place / "bare"
    bare.mkdir()
    rng = np.random.default_rng(0)
    for name, first in (("monday", 0), ("tuesday", ROWS)):
        ids = np.arange(first, first + ROWS)
        pq.write_table(pa.table({"id": ids, "y": rng.uniform(0, 10, ROWS)}), bare / f"{name}.parquet")
    pq.write_table(pa.table({"id": np.arange(2 * ROWS), "x": rng.normal(size=2 * ROWS)}), bare / "features.parquet")
    Ledger.create(bare / "ledger.db").add_dataset("sales", 1)
    for name in ("me", "other"):
        labeldp("signing-keys", bare / name)
    for name in ("signed", "unsigned"):
        folder = shutil.copytree(bare, place / name)
        key = ("--sign-key", folder / "me-private.pem") if name == "signed" else ()
        labeldp("privatize", *request(folder), *key, "--quiet")
    return place


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """The working folder, without a message."""
    monkeypatch.chdir(shutil.copytree(made / "bare", tmp_path / "here"))


@pytest.fixture
def message(made, tmp_path, monkeypatch):
    """A signed message in the working folder."""
    monkeypatch.chdir(shutil.copytree(made / "signed", tmp_path / "here"))
    return Path("message")


@pytest.fixture
def unsigned(made, tmp_path, monkeypatch):
    """An unsigned message in the working folder."""
    monkeypatch.chdir(shutil.copytree(made / "unsigned", tmp_path / "here"))
    return Path("message")


def privatize(run, *more):
    return run("privatize", *request(), *more)


def apply(run, *more):
    return run(
        "apply", "message", "tuesday.parquet", "--label", "y", "--key-file", "key", "--ledger", "ledger.db", *more
    )


def train(run, *more):
    return run("train", "message", *TRAINED, *more)


def content(folder="message"):
    return {path.as_posix(): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def fingerprint():
    return Message.open("message").signature.key


@pytest.mark.parametrize(
    ("name", "said"), [(".", "is a folder"), ("..", "is a folder"), ("nodir/x", "does not exist: make it first")]
)
def test_a_pair_needs_a_name_in_a_folder_that_exists(run, tmp_path, monkeypatch, name, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("signing-keys", name)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert not list(tmp_path.iterdir())


def test_the_pair_and_its_fingerprint_are_shown(run, tmp_path):
    code, out, _ = run("signing-keys", tmp_path / "sales", "--json")
    shown = json.loads(out)
    assert code == 0
    assert shown["private_key"] == str(tmp_path / "sales-private.pem")
    code, out, err = run("signing-keys", tmp_path / "sales")
    assert (code, out, "exists" in err) == (2, "", True)


@pytest.mark.parametrize(
    ("key", "says"), [("other-public.pem", "not signed with the key"), ("me-private.pem", "contains a private key")]
)
def test_train_and_audit_refuse_another_key(run, message, key, says):
    for command in (train, lambda run, *more: run("audit", "message", *more)):
        code, out, err = command(run, "--verify-key", key)
        assert (code, out) == (2, "")
        assert says in err
    assert not Path("model").exists()


def test_an_unsigned_message_is_refused_where_a_signature_is_asked_for(run, unsigned):
    assert train(run)[0] == 0
    code, out, err = run("audit", "message", "--verify-key", "me-public.pem")
    assert (code, out, "is not signed" in err) == (2, "", True)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("me-public.pem", "public key"),
        ("nothing", "there is no signing key"),
        ("monday.parquet", "Ed25519|read by others"),
    ],
)
def test_a_bad_key_costs_nothing(run, folder, key, says):
    Path("monday.parquet").chmod(0o600)
    code, out, err = privatize(run, "--sign-key", key)
    assert (code, out) == (2, "")
    assert says.split("|")[0] in err
    assert Ledger("ledger.db").remaining("sales") == 1
    assert not Path("message").exists()
    assert not Path("key").exists()


def test_a_signed_message_grows_with_its_key_only(run, message):
    before = content(), Path("key").read_bytes()
    for more in ((), ("--sign-key", "other-private.pem")):
        code, out, err = apply(run, *more)
        assert (code, out) == (2, "")
        assert "give its file with --sign-key" in err
        assert (content(), Path("key").read_bytes()) == before
    assert apply(run, "--sign-key", "me-private.pem")[0] == 0
    opened = Message.open("message", verify_key="me-public.pem")
    assert len(opened) == 2 * ROWS
    assert opened.signature.verified


def test_an_unsigned_message_can_be_signed_with_a_batch_even_if_it_adds_nothing(run, unsigned):
    assert apply(run)[0] == 0
    assert Message.open("message").signature is None
    assert apply(run, "--sign-key", "me-private.pem")[0] == 0
    assert len(Message.open("message", verify_key="me-public.pem")) == 2 * ROWS


def test_repeating_a_signed_release_changes_nothing(run, message):
    before = content()
    code, out, _ = privatize(run, "--sign-key", "me-private.pem")
    assert (code, "the same release as before" in out) == (0, True)
    for more in ((), ("--sign-key", "other-private.pem")):
        code, _, err = privatize(run, *more)
        assert (code, "signed with the key" in err) == (2, True)
    assert content() == before


def test_a_manifest_that_cannot_be_written_leaves_a_batch_that_the_next_run_lists(run, message, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(later_batch, "replace_file", full)
        code, _, err = apply(run, "--sign-key", "me-private.pem")
    assert (code, "until then readers reject the message" in err) == (1, True)
    for command in (train, lambda run: run("audit", "message")):
        code, _, err = command(run)
        assert (code, "The labels party must run apply" in err) == (2, True)
    part = message / "labels" / "part-00001.parquet"
    drawn = part.read_bytes()
    mixed_up(message, "labels/part-00001.parquet")
    code, _, err = apply(run, "--sign-key", "me-private.pem")  # nobody else's batch gets listed and signed
    assert (code, "they were changed" in err) == (2, True)
    part.write_bytes(drawn)
    code, out, _ = apply(run, "--sign-key", "me-private.pem")
    assert (code, f"{ROWS} new records" in out) == (0, True)
    assert len(Message.open("message", verify_key="me-public.pem")) == 2 * ROWS


def test_audit_shows_every_check(run, message):
    assert apply(run, "--sign-key", "me-private.pem")[0] == 0
    code, out, _ = run("audit", "message", "--verify-key", "me-public.pem")
    assert code == 0
    for line in (
        f"signature  signed by {fingerprint()}, verified",
        "rows       1,200 in 2 batches",
        "ids        all different",
        "verdict    proven",
    ):
        assert line in out
    assert train(run, "--verify-key", "me-public.pem")[0] == 0
    shown = json.loads(run("audit", "message", "--json")[1])
    assert shown["holds"]
    assert (shown["message"]["records"], shown["message"]["ids_unique"]) == (2 * ROWS, True)
    assert (shown["message"]["signed_by"], shown["message"]["signature_verified"]) == (fingerprint(), False)
    _, out, _ = run("audit", "message")
    assert f"signed by {fingerprint()}, not verified: give --verify-key" in out


def test_audit_of_a_single_mechanism_takes_no_key(run, message):
    assert run("audit", "message/mechanism.json")[0] == 0
    code, _, err = run("audit", "message/mechanism.json", "--verify-key", "me-public.pem")
    assert (code, "give the folder" in err) == (2, True)


def mixed_up(message, file="labels.parquet"):
    def change(table):
        return table.set_column(0, "id", pa.array(np.roll(np.asarray(table["id"]), 1)))

    rewrite_rows(message, change, file)


def repeated(message):
    rewrite_rows(message, lambda table: pa.concat_tables([table, table.slice(3, 1)]))


EDITS = {
    "codes permuted": mixed_up,
    "rows removed": lambda message: rewrite_rows(message, lambda table: table.slice(9)),
    "rows repeated": repeated,
    "domain": lambda message: edit_json(message / "mechanism.json", lambda record: record["domain"].update(upper=20.0)),
    "prior": lambda message: edit_json(message / "mechanism.json", lambda record: record["prior"]["masses"].reverse()),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_audit_and_train_refuse_an_edited_message(run, message, edit):
    edit(message)
    for arguments, says in (((), "edited or damaged"), (("--verify-key", "me-public.pem"), "edited")):
        for command in (train, lambda run, *more: run("audit", "message", *more)):
            code, out, err = command(run, *arguments)
            assert (code, out) == (2, "")
            assert says in err
        rewrite_manifest(message)
    assert not Path("model").exists()


def test_audit_and_train_refuse_an_id_that_is_there_twice_whatever_the_manifest_says(run, message):
    repeated(message)
    rewrite_manifest(message)
    shutil.copytree("message", "copy")
    for command in (train, lambda run: run("audit", "message")):
        code, out, err = command(run)
        assert (code, out) == (2, "")
        assert "holds the same id in rows 4 and 601" in err


@pytest.mark.parametrize("edit", ["card", "header", "nothing else"])
@pytest.mark.parametrize("key", [("--sign-key", "me-private.pem"), ("--sign-key", "other-private.pem"), ()])
def test_apply_does_not_extend_or_sign_what_somebody_changed(run, message, edit, key):
    """The signature is taken off and the digests are computed anew, so the manifest fits."""
    if edit == "card":
        (message / "PRIVACY.md").write_text("All labels are public.\n")
    if edit == "header":
        edit_json(message / "mechanism.json", lambda record: record["message"].update(label_column="z"))
    rewrite_manifest(message)
    edit_json(message / "manifest.json", lambda record: record.update(signature=None))
    before = content()
    code, _, err = apply(run, *key)
    assert (code, content()) == (2, before)
    assert "changed" in err


@pytest.mark.parametrize(
    "edit", [mixed_up, lambda message: (message / "PRIVACY.md").write_text("All labels are public.\n")]
)
@pytest.mark.parametrize("key", [("--sign-key", "me-private.pem"), ()])
def test_what_somebody_changed_after_a_run_was_killed_is_neither_signed_nor_taken_for_the_release(
    run, folder, monkeypatch, edit, key
):
    """The run is killed after the message is in place, and before this is recorded."""
    with monkeypatch.context() as patched:
        patched.setattr("labeldp.release.flow._commit", lambda *_: sys.exit(9))
        assert privatize(run, *key)[0] == 9
    message = Path("message")
    shutil.copytree(message, "released")
    edit(message)
    rewrite_manifest(message)
    edit_json(message / "manifest.json", lambda record: record.update(signature=None))
    before = content()
    for command in (apply, privatize):
        for given in {key, ()}:
            code, _, err = command(run, *given)
            assert (code, content()) == (2, before)
            assert "changed" in err or "is not signed" in err
    shutil.rmtree(message)
    shutil.copytree("released", message)
    assert privatize(run, *key)[0] == apply(run, *key)[0] == 0


def test_a_release_that_goes_on_elsewhere_does_not_forget_a_later_batch(run, folder, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("labeldp.release.flow._commit", lambda *_: sys.exit(9))
        assert privatize(run)[0] == 9
    assert apply(run)[0] == 0
    known = json.loads(Path("key").read_text())["releases"]
    assert len(known[0]["parts"]) == 2
    assert run("privatize", *request()[:-1], "elsewhere")[0] == 0
    assert json.loads(Path("key").read_text())["releases"] == known
    code, _, err = run(
        "apply", "elsewhere", "tuesday.parquet", "--label", "y", "--key-file", "key", "--ledger", "ledger.db"
    )
    assert (code, "is an outdated copy" in err) == (2, True)


def test_a_message_whose_signature_is_damaged_is_not_taken_for_the_same_release(run, message):
    edit_json(message / "manifest.json", lambda record: record["signature"].update(value="0" * 128))
    code, _, err = privatize(run, "--sign-key", "me-private.pem")
    assert (code, "was not signed with the key" in err) == (2, True)


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such names")
def test_a_name_in_the_message_cannot_write_to_the_terminal(run, message):
    del message
    Path("message", "\x1b]0;owned\x07\x1b[2Jall is well").touch()
    for code, out, err in (run("audit", "message"), train(run)):
        assert code == 2
        assert out == ""
        assert r"\x1b[2Jall is well is not listed in manifest.json" in err
        assert err.replace("\n", "").isprintable()


def says(run, *command):
    code, _, err = run(*command)
    assert code == 2, err
    return " ".join(err.split())


def test_what_was_meant_in_place_of_a_message_is_said(run, unsigned):
    folder = Path.cwd()
    later = folder / "message" / "labels" / "part-00001.parquet"
    later.parent.mkdir()
    shutil.copy("message/labels.parquet", later)
    shutil.make_archive("sent", "zip", root_dir=folder, base_dir="message")
    shutil.make_archive("sent", "gztar", root_dir=folder, base_dir="message")
    for archive in ("sent.zip", "sent.tar.gz"):
        for command in (("audit", archive), ("train", archive, *TRAINED)):
            assert "Unpack the archive first" in says(run, *command)
    for file in ("message/labels.parquet", "message/labels/part-00001.parquet"):
        assert "Give the folder message" in says(run, "audit", file)
    shutil.copytree("message", "outer/message")
    for command in (("audit", "outer"), ("train", "outer", *TRAINED)):
        assert "Did you mean outer/message?" in says(run, *command).replace("\\", "/")
    shutil.copytree("message", "outer/other")
    assert "Did you mean" not in says(run, "audit", "outer")


def test_a_message_that_lost_a_file_or_its_manifest_is_asked_for_again(run, unsigned):
    for name in ("PRIVACY.md", "labels.parquet"):
        Path("message", name).rename("aside")
        assert f"is not complete: {name} is missing. Ask for it again" in says(run, "audit", "message")
        Path("aside").rename(Path("message", name))
    Path("message", "manifest.json").write_bytes(b"{")
    assert "Ask for it again" in says(run, "audit", "message")


def test_audit_names_the_files_that_it_ignored(run, unsigned):
    assert "and no other file\n" in run("audit", "message")[1]
    for name in (".DS_Store", ".~lock.PRIVACY.md#"):
        Path("message", name).touch()
    assert "no other file but .DS_Store, .~lock.PRIVACY.md#" in run("audit", "message")[1]
