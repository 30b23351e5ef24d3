"""`labeldp apply`: later batches, and the attack that a changed label must not show."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forgery import edit_json, rewrite_manifest, rewrite_rows
from labeldp.artifact.reader import Message
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.arrow.source import LabelSource
from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism, RROnBins
from labeldp.release import apply as later_batch
from labeldp.release import key_file
from labeldp.release.key_file import KeyFile
from labeldp.release.ledger import Ledger
from labeldp.release.ledger_journal import LedgerBroken
from labeldp.sampling import KeyedRandomness

ROWS = 1500
ASKED = ("--label", "y", "--epsilon", "1", "--integers", "0:100", "--mechanism", "rr-on-bins")


def write(name, ids, labels, kind=None):
    pq.write_table(pa.table({"id": pa.array(ids, kind), "y": np.asarray(labels, float)}), name)


@pytest.fixture(scope="module")
def made(labeldp, tmp_path_factory):
    """Two folders with a message of the ids 0 to ROWS - 1, its key file and a batch that overlaps it.

    The release in the folder `charged` was charged to a ledger.
    """
    place = tmp_path_factory.mktemp("made")
    for name in ("plain", "charged"):
        folder = place / name
        folder.mkdir()
        rng = np.random.default_rng(0)
        write(folder / "monday.parquet", np.arange(ROWS), rng.integers(0, 101, ROWS))
        write(folder / "tuesday.parquet", np.arange(ROWS - 10, ROWS + 90), rng.integers(0, 101, 100))
        labels = (folder / "monday.parquet", *ASKED, "--id", "id", "--key-file", folder / "key", "--quiet")
        charge = ("--ledger", folder / "ledger.db", "--dataset", "data")
        if name == "charged":
            Ledger.create(folder / "ledger.db").add_dataset("data", budget=3)
        labeldp("privatize", *labels, "--out", folder / "message", *(charge if name == "charged" else ()))
    return place


@pytest.fixture
def message(made, tmp_path, monkeypatch):
    """A copy of the message that was not charged to a ledger, in the working folder."""
    monkeypatch.chdir(shutil.copytree(made / "plain", tmp_path / "here"))
    return Path("message")


@pytest.fixture
def charged(made, tmp_path, monkeypatch):
    """The ledger of the charged message; a copy of both is in the working folder."""
    monkeypatch.chdir(shutil.copytree(made / "charged", tmp_path / "here"))
    return Ledger("ledger.db")


def privatize(run, file, *more):
    return run("privatize", file, *ASKED, "--out", "message", *more)


def apply(run, file="tuesday.parquet", *more, message="message", key="key"):
    return run("apply", message, file, "--label", "y", "--key-file", key, *more)


def held(message):
    return {
        i: int(c) for ids, codes in Message.open(message).batches() for i, c in zip(ids.to_pylist(), codes, strict=True)
    }


def content(message):
    return {str(p.relative_to(message)): p.read_bytes() for p in Path(message).rglob("*") if p.is_file()}


def refused(run, *arguments, says, code=2, **places):
    before = content("message"), Path("key").read_bytes()
    got, output, errors = apply(run, *arguments, **places)
    assert (got, output) == (code, ""), errors
    assert says in errors
    assert (content("message"), Path("key").read_bytes()) == before


def test_new_records_join_the_message_with_the_draws_of_its_release(run, message):
    before = content(message)
    code, output, _ = apply(run)
    assert code == 0
    assert "90 new records" in output
    assert "10 records that were there already" in output
    after = content(message)
    assert set(after) - set(before) == {"labels/part-00001.parquet"}
    assert {name for name in before if after[name] != before[name]} == {"manifest.json", "PRIVACY.md"}
    with KeyFile.use(Path("key")) as keys:
        (kept,) = keys.releases
        randomness = KeyedRandomness(keys.key, bytes.fromhex(kept.id))
        mechanism = FiniteMechanism.from_json(kept.mechanism)
    batch = pq.read_table("tuesday.parquet").slice(10)
    expected = mechanism.codes(batch["y"].to_numpy(), batch["id"], randomness)
    assert {i: c for i, c in held(message).items() if i >= ROWS} == dict(
        zip(batch["id"].to_pylist(), expected.tolist(), strict=True)
    )


@pytest.mark.parametrize("kind", [None, pa.string()], ids=["int", "str"])
def test_a_label_that_changed_between_batches_does_not_show(run, message, kind):
    """The attack: the same batch with every held label at its lowest and at its highest; all bytes must agree."""
    if kind is not None:
        shutil.rmtree("message")
        write("monday.parquet", [str(i) for i in range(ROWS)], np.linspace(0, 100, ROWS).round(), kind)
        assert privatize(run, "monday.parquet", "--id", "id", "--key-file", "key")[0] == 0
    ids = [i if kind is None else str(i) for i in range(ROWS + 20)]
    results = []
    for changed in (0.0, 100.0):
        for name in ("message", "key"):
            (shutil.copytree if name == "message" else shutil.copy)(name, f"{name}-{changed}")
        labels = np.full(ROWS + 20, changed)
        labels[ROWS:] = 50
        write("later.parquet", ids, labels, kind)
        code, output, _ = apply(run, "later.parquet", message=f"message-{changed}", key=f"key-{changed}")
        assert code == 0
        part = pq.read_table(f"message-{changed}/labels/part-00001.parquet")
        assert set(part["id"].to_pylist()) == set(ids[ROWS:])
        results.append((content(f"message-{changed}"), output.replace(str(changed), "")))
    assert results[0] == results[1]


def test_the_same_batch_again_adds_nothing(run, message):
    apply(run)
    before = content(message)
    code, output, _ = apply(run, "tuesday.parquet", "--json")
    told = json.loads(output)
    assert (code, told["records"], told["already_held"]) == (0, 0, 100)
    assert content(message) == before


def test_an_outdated_copy_of_the_message_is_refused(run, message):
    shutil.copytree("message", "copy")
    assert apply(run)[0] == 0
    refused(run, "tuesday.parquet", message="copy", says="outdated copy")
    assert "labels" not in [p.name for p in Path("copy").iterdir()]


def test_an_outdated_key_file_is_refused(run, message):
    old = Path("key").read_bytes()
    assert apply(run)[0] == 0
    Path("key").write_bytes(old)
    refused(run, says="the key file is an outdated copy")


def test_a_message_whose_batches_were_changed_is_refused(run, message):
    rewrite_rows(message, lambda table: table.slice(5))
    refused(run, says="was edited or damaged")
    rewrite_manifest(message)
    refused(run, says="they were changed")


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["domain"].update(lower=1.0, upper=101.0),
        lambda record: record["prior"]["masses"].reverse(),
    ],
    ids=["bounds", "prior"],
)
def test_a_message_whose_description_was_changed_is_refused(run, message, change):
    """No draw depends on these, so the mechanism's digest does not hold them; the key file does."""
    edit_json(message / "mechanism.json", change)
    rewrite_manifest(message)
    refused(run, says="does not describe the mechanism as")


def test_a_moved_message_is_the_same_message(run, message):
    message.rename("elsewhere")
    Path("link").symlink_to("elsewhere")
    assert run("apply", "link", "tuesday.parquet", "--key-file", "key")[0] == 0  # the label column is known
    assert len(held("elsewhere")) == ROWS + 90


def test_a_wrong_message_or_key_file_is_refused(run, message):
    refused(run, message="nothing", says="is not a message")
    refused(run, key="nothing", says="there is no key file nothing")
    shutil.copy("key", "message/key")
    refused(run, key="message/key", says="would be sent along")
    report = (
        "--label",
        "y",
        "--epsilon",
        1,
        "--lower",
        0,
        "--upper",
        100,
        "--out-of-range",
        "clip-all",
        "--out",
        "report",
        "-q",
    )
    assert run("report", "monday.parquet", *report)[0] == 0
    refused(run, message="report", says="report is a report, not a message: give the folder of a message")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--id", "id", "--key-file", "other"), "is not the key of"),
        (("--id", "id"), "made without --key-file"),
        (("--key-file", "key"), "row numbers"),
    ],
)
def test_a_release_without_this_key_or_without_ids_takes_no_batches(run, message, more, says):
    message.rename("first")
    assert privatize(run, "monday.parquet", *more)[0] == 0
    write("later.parquet", [1], [1])
    refused(run, "later.parquet", says=says)


@pytest.mark.parametrize(
    ("ids", "kind", "says"),
    [
        (["1", "x"], None, "the message's ids are whole numbers, these are text"),
        (["7001", "7002"], None, "Give --id-type int"),
        ([1 << 63, 5], pa.uint64(), "do not fit into int64"),
        ([7_000, 7_000], None, "row 2 (as row 1)"),
        ([None, 7_000], pa.int64(), "with no id in 'id': row 1 "),
    ],
)
def test_ids_of_another_kind_are_refused(run, message, ids, kind, says):
    write("later.parquet", ids, [1.0, 2.0], kind)
    refused(run, "later.parquet", says=says)


def test_advice_is_about_what_apply_can_change(run, message):
    write("later.parquet", [7_001, 7_002], [1.0, 2.5])
    refused(
        run,
        "later.parquet",
        says="not a whole number: row 2 (rows count from 1). The bounds are whole numbers. Is it the right column?",
    )
    assert "privatize --lower" in apply(run, "later.parquet")[2]
    (message.parent / "later.csv").write_text("id,y\n7001,1\n7002,\n")
    refused(run, "later.csv", says="1 record with a missing label in 'y': line 3")


def test_narrower_integers_are_the_same_ids(run, message):
    write("later.parquet", [5, ROWS + 1], [1.0, 2.0], pa.int16())
    code, output, _ = apply(run, "later.parquet")
    assert (code, "1 new record to" in output, "kept     1 record that was" in output) == (0, True, True)
    assert len({file.schema().types[0] for file in Message.open(message).files}) == 1


def test_another_id_column_is_refused(run, message):
    refused(run, "tuesday.parquet", "--id", "y2", says="give --id id")
    table = pq.read_table("tuesday.parquet").rename_columns(["order", "y"])
    pq.write_table(table, "later.parquet")
    refused(run, "later.parquet", says="no column 'id'")


def test_another_label_column_is_refused(run, message):
    table = pq.read_table("tuesday.parquet")
    pq.write_table(table.append_column("stay", table.column("y")), "later.parquet")
    code, output, errors = run("apply", "message", "later.parquet", "--label", "stay", "--key-file", "key")
    assert (code, output) == (2, "")
    assert "the labels of this message are called 'y', you gave 'stay'" in errors
    with pytest.raises(InvalidInput, match="rename the column"):
        later_batch.apply("message", LabelSource("later.parquet", "stay", "id"), key_file="key")
    assert not (message / "labels").exists()
    assert held(message).keys() == set(range(ROWS))


def test_privatize_repeated_after_later_batches_reports_the_records_of_the_whole_message(run, message):
    write("wednesday.parquet", [5000, 5001], [1, 2])
    assert apply(run)[0] == apply(run, "wednesday.parquet")[0] == 0
    again = ("monday.parquet", "--id", "id", "--key-file", "key")
    code, output, _ = privatize(run, *again)
    assert (code, "records  1,592, 92 of them from later batches" in output) == (0, True)
    told = json.loads(privatize(run, *again, "--json")[1])
    assert (told["records"], told["message_records"]) == (ROWS, len(Message.open(message)))


def test_the_label_column_need_not_be_named_again(run, message):
    code, output, _ = run("apply", "message", "tuesday.parquet", "--key-file", "key")
    assert (code, "90 new records" in output) == (0, True)


def test_labels_beyond_the_bounds_are_moved_and_only_the_owner_is_told(run, message):
    write("later.parquet", [ROWS, ROWS + 1], [1e9, 1e9])
    refused(run, "later.parquet", says="more than 20% of the labels lie outside")
    code, output, errors = apply(run, "later.parquet", "--out-of-range", "clip-all")
    assert code == 0
    assert "2 labels lay outside" in errors
    assert "outside" not in output


def test_a_batch_that_changes_while_it_is_read_leaves_the_way_open_for_another(run, message, monkeypatch):
    undisturbed = ArrowInput.randomize

    def meddle(*arguments, **named):
        write("tuesday.parquet", [ROWS], [7.0])
        return undisturbed(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(ArrowInput, "randomize", meddle)
        code, _, errors = apply(run)
    assert (code, "changed while it was read" in errors) == (2, True)
    assert list(message.rglob("part-*")) == []
    assert apply(run)[0] == 0
    assert len(held(message)) == ROWS + 1


def test_a_full_disk_leaves_the_message_as_it_was(run, message, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    before = content(message)
    with monkeypatch.context() as patch:
        patch.setattr(later_batch, "publish", full)
        code, _, errors = apply(run)
    assert (code, "No space left on device" in errors, "was not changed" in errors) == (1, True, True)
    assert {name: data for name, data in content(message).items() if data} == before
    assert apply(run)[0] == 0


def test_a_full_disk_that_takes_no_key_file_either_does_not_hide_the_first_error(run, message, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    def publish(*_):
        patch.setattr(key_file, "flush", full)  # from now on the key file cannot be written
        full()

    write("other.parquet", [7_000], [5.0])
    before = content(message)
    with monkeypatch.context() as patch:
        patch.setattr(later_batch, "publish", publish)
        code, _, errors = apply(run)
    assert (code, "cannot add to message: No space left on device" in errors) == (1, True)
    assert "was not changed, and accepts no other batch before this one" in errors
    assert {name: data for name, data in content(message).items() if data} == before
    refused(run, "other.parquet", says="an earlier batch was begun and not finished")
    assert apply(run)[0] == 0
    assert apply(run, "other.parquet")[0] == 0


def test_a_message_with_a_single_byte_changed_is_refused(run, message):
    """A lost id would be drawn a second time, and the two draws could prove that its label changed."""
    labels = message / "labels.parquet"
    content = bytearray(labels.read_bytes())
    content[len(content) // 3] ^= 1  # inside a page: the file's length and its footer stay as they were
    labels.write_bytes(content)
    code, _, errors = apply(run)
    assert code == 2, errors


@pytest.mark.parametrize("file", ["labels.parquet", "labels/part-00001.parquet"], ids=["old", "new"])
def test_a_batch_that_is_changed_after_the_check_is_not_taken_for_known(run, message, monkeypatch, file):
    undisturbed = later_batch.publish

    def meddle(*places):
        undisturbed(*places)
        pq.write_table(pq.read_table(message / file).slice(5), message / file)

    with monkeypatch.context() as patch:
        patch.setattr(later_batch, "publish", meddle)
        assert apply(run)[0] == 0
    refused(run, says="was edited or damaged")
    rewrite_manifest(message)
    refused(run, says="they were changed")


def test_a_batch_is_recorded_in_the_ledger_once_and_costs_nothing(run, charged):
    for _ in range(2):
        assert apply(run, "tuesday.parquet", "--ledger", "ledger.db")[0] == 0
    (release,) = charged.history()
    (batch,) = charged.batches(release.id)
    assert (batch.number, batch.records, release.batches, release.batch_records) == (1, 100, 1, 100)
    assert charged.remaining("data") == 2
    assert charged.verify().batches == 1
    write("wednesday.parquet", [7_000], [5.0])
    assert apply(run, "wednesday.parquet", "--ledger", "ledger.db")[0] == 0
    assert [batch.records for batch in charged.batches(release.id)] == [100, 1]
    output = run("ledger", "history", "ledger.db")[1]
    assert [line.split()[-2:] for line in output.splitlines() if release.id[:8] in line] == [["2", "101"]]


def test_a_release_that_was_charged_to_a_ledger_is_added_to_with_its_ledger_only(run, charged):
    refused(run, says="was charged to a ledger")
    Ledger.create("other.db").add_dataset("data", budget=3)
    refused(
        run, "tuesday.parquet", "--ledger", "other.db", says="give the ledger that privatize charged for this message"
    )
    refused(run, "tuesday.parquet", "--ledger", "absent.db", says="there is no ledger")
    assert charged.history()[0].batches == 0


def test_a_ledger_that_knows_another_mechanism_is_refused(run, charged):
    """An owner's copy of the ledger in which the release has another mechanism, of the same cost."""
    (release,) = charged.history()
    other = RROnBins([10, 100], epsilon="0.25")
    copy = Ledger.create("copy.db")
    copy.add_dataset("data", budget=3)
    copied = copy.reserve("data", 1)
    copy.fix(copied.id, other)
    with closing(sqlite3.connect("copy.db", isolation_level=None)) as owner:
        (trigger,) = owner.execute("SELECT sql FROM sqlite_master WHERE name = 'charge_kept'").fetchone()
        owner.execute("DROP TRIGGER charge_kept")
        owner.execute("UPDATE release SET id = ?", (release.id,))
        owner.execute(trigger)
    refused(run, "tuesday.parquet", "--ledger", "copy.db", says="another mechanism")


def test_nothing_is_drawn_before_the_batch_is_recorded(run, charged, monkeypatch):
    recorded, undisturbed = [], ArrowInput.randomize

    def look(*arguments, **named):
        recorded.append(charged.history()[0].batches)
        return undisturbed(*arguments, **named)

    monkeypatch.setattr(ArrowInput, "randomize", look)
    assert apply(run, "tuesday.parquet", "--ledger", "ledger.db")[0] == 0
    assert recorded == [1]


def test_a_ledger_that_cannot_record_the_batch_leaves_the_message_as_it_was(run, charged, monkeypatch):
    def full(*_, **__):
        raise LedgerBroken("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "record_batch", full)
        refused(run, "tuesday.parquet", "--ledger", "ledger.db", says="the disk is full", code=3)
    assert apply(run, "tuesday.parquet", "--ledger", "ledger.db")[0] == 0


def test_a_batch_that_was_stopped_and_resumed_is_recorded_once(run, charged, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(later_batch, "publish", killed)
        assert apply(run, "tuesday.parquet", "--ledger", "ledger.db")[0] == 130
    assert apply(run, "tuesday.parquet", "--ledger", "ledger.db")[0] == 0
    assert charged.history()[0].batches == 1


def test_a_message_that_no_ledger_was_charged_for_takes_none(run, message):
    Ledger.create("ledger.db").add_dataset("data", budget=3)
    refused(run, "tuesday.parquet", "--ledger", "ledger.db", says="does not contain the release")


@pytest.mark.parametrize(("times", "share"), [(4, 0.65), pytest.param(40, 0.95, marks=pytest.mark.slow)])
def test_the_same_labels_under_new_ids_are_recovered(run, message, times, share):
    """The attack that nothing here can stop, for the figure in the docs: what it costs is ε for every new id."""
    labels = np.repeat([0.0, 100.0], 500)
    for time in range(1, times + 1):
        write("again.parquet", np.arange(time * 10_000, time * 10_000 + 1000), labels)
        assert apply(run, "again.parquet")[0] == 0
    codes, outputs = held(message), Message.open(message).mechanism.outputs
    seen = np.mean(
        [outputs[[codes[time * 10_000 + row] for row in range(1000)]] for time in range(1, times + 1)], axis=0
    )
    middle = outputs.mean()  # the bins follow a noisy prior, so their middle need not be 50
    assert np.mean((seen > middle) == (labels > 50)) > share
