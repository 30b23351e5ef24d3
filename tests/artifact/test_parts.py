"""A batch in parts holds what the same batch in one file holds, and is refused as strictly."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgery import batch_digest, edit_json, rewrite_manifest, rewrite_rows, split
from labeldp.artifact import manifest as manifest_module
from labeldp.artifact.card import message_card
from labeldp.artifact.description import Header, describe, total_epsilon
from labeldp.artifact.labels_file import LabelsFile, LabelsWriter
from labeldp.artifact.manifest import ListedFile, Manifest, seal
from labeldp.artifact.reader import Message, open_to_extend
from labeldp.artifact.signing import SigningKey, VerifyKey, write_signing_keys
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.mechanisms import RROnBins
from labeldp.priors import Prior
from labeldp.release_kind import LABELS

ROWS = 60
MECHANISM = RROnBins.optimal(Prior.uniform(Domain(0, 10, cells=11)), 1.0)
FIRST, LATER = "labels.parquet", "labels/part-00001.parquet"
UNLISTED = "is not listed in manifest.json: the folder has no other files"


def some_rows(kind="int", first=0):
    ids = np.arange(first, first + ROWS)[::-1]
    codes = np.random.default_rng(first).integers(0, MECHANISM.outputs.size, ROWS).astype(np.uint8)
    return pa.array(ids if kind == "int" else [f"id {i}" for i in ids]), codes


def write_file(path, ids, codes):
    with LabelsWriter(path, "id", ids.type, MECHANISM) as writer:
        writer.write(ids, codes)


@contextmanager
def new_message(folder, mechanism, header, key=None):
    """The folder of a message whose labels are written in the block."""
    folder.mkdir()
    labels = LABELS.batch_path(folder, 0)
    yield labels
    papers = describe(mechanism, header), message_card(mechanism, header, 1).text()
    count = lambda path: LabelsFile(path, header, mechanism).count_written()  # noqa: E731
    seal(folder, LABELS, header.release, total_epsilon(mechanism), papers, count, key)


def make(folder, kind="int", cuts=None, later=None, key=None):
    """A message with two batches. Each is one file, or parts that end at the given rows."""
    with new_message(folder, MECHANISM, header(kind), key) as labels:
        write_file(labels, *some_rows(kind))
        if cuts is not None:
            split(labels, cuts)
    path = Message.open(folder).next_file
    path.parent.mkdir()
    write_file(path, *some_rows(kind, ROWS))
    if later is not None:
        split(path, later)
    (folder / "manifest.json").write_bytes(open_to_extend(folder, key).manifest.content(key))
    return folder


def header(kind="int"):
    return Header("ab" * 16, "id", kind, keep_order=True, keyed=True, row_numbers=False, label_column="y")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return make(tmp_path_factory.mktemp("parts") / "message", cuts=[20, 40], later=[30])


@pytest.fixture
def message(original, tmp_path):
    return shutil.copytree(original, tmp_path / "message")


cuts = st.none() | st.lists(st.integers(0, ROWS), max_size=5)


@pytest.mark.parametrize("kind", ["int", "str"])
@given(cuts=cuts, later=cuts)
def test_how_rows_are_split_into_parts_does_not_show_in_what_is_read(tmp_path_factory, kind, cuts, later):
    """A cut at an end, or the same cut twice, makes an empty part."""
    folder = tmp_path_factory.mktemp("split")
    whole, parts = Message.open(make(folder / "whole", kind)), Message.open(make(folder / "parts", kind, cuts, later))
    assert parts.to_arrow() == whole.to_arrow()
    assert np.array_equal(parts.labels.codes, whole.labels.codes)
    assert len(parts) == len(whole) == 2 * ROWS
    assert parts.id_type == whole.id_type
    assert parts.next_file == folder / "parts" / "labels" / "part-00002.parquet"
    assert [batch.rows for batch in parts.manifest.batches] == [ROWS, ROWS]
    assert len(parts.files) == sum(1 if ends is None else len(ends) + 1 for ends in (cuts, later))


def test_more_than_ten_parts_are_read_in_the_order_of_their_numbers(tmp_path):
    many = Message.open(make(tmp_path / "many", cuts=range(1, ROWS)))
    assert [file.path.name for file in many.files[:ROWS]] == [f"part-{part:05d}.parquet" for part in range(ROWS)]
    assert many.to_arrow()["id"].to_pylist()[:ROWS] == some_rows()[0].to_pylist()


def test_a_file_is_known_by_its_own_digest_and_a_folder_by_that_of_its_entries(message, tmp_path):
    first, later = Message.open(message).manifest.batches
    assert first.sha256 == batch_digest(message, FIRST)
    assert later.sha256 == batch_digest(message, LATER)
    whole = Message.open(make(tmp_path / "whole"))
    (file, _) = whole.files
    assert whole.manifest.batches[0].sha256 == hashlib.sha256(file.path.read_bytes()).hexdigest()


def test_a_message_in_parts_is_signed_with_all_of_them(tmp_path):
    private, public, _ = write_signing_keys(tmp_path / "sender")
    message = make(tmp_path / "message", cuts=[20], key=SigningKey.read(private, tmp_path / "message"))
    opened = Message.open(message, verify_key=public)
    assert VerifyKey.read(public).accepts(opened.signature.value, opened.manifest.canonical())
    first, second = (message / FIRST / f"part-0000{part}.parquet" for part in range(2))
    swap(first, second)
    rewrite_manifest(message)
    Message.open(message)
    with pytest.raises(InvalidInput, match="edited after it was signed"):
        Message.open(message, verify_key=public)


def swap(one, other):
    one.rename(one.with_suffix(".kept"))
    other.rename(one)
    one.with_suffix(".kept").rename(other)


def in_a_folder_of_its_own(part):
    kept = part.read_bytes()
    part.unlink()
    part.mkdir()
    (part / "part-00000.parquet").write_bytes(kept)


def linked(path):
    outside = next(folder for folder in path.parents if folder.name == "message").with_name("elsewhere")
    path.rename(outside)
    path.symlink_to(outside)


def other_code(table):
    codes = np.asarray(table["code"]).copy()
    codes[0] = (codes[0] + 1) % MECHANISM.outputs.size
    return table.set_column(1, "code", pa.array(codes)).set_column(
        2, "private_label", pa.array(MECHANISM.outputs[codes])
    )


@pytest.mark.parametrize("batch", [FIRST, LATER])
@pytest.mark.parametrize(
    ("edit", "says"),
    {
        "missing part": (lambda batch: (batch / "part-00001.parquet").unlink(), "part-00001.parquet is missing"),
        "part renamed": (
            lambda batch: (batch / "part-00001.parquet").rename(batch / "part-00007.parquet"),
            "part-00001.parquet is missing",
        ),
        "part added": (
            lambda batch: shutil.copy(batch / "part-00000.parquet", batch / "part-00003.parquet"),
            UNLISTED,
        ),
        "another file": (lambda batch: (batch / "_SUCCESS").touch(), UNLISTED),
        "folder inside": (
            lambda batch: shutil.copytree(batch, batch / "more", copy_function=shutil.copy),
            UNLISTED,
        ),
        "part in a folder": (
            lambda batch: in_a_folder_of_its_own(batch / "part-00001.parquet"),
            "part-00001.parquet is missing",
        ),
        "swapped parts": (
            lambda batch: swap(batch / "part-00000.parquet", batch / "part-00001.parquet"),
            "edited or damaged",
        ),
        "edited part": (lambda batch: rewrite_rows(batch, other_code, "part-00001.parquet"), "edited or damaged"),
        "cut part": (lambda batch: os.truncate(batch / "part-00001.parquet", 100), "edited or damaged"),
        "part is a link": (lambda batch: linked(batch / "part-00001.parquet"), "part-00001.parquet is a link"),
        "folder is a link": (linked, r"(labels|part-00001)\.parquet is a link"),
    }.values(),
)
def test_a_folder_that_is_not_the_listed_one_is_refused(message, batch, edit, says):
    edit(message / batch)
    with pytest.raises(InvalidInput, match=says):
        Message.open(message)


@pytest.mark.parametrize("name", [".DS_Store", "._part-00000.parquet"])
def test_what_a_desktop_leaves_among_parts_is_ignored(message, name):
    (message / FIRST / name).write_bytes(b"\0")
    assert len(Message.open(message)) == 2 * ROWS
    assert open_to_extend(message, None).to_arrow() == Message.open(message).to_arrow()


def renamed(place, name):
    return lambda files: files[place].update(name=name)


@pytest.mark.parametrize(
    "change",
    {
        "gap": renamed(4, "labels.parquet/part-00003.parquet"),
        "from one": lambda files: [
            file.update(name=f"labels.parquet/part-{n:05d}.parquet") for n, file in enumerate(files[2:5], 1)
        ],
        "four digits": renamed(3, "labels.parquet/part-0001.parquet"),
        "twice": renamed(3, "labels.parquet/part-00000.parquet"),
        "other order": lambda files: files.insert(2, files.pop(3)),
        "other suffix": renamed(4, "labels.parquet/part-00002.csv"),
        "file and folder": renamed(2, "labels.parquet"),
        "file after folder": lambda files: files.insert(5, files[2] | {"name": "labels.parquet", "rows": 0}),
        "batch that is left out": lambda files: [
            file.update(name=file["name"].replace("part-00001.parquet/", "part-00002.parquet/")) for file in files[5:]
        ],
        "batches mixed": lambda files: files.append(files.pop(4)),
        "nested": renamed(3, "labels.parquet/part-00001.parquet/part-00000.parquet"),
        "dots": renamed(3, "labels.parquet/../labels.parquet/part-00001.parquet"),
        "papers in another order": lambda files: files.insert(0, files.pop(1)),
        "no labels": lambda files: files.__delitem__(slice(2, None)),
        "absolute": renamed(3, "/labels.parquet/part-00001.parquet"),
    }.values(),
)
def test_other_names_than_those_of_batches_and_parts_are_refused(message, change):
    def edit(record):
        change(record["manifest"]["files"])

    edit_json(message / "manifest.json", edit)
    with pytest.raises(InvalidInput, match=r"manifest\.json is damaged: it lists other names than a message has"):
        Message.open(message)


def test_no_message_is_written_with_more_parts_than_a_batch_has(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest_module, "MOST_PARTS", 3)
    make(tmp_path / "three", cuts=[20, 40])
    with pytest.raises(InvalidInput, match="has 4 files, and a batch has at most 3 parts"):
        make(tmp_path / "four", cuts=[20, 30, 40])


def test_a_manifest_that_no_reader_would_take_is_not_written(message, monkeypatch):
    manifest = Message.open(message).manifest
    monkeypatch.setattr(manifest_module, "MOST_BYTES", len(manifest.content(None)))
    manifest.content(None)
    monkeypatch.setattr(manifest_module, "MOST_BYTES", len(manifest.content(None)) - 1)
    with pytest.raises(InvalidInput, match=r"7 files.*fewer parts"):
        manifest.content(None)


def test_a_message_of_empty_parts_holds_nothing_and_is_refused(tmp_path):
    with new_message(tmp_path / "message", MECHANISM, header()) as labels:
        write_file(labels, pa.array([], pa.int64()), np.empty(0, np.uint8))
        split(labels, [0, 0])
    with pytest.raises(InvalidInput, match="contains no records"):
        Message.open(tmp_path / "message")


@pytest.mark.parametrize(
    ("spoil", "says"),
    {
        "no part": (lambda labels: (labels / "part-00000.parquet").unlink(), "at least one part"),
        "gap": (
            lambda labels: (labels / "part-00000.parquet").rename(labels / "part-00001.parquet"),
            "part-00001.parquet is not a part",
        ),
        "success": (lambda labels: (labels / "_SUCCESS").touch(), "_SUCCESS is not a part"),
        "Spark's name": (
            lambda labels: (labels / "part-00000.parquet").rename(labels / "part-00000-1b2c.snappy.parquet"),
            "snappy.parquet is not a part",
        ),
        "folder": (
            lambda labels: in_a_folder_of_its_own(labels / "part-00000.parquet"),
            "part-00000.parquet is not a part",
        ),
        "link": (lambda labels: linked(labels / "part-00000.parquet"), "part-00000.parquet is a link"),
        "folder is a link": (linked, "labels.parquet is a link"),
        "true labels": (
            lambda labels: rewrite_rows(
                labels, lambda table: table.append_column("y", pa.array(np.zeros(ROWS))), "part-00000.parquet"
            ),
            "has the columns",
        ),
        "another type": (
            lambda labels: rewrite_rows(
                labels, lambda table: table.set_column(1, "code", table["code"].cast("int64")), "part-00000.parquet"
            ),
            "does not have the column types",
        ),
    }.values(),
)
def test_no_message_is_written_round_a_folder_that_is_not_one_of_parts(tmp_path, spoil, says):
    (tmp_path / "in").mkdir()

    def write():
        with new_message(tmp_path / "in" / "message", MECHANISM, header()) as labels:
            write_file(labels, *some_rows())
            split(labels)
            spoil(labels)

    with pytest.raises(InvalidInput, match=says):
        write()
    assert not (tmp_path / "in" / "message" / "manifest.json").exists()


# What else writes labels: Spark has no unsigned types, and chooses types of its own.


def with_column(message, name, values, part=f"{FIRST}/part-00001.parquet"):
    def change(table):
        place = table.schema.get_field_index(name)
        return table.set_column(place, name, values(table[name]))

    rewrite_rows(message, change, part)
    rewrite_manifest(message)


@pytest.mark.parametrize("kind", [pa.int16(), pa.uint32()])
def test_codes_of_other_types_are_read_as_the_same_codes(message, original, kind):
    with_column(message, "code", lambda codes: codes.cast(kind))
    assert Message.open(message).to_arrow() == Message.open(original).to_arrow()


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
def test_codes_of_types_that_no_engine_writes_are_refused(message, kind):
    with_column(message, "code", lambda codes: codes.cast(kind))
    with pytest.raises(InvalidInput, match="does not have the column types"):
        Message.open(message)


@pytest.mark.parametrize("kind", [np.int16, np.int32])
def test_a_negative_code_is_refused_though_it_counts_from_the_end(message, kind):
    """In NumPy code -1 has the last output, so the private label beside it fits."""
    count = MECHANISM.outputs.size
    with_column(message, "code", lambda codes: pa.array(np.asarray(codes).astype(kind) - count))
    opened = Message.open(message)
    with pytest.raises(InvalidInput, match="a code that does not fit"):
        opened.to_arrow()


@pytest.mark.parametrize(
    ("first", "other"), [(pa.int32(), pa.uint64()), (pa.uint64(), pa.int32()), (pa.uint16(), pa.int64())]
)
def test_ids_have_the_type_of_the_first_file_whatever_the_others_have(message, original, first, other):
    with_column(message, "id", lambda ids: ids.cast(first), f"{FIRST}/part-00000.parquet")
    with_column(message, "id", lambda ids: ids.cast(other))
    opened = Message.open(message)
    assert opened.id_type == first
    assert {ids.type for ids, _ in opened.batches()} == {first}
    assert {ids.type for file in opened.files for ids, _ in file.batches()} == {first}
    assert opened.to_arrow()["id"].to_pylist() == Message.open(original).to_arrow()["id"].to_pylist()


@pytest.mark.parametrize(("first", "wide"), [(pa.int32(), 5_000_000_123), (pa.uint64(), -5_000_000_123)])
def test_an_id_that_does_not_fit_the_first_type_is_refused_and_not_shown(message, first, wide):
    with_column(message, "id", lambda ids: ids.cast(first), f"{FIRST}/part-00000.parquet")
    with_column(message, "id", lambda ids: pa.array([wide, *ids.to_pylist()[1:]]))
    with pytest.raises(InvalidInput, match="has an id that does not fit the type") as caught:
        Message.open(message).to_arrow()
    assert "5000000123" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_an_id_in_two_parts_is_refused_also_if_their_types_differ(message):
    kept = pq.read_table(message / FIRST / "part-00000.parquet")["id"]
    with_column(message, "id", lambda ids: kept.cast(pa.int32()))
    with pytest.raises(InvalidInput, match="holds the same id in rows 1 and 21"):
        Message.open(message).to_arrow()


def to_extend(message):
    """The message as a run of apply leaves it that was killed between adding the later batch and listing it."""
    listed = json.loads((message / "manifest.json").read_text())["manifest"]["files"]
    first = tuple(ListedFile(**file) for file in listed if not file["name"].startswith("labels/"))
    (message / "manifest.json").write_bytes(Manifest("labels", header().release, "1", first).content(None))
    return message


def test_a_batch_in_parts_that_is_not_listed_yet_is_in_the_message_for_apply_alone(message, original):
    whole = Message.open(original)
    to_extend(message)
    with pytest.raises(InvalidInput, match=r"part-00000\.parquet is not listed in .*a run of apply is under way"):
        Message.open(message)
    opened = open_to_extend(message, None)
    assert opened.manifest == whole.manifest
    assert opened.to_arrow() == whole.to_arrow()
    assert [file.sha256 for file in opened.files] == [file.sha256 for file in whole.files]
    assert opened.next_file == message / "labels" / "part-00002.parquet"


def test_a_batch_that_is_not_listed_yet_is_read_as_every_other(message, original):
    """With ids in the type of the first file, and without what a desktop left there."""
    for part in range(2):
        with_column(message, "id", lambda ids: ids.cast(pa.int32()), f"{LATER}/part-0000{part}.parquet")
    to_extend(message)
    (message / LATER / ".DS_Store").write_bytes(b"\0")
    opened = open_to_extend(message, None)
    assert {ids.type for ids, _ in opened.batches()} == {pa.int64()}
    assert opened.to_arrow() == Message.open(original).to_arrow()


def to_nowhere(batch):
    shutil.rmtree(batch)
    batch.symlink_to(batch.with_name("nowhere"))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (to_nowhere, "part-00001.parquet is a link"),
        (lambda batch: (batch / "part-00000.parquet").unlink(), "part-00001.parquet is not a part"),
        (lambda batch: [part.unlink() for part in batch.iterdir()], "at least one part"),
        (lambda batch: (batch / "_SUCCESS").touch(), "_SUCCESS is not a part"),
        (lambda batch: linked(batch / "part-00001.parquet"), "part-00001.parquet is a link"),
        (linked, "part-00001.parquet is a link"),
        (lambda batch: os.truncate(batch / "part-00001.parquet", 100), "cannot read .*part-00001.parquet"),
        (lambda batch: shutil.copytree(batch, batch.with_name("part-00002.parquet")), "part-00002.* is not listed"),
    ],
)
def test_a_spoilt_batch_that_is_not_listed_yet_is_refused(message, spoil, says):
    to_extend(message)
    spoil(message / LATER)
    with pytest.raises(InvalidInput, match=says):
        open_to_extend(message, None)
