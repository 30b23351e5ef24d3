"""The check of a whole ledger: an honest one passes, and every change by the owner of the file is found."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import sqlite3
from contextlib import closing

import pytest

from labeldp.errors import InvalidInput, LabelDPError
from labeldp.mechanisms import RROnBins
from labeldp.release import ledger_journal
from labeldp.release.ledger import Ledger
from labeldp.release.ledger_file import transaction
from labeldp.release.ledger_journal import BEGINNING, LedgerBroken, UnknownEntry

CHEAP = RROnBins([10, 100], epsilon="0.25")
DEAR = RROnBins([10, 100], epsilon=2)
FIX = "fixed_at mechanism_digest mechanism_sha256"
CHARGE = "id dataset kind epsilon entries part_of part reserved_at key_check input_hmac request"
ENTRIES = ["dataset", "reserve", "fix", "commit", "reserve", "batch"]


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """The bytes of a ledger with a release that was committed and extended, and another that was reserved.

    `ENTRIES` is its journal.
    """
    ledger = Ledger.create(tmp_path_factory.mktemp("used") / "ledger.db")
    ledger.add_dataset("sales", budget="3")
    release = ledger.reserve("sales", 1)
    ledger.fix(release.id, CHEAP)
    ledger.commit(release.id)
    ledger.reserve("sales", "0.5", key_check="11", input_hmac="22", request='{"loss": "squared"}')
    ledger.record_batch(release.id, records=100, input_hmac="33", mechanism_digest=CHEAP.digest)
    return ledger.path.read_bytes()


@pytest.fixture
def ledger(content, tmp_path):
    """A copy of that ledger."""
    (tmp_path / "ledger.db").write_bytes(content)
    return Ledger(tmp_path / "ledger.db")


@pytest.fixture
def own(ledger):
    """Runs statements as the owner of the file can: every trigger is dropped first and made again afterwards."""

    def run(*statements):
        with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
            triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            for statement in statements:
                if callable(statement):
                    statement(connection)
                else:
                    connection.execute(statement)
            for _, sql in triggers:
                connection.execute(sql)

    return run


def chain_anew(connection, change=lambda number, entry: entry):
    """Writes the whole journal again with right hashes, each entry changed by `change`."""
    previous = BEGINNING
    for number, entry in connection.execute("SELECT number, entry FROM journal ORDER BY number").fetchall():
        text = json.dumps(change(number, json.loads(entry)), sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
        connection.execute("UPDATE journal SET entry = ?, hash = ? WHERE number = ?", (text, previous, number))


def rewritten(place, drop="", **changes):
    """Changes the entry at a place and all hashes after it; `drop` names fields that it loses."""

    def change(number, entry):
        kept = {name: value for name, value in entry.items() if name not in drop.split()}
        return kept | changes if number == place else entry

    return lambda connection: chain_anew(connection, change)


def test_an_honest_ledger_passes_and_changes_nothing(ledger):
    before = ledger.path.read_bytes()
    checked = ledger.verify()
    assert (checked.entries, checked.datasets, checked.releases, checked.batches, checked.mechanisms) == (6, 1, 2, 1, 1)
    assert ledger.verify(expect=checked.head.upper()).expected_at == 6
    assert ledger.path.read_bytes() == before


def test_each_step_is_one_entry_and_the_hash_is_that_of_the_page_on_ledgers(ledger, raw):
    rows = raw("SELECT number, entry, hash FROM journal ORDER BY number")
    assert [json.loads(entry)["action"] for _, entry, _ in rows] == ENTRIES
    previous = "0" * 64
    for _, entry, stated in rows:
        previous = hashlib.sha256(f"{previous}\n{entry}".encode()).hexdigest()
        assert stated == previous
    assert ledger.verify().head == previous


def test_a_step_that_is_repeated_or_refused_writes_no_entry(ledger):
    release = ledger.history()[0]
    ledger.fix(release.id, CHEAP)
    ledger.commit(release.id)
    ledger.record_batch(release.id, records=100, input_hmac="33", mechanism_digest=CHEAP.digest)
    for refused in (lambda: ledger.reserve("sales", 30), lambda: ledger.add_dataset("sales", 1)):
        with pytest.raises(LabelDPError):
            refused()
    assert ledger.verify().entries == 6


@pytest.mark.parametrize("records", ["2.5", "x'ff'"])
def test_a_number_of_records_that_is_none_is_refused_in_words(ledger, own, records):
    """SQLite takes any value in any column."""
    own(f"UPDATE batch SET records = {records}")
    for read in (ledger.history, ledger.datasets, ledger.to_arrow):
        with pytest.raises(LedgerBroken, match="in place of a number of records"):
            read()


@pytest.mark.parametrize(
    ("statement", "entry", "says"),
    [
        ("UPDATE dataset SET budget = '100'", 1, "another budget"),
        ("UPDATE release SET epsilon = '0.001' WHERE number = 1", 4, "another epsilon"),
        ("UPDATE release SET request = NULL WHERE number = 2", 5, "another request"),
        ("UPDATE release SET state = 'reserved', committed_at = NULL", 4, "another committed_at, state"),
        ("UPDATE release SET mechanism_json = replace(mechanism_json, '100', '101')", 4, "another mechanism_sha256"),
        ("DELETE FROM release WHERE number = 2", 5, "is missing"),
        ("UPDATE batch SET records = 1", 6, "another records"),
        ("DELETE FROM batch", 6, "is missing"),
        ("INSERT INTO dataset VALUES ('other', '5', 'record', 'now')", None, "no entry"),
        ("UPDATE release SET number = 3 WHERE number = 1", None, "another order"),
        ("UPDATE journal SET entry = replace(entry, '\"3\"', '\"4\"') WHERE number = 1", 1, "hash"),
        ("UPDATE journal SET hash = '00' WHERE number = 6", 6, "hash"),
        ("UPDATE journal SET entry = x'00' WHERE number = 3", 3, "hash"),
        ("DELETE FROM journal WHERE number = 2", 2, "missing"),
        ("DELETE FROM journal WHERE number = 6", None, "no entry"),
        ("DELETE FROM journal", None, "no entry"),
        (rewritten(1, budget="100"), 1, "another budget"),
        (rewritten(1, budget="1.4"), 5, "its budget is 1.4"),
        (rewritten(1, budget="-1"), 1, "in place of an amount"),
        (rewritten(2, epsilon="0"), 2, "in place of an amount"),
        (rewritten(2, dataset="elsewhere"), 2, "was not entered"),
        (rewritten(3, FIX, action="commit", committed_at="now"), 3, "mechanism is not fixed"),
        (rewritten(3, id="00"), 3, "not charged"),
        (
            rewritten(4, "committed_at", action="fix", fixed_at="", mechanism_digest="", mechanism_sha256=""),
            4,
            "a second time",
        ),
        (rewritten(4, action="refund"), 4, "newer labeldp"),
        (rewritten(4, "action"), 4, "does not name its action"),
        (
            rewritten(5, CHARGE, action="dataset", name="sales", budget="9", unit="record", created_at="now"),
            5,
            "a second time",
        ),
        (rewritten(5, mechanism_sha256="00", state="committed"), 5, "missing or unexpected"),
        (rewritten(3, note="x"), 3, "missing or unexpected .* note"),
        (rewritten(1, "created_at"), 1, "missing or unexpected .* created_at"),
        (rewritten(2, reserved_at=None), 2, "its reserved_at is not text"),
        (rewritten(6, "records"), 6, "missing or unexpected .* records"),
        (rewritten(6, records=100.0), 6, "its records is not a number"),
        (rewritten(6, release="00"), 6, "not charged"),
    ],
)
def test_every_change_by_the_owner_of_the_file_is_found(ledger, own, statement, entry, says):
    own(statement)
    with pytest.raises(LedgerBroken, match=says) as found:
        ledger.verify()
    assert found.value.entry == entry
    assert found.value.exit_code == 3
    if entry is not None:
        assert f"journal entry {entry}" in str(found.value)
    assert str(found.value).lower().count("release nothing more") == 1  # one error, not one inside another


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ('{"action":"commit","action":"fix"}', "one name twice"),
        ('{"action":NaN}', "NaN"),
        ("[]", "not a record"),
        ("", "not valid JSON"),
    ],
    ids=["twice", "no number", "a list", "empty"],
)
def test_an_entry_is_read_as_strictly_as_any_other_file(ledger, own, entry, says):
    def change(connection):
        (previous,) = connection.execute("SELECT hash FROM journal WHERE number = 5").fetchone()
        stated = hashlib.sha256(f"{previous}\n{entry}".encode()).hexdigest()
        connection.execute("UPDATE journal SET entry = ?, hash = ? WHERE number = 6", (entry, stated))

    own(change)
    with pytest.raises(LedgerBroken, match=says) as found:
        ledger.verify()
    assert found.value.entry == 6


def test_an_entry_of_an_unknown_kind_is_put_down_to_a_newer_version_first(ledger, own):
    own(rewritten(4, action="refund"))
    with pytest.raises(UnknownEntry, match=r"entry 4 .* 'refund', .* newer labeldp wrote it, or .* Upgrade") as found:
        ledger.verify()
    twin = pickle.loads(pickle.dumps(found.value))
    assert (str(twin), twin.entry) == (str(found.value), 4)


@pytest.mark.parametrize(
    ("action", "facts"),
    [
        ("refund", {}),
        ("commit", {"id": "00"}),
        ("commit", {"id": "00", "committed_at": 5}),
        ("commit", {"id": "00", "committed_at": "now", "note": "x"}),
    ],
)
def test_no_entry_is_written_that_the_check_would_refuse(ledger, action, facts):
    before = ledger.verify().head
    with (
        pytest.raises(InvalidInput, match="Nothing was changed"),
        transaction(ledger.path, 1, "IMMEDIATE") as connection,
    ):
        ledger_journal.append(connection, action, **facts)
    assert ledger.verify().head == before


def fix_by_hand(mechanism, digest):
    """Stores another mechanism for the first release, and makes tables and journal agree about it."""
    text = mechanism.to_json()
    sha256 = hashlib.sha256(text.encode()).hexdigest()

    def change(connection):
        connection.execute(
            "UPDATE release SET mechanism_json = ?, mechanism_digest = ? WHERE number = 1", (text, digest)
        )
        rewritten(3, mechanism_digest=digest, mechanism_sha256=sha256)(connection)

    return change


@pytest.mark.parametrize(
    ("mechanism", "digest", "says"),
    [
        (DEAR, DEAR.digest, r"costs ε = 2 .* only ε = 1 was charged"),
        (CHEAP, DEAR.digest, "another mechanism"),
    ],
    ids=["costs more", "another digest"],
)
def test_a_mechanism_that_does_not_fit_its_charge_is_found_though_all_hashes_fit(ledger, own, mechanism, digest, says):
    own(fix_by_hand(mechanism, digest))
    with pytest.raises(LedgerBroken, match=says) as found:
        ledger.verify()
    assert found.value.entry == 3


def test_a_ledger_rewritten_as_a_whole_is_found_by_a_head_noted_before(ledger, own):
    noted = ledger.verify().head
    own("UPDATE dataset SET budget = '100'", rewritten(1, budget="100"))
    assert ledger.verify().entries == 6  # nothing in the file itself can show it
    with pytest.raises(LedgerBroken, match="does not contain the hash"):
        ledger.verify(expect=noted)


def test_an_older_copy_is_found_by_a_head_noted_later(ledger, tmp_path):
    early = ledger.verify().head
    shutil.copy(ledger.path, tmp_path / "backup.db")
    ledger.reserve("sales", 1)
    noted = ledger.verify(expect=early).head
    shutil.copy(tmp_path / "backup.db", ledger.path)
    assert ledger.verify(expect=early).expected_at == 6
    with pytest.raises(LedgerBroken, match="older copy"):
        ledger.verify(expect=noted)


@pytest.mark.parametrize("text", ["12", "０" * 64])
def test_an_expected_hash_that_is_none_is_bad_input(ledger, text):
    with pytest.raises(InvalidInput, match="64 hexadecimal digits"):
        ledger.verify(expect=text)


@pytest.mark.parametrize("name", ["dataset_entered_once", "release_kept", "entry_appended"])
def test_a_file_without_its_guards_is_not_charged_any_more(ledger, raw, name):
    raw(f"DROP TRIGGER {name}")
    for act in (lambda: ledger.reserve("sales", 1), ledger.verify):
        with pytest.raises(LedgerBroken, match=name):
            act()
    assert len(ledger.history()) == 2


def test_a_trigger_that_labeldp_did_not_make_is_found(ledger, raw):
    raw("CREATE TRIGGER discount AFTER INSERT ON release BEGIN SELECT 1; END")
    with pytest.raises(LedgerBroken, match="discount"):
        ledger.verify()


def test_a_ledger_of_a_format_that_never_existed_is_found(ledger, raw):
    raw("PRAGMA user_version = 0")
    for act in (ledger.verify, lambda: ledger.reserve("sales", 1), lambda: Ledger(ledger.path)):
        with pytest.raises(LedgerBroken, match="the format 0"):
            act()


def test_nothing_is_added_after_an_entry_that_was_changed(ledger, own):
    own("UPDATE journal SET entry = '{}' WHERE number = 6")
    with pytest.raises(LedgerBroken, match="journal entry 6"):
        ledger.reserve("sales", 1)
    assert len(ledger.history()) == 2


@pytest.mark.parametrize("table", ["release", "dataset"])
def test_an_index_that_hides_a_row_is_found(ledger, table):
    """The rows are as they were, but looking one up by its key finds nothing, or another row."""

    def hide(connection):
        query = f"SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_{table}_1'"
        (page,) = connection.execute(query).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        connection.close()
        with ledger.path.open("r+b") as file:
            file.seek((page - 1) * size + 3)
            file.write(bytes(2))  # the index has no cells

    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        hide(connection)
    with pytest.raises(LedgerBroken, match="SQLite finds"):
        ledger.verify()


def test_a_trigger_under_a_name_of_sqlite_is_found(ledger):
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute("CREATE TRIGGER aside BEFORE INSERT ON batch BEGIN SELECT RAISE(IGNORE); END")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET name = 'sqlite_aside', sql = replace(sql, 'aside', 'sqlite_aside') WHERE name = 'aside'"
        )
    with pytest.raises(LedgerBroken, match="sqlite_aside"):
        ledger.verify()
