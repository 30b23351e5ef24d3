"""Whoever carries a message tries to change it. Each kind of edit is refused, and with a signature also a new manifest."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forgery import edit_json, rewrite_manifest, rewrite_rows
from labeldp.artifact.reader import Message
from labeldp.artifact.signing import write_signing_keys
from labeldp.domain import Domain
from labeldp.engines.arrow.source import LabelSource
from labeldp.errors import InvalidInput
from labeldp.priors import Prior
from labeldp.release.apply import apply
from labeldp.release.labels import privatize
from labeldp.release.randomizer import LabelRandomizer
from labeldp.tables import files as parquet_file

ROWS = 400
PART = "labels/part-00001.parquet"


@dataclass(frozen=True)
class World:
    """Signed messages with a later batch each, and the sender's public key. Two of them are of one mechanism."""

    folder: Path

    @property
    def public(self):
        return self.folder / "sender-public.pem"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacks")
    key, _, _ = write_signing_keys(folder / "sender")
    rng = np.random.default_rng(0)
    for name, first in (("labels", 0), ("later", ROWS)):
        table = {"id": np.arange(first, first + ROWS), "y": rng.uniform(0, 10, ROWS)}
        pq.write_table(pa.table(table), folder / f"{name}.parquet")
    labels, later = (LabelSource(folder / f"{name}.parquet", "y", "id") for name in ("labels", "later"))
    domain = Domain(0, 10, cells=11)
    for name, prior in (("message", None), ("one", Prior.uniform(domain)), ("two", Prior.uniform(domain))):
        randomizer = LabelRandomizer(1, domain, mechanism="rr-on-bins", prior=prior)
        privatize(labels, randomizer, folder / name, key_file=folder / f"{name}.key", sign_key=key)
        apply(folder / name, later, key_file=folder / f"{name}.key", sign_key=key)
    return World(folder)


@pytest.fixture
def message(world, tmp_path):
    return shutil.copytree(world.folder / "message", tmp_path / "message")


def describe(change):
    return lambda message: edit_json(message / "mechanism.json", change)


def rows(change):
    return lambda message: rewrite_rows(message, change)


def permute_codes(table):
    """Every code and label at another id."""
    ids = pa.array(np.roll(np.asarray(table["id"]), 1))
    return table.set_column(0, "id", ids)


def cheaper_prior(record):
    record["prior"]["counts"] = None  # whose noise tells what they cost
    record["prior"]["epsilon"] = record["epsilon_prior"] = "0.01"
    record["epsilon_total"] = str(Fraction(record["epsilon_labels"]) + Fraction("0.01"))


def append_to_card(message):
    (message / "PRIVACY.md").write_text((message / "PRIVACY.md").read_text().replace("ε = 1", "ε = 0.1"))


def with_other_line_ends(message):
    content = (message / "PRIVACY.md").read_bytes()
    (message / "PRIVACY.md").write_bytes(content.replace(b"\n", b"\r\n"))


def add_part(message):
    table = pq.read_table(message / PART)
    ids = pa.array(np.asarray(table["id"]) + 10 * ROWS)
    pq.write_table(table.set_column(0, "id", ids), message / "labels" / "part-00002.parquet")


EDITS = {
    "domain": describe(lambda record: record["domain"].update(upper=20.0)),
    "prior masses": describe(lambda record: record["prior"]["masses"].reverse()),
    "counts": describe(lambda record: record["prior"]["counts"].update(records=7)),
    "cost of the prior": describe(cheaper_prior),
    "label's name": describe(lambda record: record["message"].update(label_column="weight")),
    "codes permuted": rows(permute_codes),
    "rows removed": rows(lambda table: table.slice(7)),
    "rows in another order": rows(lambda table: table.take(np.arange(ROWS)[::-1])),
    "part dropped": lambda message: (message / PART).unlink(),
    "part added": add_part,
    "card": append_to_card,
    "line ends of the card": with_other_line_ends,
}
"""Edits that fit the mechanism. Only the manifest tells them, and only a signature tells a new manifest."""

REPEATS = {
    "row repeated": rows(lambda table: pa.concat_tables([table, table.slice(3, 1)])),
    "every row repeated": rows(lambda table: pa.concat_tables([table, table])),
    "row of one part in another": lambda message: rewrite_rows(
        message, lambda table: pa.concat_tables([table, pq.read_table(message / "labels.parquet").slice(5, 1)]), PART
    ),
}


def read_everything(message, **keys):
    opened = Message.open(message, **keys)
    return opened.to_arrow(), opened.labels


def attack(message, edit):
    before = {path: path.read_bytes() for path in message.rglob("*") if path.is_file()}
    edit(message)
    assert before != {path: path.read_bytes() for path in message.rglob("*") if path.is_file()}


def test_the_message_is_good_before_it_is_attacked(world):
    table, labels = read_everything(world.folder / "message", verify_key=world.public)
    assert table.num_rows == len(labels) == 2 * ROWS


@pytest.mark.parametrize("edit", [*EDITS.values(), *REPEATS.values()], ids=[*EDITS, *REPEATS])
def test_an_edit_is_refused(world, message, edit):
    attack(message, edit)
    with pytest.raises(InvalidInput, match=r"edited or damaged|is missing|not listed"):
        Message.open(message)


@pytest.mark.parametrize("edit", [*EDITS.values(), *REPEATS.values()], ids=[*EDITS, *REPEATS])
def test_an_edit_with_a_manifest_that_fits_is_refused_by_the_signature(world, message, edit):
    attack(message, edit)
    rewrite_manifest(message)
    with pytest.raises(InvalidInput, match="edited after it was signed"):
        Message.open(message, verify_key=world.public)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_without_a_signature_a_new_manifest_cannot_be_told(world, message, edit):
    """What the docs say is not promised. If one of these gets refused one day, the docs can promise more."""
    attack(message, edit)
    rewrite_manifest(message)
    read_everything(message)


@pytest.mark.parametrize("edit", REPEATS.values(), ids=REPEATS)
def test_repeated_ids_are_refused_even_with_a_manifest_that_fits(world, message, edit):
    attack(message, edit)
    rewrite_manifest(message)
    opened = Message.open(message)
    for reading in (opened.to_arrow, lambda: opened.labels, lambda: list(opened.batches())):
        with pytest.raises(InvalidInput, match="holds the same id in rows"):
            reading()


def test_more_rows_than_the_file_has_bytes_for_are_refused(message, monkeypatch):
    monkeypatch.setattr(parquet_file, "FEW_ROWS", 1000)
    attack(message, rows(lambda table: table.take(np.zeros(200_000, np.int64))))
    rewrite_manifest(message)
    with pytest.raises(InvalidInput, match=r"labels\.parquet has 200,000 rows in .* bytes, which is too small"):
        Message.open(message)


@pytest.mark.parametrize(
    "totals",
    [
        {"records": 7},
        {"release": "ab" * 16},
        {"epsilon_total": "0.1"},
        {"kind": "sums"},
        {"format_version": 2},
        {"format": "labeldp-model"},
        {"note": "more"},
    ],
    ids=lambda totals: next(iter(totals)),
)
def test_totals_that_the_files_do_not_bear_out_are_refused(message, totals):
    rewrite_manifest(message, **totals)
    with pytest.raises(InvalidInput, match=r"manifest\.json|version|not a message"):
        Message.open(message)


@pytest.mark.parametrize(
    "change",
    [
        lambda files: files.reverse(),
        lambda files: files.pop(0),
        lambda files: files.append(files[-1]),
        lambda files: files[0].update(name="../other/mechanism.json"),
        lambda files: files[2].update(rows=ROWS + 1),
        lambda files: files[2].update(rows=None),
        lambda files: files[2].update(rows=float(ROWS)),
        lambda files: files[0].update(rows=0),
        lambda files: files[0].update(sha256="0" * 64),
        lambda files: files.clear(),
    ],
)
def test_a_list_that_is_not_that_of_the_folder_is_refused(message, change):
    edit_json(message / "manifest.json", lambda record: change(record["manifest"]["files"]))
    with pytest.raises(InvalidInput, match=r"manifest\.json"):
        Message.open(message)


def test_a_wrong_number_of_rows_is_refused_even_where_the_total_fits(message):
    def change(record):
        first, second = record["manifest"]["files"][2:]
        first["rows"], second["rows"] = first["rows"] + 1, second["rows"] - 1

    edit_json(message / "manifest.json", change)
    with pytest.raises(InvalidInput, match=r"has 400 rows, but manifest\.json lists 401"):
        Message.open(message)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"manifest": {}}', b'{"manifest": null}']
)
def test_a_manifest_that_is_none_is_refused(message, content):
    (message / "manifest.json").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"manifest\.json is (damaged|not valid JSON)"):
        Message.open(message)


@pytest.mark.parametrize("field", ["kind", "release", "epsilon_total"])
def test_every_text_of_the_manifest_is_text(message, field):
    edit_json(message / "manifest.json", lambda record: record["manifest"].update({field: 5}))
    with pytest.raises(
        InvalidInput,
        match=rf"manifest\.json is damaged: (the field '{field}' of manifest in the file|it is not a message)",
    ):
        Message.open(message)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda manifest: manifest.update(format_version=1.0), "format version 1.0, but this labeldp reads version 1"),
        (lambda manifest: manifest.update(more=1), "unknown field: 'more'"),
        (lambda manifest: manifest["files"][0].update(bytes=-1), "the size"),
        (lambda manifest: manifest["files"][0].update(more=1), "unknown field: 'more'"),
        (lambda manifest: manifest["files"][0].pop("rows"), "lacks the field 'rows'"),
        (lambda manifest: manifest.pop("release"), "lacks the field 'release'"),
    ],
)
def test_a_damaged_manifest_is_refused_with_the_reason(message, change, says):
    edit_json(message / "manifest.json", lambda record: change(record["manifest"]))
    with pytest.raises(InvalidInput, match=rf"manifest\.json is damaged: .*{says}.*Ask for it again"):
        Message.open(message)


def test_a_message_without_a_manifest_is_refused(message):
    (message / "manifest.json").unlink()
    with pytest.raises(InvalidInput, match=r"manifest\.json is missing\. Ask for it again"):
        Message.open(message)


def test_a_stripped_signature_is_refused_by_who_asks_for_one(world, message):
    edit_json(message / "manifest.json", lambda record: record.update(signature=None))
    with pytest.raises(InvalidInput, match="is not signed"):
        Message.open(message, verify_key=world.public)
    assert Message.open(message).signature is None


def test_a_signature_by_somebody_else_is_refused(world, message, tmp_path):
    _, other, fingerprint = write_signing_keys(tmp_path / "somebody")
    with pytest.raises(InvalidInput, match=f"not signed with the key {fingerprint}"):
        Message.open(message, verify_key=other)


@pytest.mark.parametrize(
    "change",
    [
        lambda signature: signature.update(value=signature["value"][:-4] + "/w=="),
        lambda signature: signature.update(value="not base 64 é"),
        lambda signature: signature.update(algorithm="none"),
        lambda signature: signature.update(key="me"),
        lambda signature: signature.pop("value"),
    ],
)
def test_a_damaged_signature_is_refused(world, message, change):
    edit_json(message / "manifest.json", lambda record: change(record["signature"]))
    with pytest.raises(InvalidInput, match=r"not signed with the key|manifest\.json is damaged"):
        Message.open(message, verify_key=world.public)


def test_a_part_of_another_message_of_the_same_mechanism_is_refused(world, tmp_path):
    """The other message has other draws for the same ids. Nothing in the rows shows where they belong."""
    mine, other = (Message.open(world.folder / name) for name in ("one", "two"))
    assert mine.mechanism == other.mechanism
    message = shutil.copytree(mine.path, tmp_path / "message")
    shutil.copy(other.path / PART, message / PART)
    with pytest.raises(InvalidInput, match="edited or damaged"):
        Message.open(message)
    rewrite_manifest(message)
    assert read_everything(message)[0] != mine.to_arrow()
    with pytest.raises(InvalidInput, match="edited after it was signed"):
        Message.open(message, verify_key=world.public)


def test_a_description_of_another_release_is_refused_whatever_the_manifest_says(world, tmp_path):
    message = shutil.copytree(world.folder / "one", tmp_path / "message")
    shutil.copy(world.folder / "two" / "mechanism.json", message)
    rewrite_manifest(message)
    with pytest.raises(InvalidInput, match="another release"):
        Message.open(message)


def test_the_signature_of_another_message_is_refused(world, message):
    other = json.loads((world.folder / "one" / "manifest.json").read_text())["signature"]
    edit_json(message / "manifest.json", lambda record: record.update(signature=other))
    with pytest.raises(InvalidInput, match="edited after it was signed"):
        Message.open(message, verify_key=world.public)


def test_nothing_but_the_manifest_is_read_before_the_signature_is_verified(world, message):
    rewrite_manifest(message, release="ab" * 16)
    for name in ("mechanism.json", "labels.parquet", "PRIVACY.md"):
        (message / name).write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match="edited after it was signed"):
        Message.open(message, verify_key=world.public)


@pytest.mark.parametrize("name", ["notes.txt", "labels/part-00003.parquet", "more/x"])
def test_a_file_that_is_not_listed_is_refused(message, name):
    (message / name).parent.mkdir(exist_ok=True)
    (message / name).touch()
    with pytest.raises(InvalidInput, match=r"is not listed in manifest\.json: the folder has no other files"):
        Message.open(message)


@pytest.mark.parametrize(
    "name",
    [
        ".DS_Store",
        "Thumbs.db",
        "labels/.DS_Store",
        ".~lock.PRIVACY.md#",
    ],
)
def test_what_a_desktop_leaves_in_a_folder_is_ignored(message, name):
    (message / name).write_bytes(b"\0")
    assert len(Message.open(message)) == 2 * ROWS


def test_labels_that_change_while_the_message_is_open_are_refused(world, message, tmp_path):
    opened = Message.open(message)
    file = message / "labels.parquet"
    table = pq.read_table(file)
    ids = table.column(0).take(np.roll(np.arange(len(table)), 1))
    pq.write_table(table.set_column(0, table.column_names[0], ids), file)
    with pytest.raises(InvalidInput, match="changed while the message was open"):
        opened.to_arrow()


@pytest.mark.parametrize("name", ["labels.parquet", "mechanism.json", "manifest.json"])
def test_a_file_that_is_a_link_is_refused(message, tmp_path, name):
    (message / name).rename(tmp_path / "elsewhere")
    (message / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="is a link"):
        Message.open(message)
