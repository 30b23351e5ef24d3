"""Arguments of the wrong type are refused before they reach the file, where they would break the ledger for good."""

from __future__ import annotations

import pytest

from labeldp.errors import InvalidInput
from labeldp.mechanisms import RROnBins
from labeldp.release.ledger import key_fingerprint
from labeldp.release.ledger_rows import MAX_RECORDS

CHEAP = RROnBins([10, 100], epsilon="0.25")
NO_TEXT = [5, b"x", "\udc80"]


@pytest.fixture
def used(ledger):
    """A ledger with a fixed release, and with a dataset whose name SQLite also finds by a number."""
    ledger.add_dataset("5", budget=1)
    ledger.fix(ledger.reserve("sales", 1).id, CHEAP)
    return ledger


def refused(ledger, says, act):
    """The argument is refused, and the ledger is as it was."""
    before = ledger.path.read_bytes()
    with pytest.raises(InvalidInput, match=says):
        act()
    assert ledger.path.read_bytes() == before
    ledger.verify()


@pytest.mark.parametrize("value", NO_TEXT)
@pytest.mark.parametrize("name", ["key_check", "input_hmac", "request"])
def test_a_charge_takes_texts_only(used, name, value):
    given = {"key_check": "11", "input_hmac": "22", "request": "{}"} | {name: value}
    refused(used, name, lambda: used.reserve("sales", "0.1", **given))
    refused(used, name, lambda: used.find_resumable("sales", "0.1", **given))


@pytest.mark.parametrize("value", [None, *NO_TEXT])
def test_a_dataset_and_a_release_are_named_by_texts_only(used, value):
    for act in (lambda: used.reserve(value, "0.1"), lambda: used.remaining(value), lambda: used.require(value, 1)):
        refused(used, "dataset must be text|lone surrogate", act)
    refused(used, "cannot name a dataset", lambda: used.add_dataset(value, budget=1))
    for act in (lambda: used.release(value), lambda: used.commit(value), lambda: used.batches(value)):
        refused(used, "release_id", act)


@pytest.mark.parametrize("value", [None, *NO_TEXT])
@pytest.mark.parametrize("name", ["input_hmac", "mechanism_digest"])
def test_a_batch_takes_texts_only(used, name, value):
    given = {"records": 9, "input_hmac": "aa", "mechanism_digest": CHEAP.digest} | {name: value}
    release = used.history()[0].id
    refused(used, name, lambda: used.record_batch(release, **given))


@pytest.mark.parametrize("records", [0, True, 2.0, "9", None, MAX_RECORDS + 1, pytest.param(10**5000, id="huge")])
def test_a_batch_has_a_number_of_records_that_the_file_can_hold(used, records):
    release = used.history()[0].id
    batch = {"input_hmac": "aa", "mechanism_digest": CHEAP.digest}
    refused(used, "from 1 to", lambda: used.record_batch(release, records=records, **batch))


def test_large_batches_can_be_added_up(used):
    """SQLite refuses a sum of more than 63 bits, and the ledger could not be read any more."""
    release = used.history()[0].id
    for batch in "abc":
        used.record_batch(release, records=MAX_RECORDS, input_hmac=batch, mechanism_digest=CHEAP.digest)
    assert used.release(release).batch_records == used.datasets()[0].batch_records == 3 * MAX_RECORDS


@pytest.mark.parametrize("value", [5, b"0" * 64, True])
def test_an_expected_hash_is_a_text(used, value):
    refused(used, "64 hexadecimal digits", lambda: used.verify(expect=value))


def test_a_key_is_bytes():
    with pytest.raises(InvalidInput, match="must be bytes"):
        key_fingerprint("a text of more than 16 characters")


def test_texts_of_any_characters_are_stored_as_they_are(used):
    request = "ε\0\u2028\U0001f600 '\"; --"
    release = used.reserve("sales", "0.1", key_check="", input_hmac="é", request=request)
    assert used.find_resumable("sales", "0.1", key_check="", input_hmac="é", request=request) == release
    used.verify()
