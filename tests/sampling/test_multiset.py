from __future__ import annotations

import hashlib
import hmac
import pickle
import struct

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from labeldp.errors import InvalidInput
from labeldp.sampling import MultisetHash

KEY = b"a secret key of 32 bytes, really"

labels = st.floats(allow_nan=False)
integer_ids = st.integers(-(2**63), 2**63 - 1)
records = st.one_of(
    st.lists(st.tuples(integer_ids, labels), max_size=12),
    st.lists(st.tuples(st.text(max_size=140), labels), max_size=12),
)
some_records = records.filter(bool)


def hashed(pairs: list, key: bytes = KEY) -> MultisetHash:
    made = MultisetHash(key)
    add(made, pairs)
    return made


def add(made: MultisetHash, pairs: list) -> None:
    kind = pa.large_string() if pairs and isinstance(pairs[0][0], str) else pa.int64()
    made.add(pa.array([i for i, _ in pairs], kind), np.array([label for _, label in pairs], np.float64))


def state(made: MultisetHash) -> tuple:
    return made.limbs, made.rows, made.hexdigest()


def by_definition(pairs: list) -> tuple:
    """One record and one block at a time."""
    derived = HKDF(SHA256(), 96, None, b"labeldp multiset of records 1\0").derive(KEY)
    low, high = 0, 0
    for name, label in pairs:
        if isinstance(name, str):
            digest = hashlib.blake2b(name.encode(), digest_size=12, key=derived[32:64]).digest()
            digest = digest[:11] + bytes([digest[11] | 0x80])
        else:
            digest = (name % 2**64).to_bytes(8, "little") + int(name < 0).to_bytes(4, "little")
        inner = one_block(derived[:32], digest + bytes(4))
        second = struct.pack("<d", 0.0 if label == 0 else label) + bytes(8)
        word = one_block(derived[:32], bytes(a ^ b for a, b in zip(inner, second, strict=True)))
        low = (low + int.from_bytes(word[:8], "little")) % 2**64
        high = (high + int.from_bytes(word[8:], "little")) % 2**64
    text = struct.pack("<QQQ", low, high, len(pairs))
    return (low, high), len(pairs), hmac.new(derived[64:], text, "sha256").hexdigest()


def one_block(key: bytes, block: bytes) -> bytes:
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)


@settings(deadline=None)
@given(records)
def test_it_is_what_the_definition_says(pairs):
    assert state(hashed(pairs)) == by_definition(pairs)


def test_many_records_are_what_the_definition_says():
    """More than one chunk of blocks."""
    rng = np.random.default_rng(1)
    count = (1 << 16) + 5
    pairs = list(zip(rng.permutation(count).tolist(), rng.normal(size=count).tolist(), strict=True))
    sample = pairs[:3] + pairs[-3:]
    whole, rest = hashed(pairs), hashed(pairs[3:-3])
    rest.merge(*by_definition(sample)[:2])
    assert state(rest) == state(whole)


@settings(deadline=None)
@given(records, st.randoms(use_true_random=False), st.integers(1, 4))
def test_neither_order_nor_split_matters(pairs, random, parts):
    shuffled = list(pairs)
    random.shuffle(shuffled)
    merged = MultisetHash(KEY)
    for k in range(parts):
        part = pickle.loads(pickle.dumps(MultisetHash.from_subkeys(MultisetHash.subkeys(KEY))))
        add(part, shuffled[k::parts])
        merged.merge(part.limbs, part.rows)
    assert state(merged) == state(hashed(pairs))
    in_pieces = MultisetHash(KEY)
    for pair in shuffled:
        add(in_pieces, [pair])
    assert state(in_pieces) == state(merged)


@settings(deadline=None)
@given(some_records, st.data())
def test_another_label_changes_it(pairs, data):
    row = data.draw(st.integers(0, len(pairs) - 1))
    other = data.draw(labels.filter(lambda label: label != pairs[row][1]))
    changed = [*pairs[:row], (pairs[row][0], other), *pairs[row + 1 :]]
    assert hashed(changed).limbs != hashed(pairs).limbs
    assert hashed(changed).hexdigest() != hashed(pairs).hexdigest()


@settings(deadline=None)
@given(some_records, st.data())
def test_another_id_changes_it(pairs, data):
    row = data.draw(st.integers(0, len(pairs) - 1))
    kind = st.text(max_size=140) if isinstance(pairs[row][0], str) else integer_ids
    other = data.draw(kind.filter(lambda name: name != pairs[row][0]))
    changed = [*pairs[:row], (other, pairs[row][1]), *pairs[row + 1 :]]
    assert hashed(changed).limbs != hashed(pairs).limbs
    assert hashed(changed).hexdigest() != hashed(pairs).hexdigest()


@settings(deadline=None)
@given(some_records, st.data())
def test_one_record_more_or_less_changes_it(pairs, data):
    row = data.draw(st.integers(0, len(pairs) - 1))
    less, more = [*pairs[:row], *pairs[row + 1 :]], [*pairs, pairs[row]]
    assert len({hashed(each).limbs for each in (less, pairs, more)}) == 3
    assert len({hashed(each).hexdigest() for each in (less, pairs, more)}) == 3


@settings(deadline=None)
@given(some_records, st.data())
def test_labels_that_change_places_change_it(pairs, data):
    """A hash of ids plus a hash of labels would not notice."""
    first, second = data.draw(st.integers(0, len(pairs) - 1)), data.draw(st.integers(0, len(pairs) - 1))
    assume(pairs[first][0] != pairs[second][0] and pairs[first][1] != pairs[second][1])
    changed = list(pairs)
    changed[first], changed[second] = (pairs[first][0], pairs[second][1]), (pairs[second][0], pairs[first][1])
    assert hashed(changed).limbs != hashed(pairs).limbs


def test_the_digest_covers_the_number_of_records():
    made, other = hashed([(1, 2.0)]), hashed([(1, 2.0)])
    other.merge((0, 0), 1)
    assert made.limbs == other.limbs
    assert made.hexdigest() != other.hexdigest()


def test_ids_of_other_types_are_other_records():
    one = np.ones(1)
    sets = [pa.array([7]), pa.array(["7"]), pa.array([-1]), pa.array([2**64 - 1], pa.uint64())]
    found = set()
    for ids in sets:
        made = MultisetHash(KEY)
        made.add(ids, one)
        found.add(made.limbs)
    assert len(found) == len(sets)


def test_integer_width_and_text_type_do_not_matter():
    for names, kinds in (([7, 8], [pa.int8(), pa.int64(), pa.uint64()]), (["a", "b"], [pa.string(), pa.string_view()])):
        found = set()
        for kind in kinds:
            made = MultisetHash(KEY)
            made.add(pa.array(names, kind), np.array([1.0, 2.0]))
            found.add(state(made))
        assert len(found) == 1


def test_negative_zero_is_zero_and_the_smallest_numbers_are_not():
    zeros = {hashed([(1, label)]).limbs for label in (0.0, -0.0)}
    assert len(zeros) == 1
    assert len({hashed([(1, label)]).limbs for label in (0.0, 5e-324, -5e-324)}) == 3


@settings(deadline=None)
@given(some_records)
def test_another_key_gives_another_hash(pairs):
    other = hashed(pairs, KEY[::-1])
    assert other.limbs != hashed(pairs).limbs
    assert other.hexdigest() != hashed(pairs).hexdigest()
    assert MultisetHash(KEY).hexdigest() != MultisetHash(KEY[::-1]).hexdigest()


def test_no_key_shows_or_is_kept():
    made = hashed([("anna", 1.0)])
    assert repr(made) == "MultisetHash(rows=1)"
    text, extracted = pickle.dumps(made), hmac.digest(bytes(32), KEY, "sha256")
    assert len(text) < 1000
    for secret in (KEY, extracted):
        assert all(secret[i : i + 8] not in text for i in range(len(secret) - 7))
    assert state(pickle.loads(text)) == state(made)
    subkeys = MultisetHash.subkeys(KEY)
    assert subkeys in text
    assert KEY not in subkeys


def test_its_subkeys_are_not_those_of_keyed_randomness():
    """A word of the hash under the draws' keys would be a word of noise."""
    drawn = HKDF(SHA256(), 64, None, b"labeldp keyed randomness 1\0" + bytes(16) + b"digest").derive(KEY)
    assert not {MultisetHash.subkeys(KEY)[i : i + 32] for i in (0, 32, 64)} & {drawn[:32], drawn[32:]}


def test_labels_that_do_not_fit_are_refused_and_change_nothing():
    made = hashed([(1, 1.0)])
    before = state(made)
    for ids, values, text in (
        (pa.array([2, 3]), np.ones(1), "one float64 label per id"),
        (pa.array([2]), np.ones(1, np.float32), "one float64 label per id"),
        (pa.array([2, 3]), np.array([1.0, np.nan]), "row 1 is NaN"),
        (pa.array([2.5]), np.ones(1), "integers or text"),
    ):
        with pytest.raises(InvalidInput, match=text):
            made.add(ids, values)
    assert state(made) == before


@pytest.mark.parametrize(
    ("limbs", "rows"), [((2**64, 0), 1), ((0, -1), 1), ((0,), 1), ((0, 0.5), 1), ((0, 0), -1), ((0, 0), 1.5)]
)
def test_sums_that_cannot_be_are_refused(limbs, rows):
    with pytest.raises(InvalidInput, match="give the other hash's"):
        MultisetHash(KEY).merge(limbs, rows)


@pytest.mark.parametrize("key", [b"short", "x" * 32, None])
def test_bad_keys_are_refused_without_being_shown(key):
    for make in (MultisetHash, MultisetHash.from_subkeys):
        with pytest.raises(InvalidInput, match="must be") as caught:
            make(key)
        assert "short" not in str(caught.value)
        assert "xx" not in str(caught.value)
