from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from labeldp.errors import InvalidInput
from labeldp.sampling import KeyedRandomness

KEY, RELEASE, DIGEST = bytes(range(32)), bytes(range(100, 116)), b"mechanism digest"

KNOWN_INT_WORDS = [7025747091163216339, 11919551263012407845, 13219323785826605059]
KNOWN_INT_ROUNDING = [16274291352919961569, 14153894302715300669, 2417089803836622046]
KNOWN_TEXT_WORDS = [3859896632008370943, 13292630839962679680, 2460344978597273347]
KNOWN_TEXT_ROUNDING = [5079438986804391031, 4607560512856379125, 17683291949753018688]


@pytest.fixture
def source() -> KeyedRandomness:
    return KeyedRandomness(KEY, RELEASE)


def symbols(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def test_known_answers_never_change(source):
    """If this fails, resumed and later releases would draw a second time: never adapt the numbers."""
    words, rounding = source.draw(symbols(0, 1, 4294967295), ids=[0, -1, 2**63 - 1], digest=DIGEST, rounding=True)
    assert words.tolist() == KNOWN_INT_WORDS
    assert rounding.tolist() == KNOWN_INT_ROUNDING
    words, rounding = source.draw(symbols(0, 1, 2), ids=["", "7", "ünïcode"], digest=DIGEST, rounding=True)
    assert words.tolist() == KNOWN_TEXT_WORDS
    assert rounding.tolist() == KNOWN_TEXT_ROUNDING


def test_one_block_of_aes_per_label_as_documented(source):
    derived = HKDF(SHA256(), 64, None, b"labeldp keyed randomness 1\0" + RELEASE + DIGEST).derive(KEY)
    block = (12345).to_bytes(8, "little") + bytes(4) + (7).to_bytes(4, "little")
    secret = Cipher(algorithms.AES(derived[:32]), modes.ECB()).encryptor().update(block)
    words, rounding = source.draw(symbols(7), ids=[12345], digest=DIGEST, rounding=True)
    assert int(words[0]) == int.from_bytes(secret[:8], "little")
    assert int(rounding[0]) == int.from_bytes(secret[8:], "little")


def test_draws_depend_on_record_and_symbol_only_not_on_order_or_chunks(source):
    count = (1 << 16) * 2 + 3  # more than two internal chunks
    ids, drawn = np.arange(count), np.arange(count, dtype=np.uint32) % 5
    words, rounding = source.draw(drawn, ids=ids, digest=DIGEST, rounding=True)
    order = np.random.default_rng(1).permutation(count)
    again, rounding_again = source.draw(drawn[order], ids=ids[order], digest=DIGEST, rounding=True)
    assert np.array_equal(again, words[order])
    assert np.array_equal(rounding_again, rounding[order])
    records = source.identify(ids, digest=DIGEST)
    pieces = [source.draw(drawn[i : i + 999], ids=records[i : i + 999], digest=DIGEST)[0] for i in range(0, count, 999)]
    assert np.array_equal(np.concatenate(pieces), words)


def test_two_symbols_of_one_record_share_no_draw(source):
    """The planted bug: a block without its symbol would give both bins the same word."""
    ids = np.arange(10_000)
    first, _ = source.draw(np.zeros(10_000, np.uint32), ids=ids, digest=DIGEST)
    second, _ = source.draw(np.ones(10_000, np.uint32), ids=ids, digest=DIGEST)
    assert not (first == second).any()
    # independent words agree in half of their bits, 320,000 of them with a standard deviation of 400
    agreeing = 64 * 10_000 - int(np.bitwise_count(first ^ second).sum())
    assert abs(agreeing - 320_000) < 2_400


@pytest.mark.parametrize(
    "other",
    [
        (KeyedRandomness(KEY[::-1], RELEASE), DIGEST),
        (KeyedRandomness(KEY, RELEASE[::-1]), DIGEST),
        (KeyedRandomness(KEY, RELEASE), b"another digest"),
    ],
    ids=["key", "release", "mechanism"],
)
@pytest.mark.parametrize("ids", [[1, 2, 3], ["1", "2", "3"]])
def test_another_key_release_or_mechanism_draws_afresh(source, other, ids):
    words, _ = source.draw(symbols(0, 0, 0), ids=ids, digest=DIGEST)
    others, _ = other[0].draw(symbols(0, 0, 0), ids=ids, digest=other[1])
    assert not set(words.tolist()) & set(others.tolist())


def test_a_number_and_its_text_draw_differently(source):
    number, _ = source.draw(symbols(0), ids=[7], digest=DIGEST)
    text, _ = source.draw(symbols(0), ids=["7"], digest=DIGEST)
    assert number[0] != text[0]
    assert source.identify([7], digest=DIGEST).kind == "int"
    assert source.identify(["7"], digest=DIGEST).kind == "str"


@pytest.mark.parametrize("ids", [[4, 4], ["x", "x"], pa.array([b"x", b"x"])])
def test_duplicates_are_refused_by_default(source, ids):
    with pytest.raises(InvalidInput, match="unique"):
        source.draw(symbols(0, 1), ids=ids, digest=DIGEST)
    with pytest.raises(InvalidInput, match="unique"):
        source.draw(symbols(0, 1), ids=source.id_digests(ids, digest=DIGEST), digest=DIGEST)


def test_ids_are_needed_one_per_label(source):
    with pytest.raises(InvalidInput, match="needs an id"):
        source.draw(symbols(0), ids=None, digest=DIGEST)
    with pytest.raises(InvalidInput, match="3 ids for 2 labels"):
        source.draw(symbols(0, 1), ids=[1, 2, 3], digest=DIGEST)
    with pytest.raises(InvalidInput, match="digest"):
        source.draw(symbols(0), ids=[1], digest=b"")


def test_no_labels_draw_nothing(source):
    words, rounding = source.draw(symbols(), ids=[], digest=DIGEST, rounding=True)
    assert words.size == rounding.size == 0


@pytest.mark.parametrize(
    ("key", "release"),
    [(b"short", RELEASE), ("x" * 32, RELEASE), (KEY, b"short"), (KEY, bytes(17)), (KEY, None), (None, RELEASE)],
)
def test_bad_keys_and_releases_are_refused_without_being_shown(key, release):
    with pytest.raises(InvalidInput) as caught:
        KeyedRandomness(key, release)
    assert "short" not in str(caught.value)
    assert "xxx" not in str(caught.value)


def test_the_key_never_shows():
    key = b"a secret key of 32 bytes, really"
    text = repr(KeyedRandomness(key, RELEASE)) + str(KeyedRandomness(key, RELEASE))
    assert "secret" not in text
    assert key.hex() not in text
    assert RELEASE.hex() in text


def test_a_pickled_source_draws_the_same(source):
    again = pickle.loads(pickle.dumps(source))
    assert again.release == RELEASE
    expected, _ = source.draw(symbols(1), ids=["r"], digest=DIGEST)
    assert again.draw(symbols(1), ids=["r"], digest=DIGEST)[0] == expected


def test_generated_sources_differ():
    first, second = KeyedRandomness.generate(), KeyedRandomness.generate()
    assert first.release != second.release
    assert first.draw(symbols(0), ids=[1], digest=DIGEST)[0] != second.draw(symbols(0), ids=[1], digest=DIGEST)[0]
