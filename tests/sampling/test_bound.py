from __future__ import annotations

import hmac
import pickle
import pickletools

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp import Domain
from labeldp.engines.batches import FileTypes, LabelBatch, draw_batch
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.mechanisms import RROnBins
from labeldp.sampling import BoundRandomness, KeyedRandomness

KEY, RELEASE, DIGEST = b"a secret key of 32 bytes, really", b"release of 16 by", b"digest of the mechanism"
KEYED = KeyedRandomness(KEY, RELEASE)


@pytest.fixture
def bound() -> BoundRandomness:
    return KEYED.bound(DIGEST)


def symbols(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def subkeys_by_definition() -> bytes:
    return HKDF(SHA256(), 64, None, b"labeldp keyed randomness 1\0" + RELEASE + DIGEST).derive(KEY)


@settings(deadline=None)
@given(
    st.one_of(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True), st.lists(st.text(max_size=200), unique=True)),
    st.booleans(),
    st.data(),
)
def test_it_draws_the_words_of_its_key_bit_for_bit(ids, rounding, data):
    drawn = symbols(*data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=len(ids), max_size=len(ids))))
    sent = pickle.loads(pickle.dumps(KEYED.bound(DIGEST)))
    here = KEYED.draw(drawn, ids=ids, digest=DIGEST, rounding=rounding)
    there = sent.draw(drawn, ids=ids, digest=DIGEST, rounding=rounding)
    assert np.array_equal(here[0], there[0])
    assert (here[1] is None) == (there[1] is None) == (not rounding)
    if rounding:
        assert np.array_equal(here[1], there[1])


def test_ids_have_the_same_digests(bound):
    for ids in ([3, -1, 2], ["a", "ü", ""]):
        here, there = KEYED.id_digests(ids, digest=DIGEST), bound.id_digests(ids, digest=DIGEST)
        assert np.array_equal(here.low, there.low)
        assert np.array_equal(here.high, there.high)
        assert (there.kind, there.distinct) == (here.kind, False)
        assert bound.identify(ids, digest=DIGEST).distinct


def test_the_pickle_holds_the_digest_and_the_subkeys_and_nothing_else(bound):
    text = pickle.dumps(bound)
    assert len(text) < 1000
    held = [argument for _, argument, _ in pickletools.genops(text) if isinstance(argument, bytes)]
    assert held == [DIGEST, subkeys_by_definition()]
    extracted = hmac.digest(bytes(32), KEY, "sha256")  # what HKDF expands into the subkeys of any release
    for secret in (KEY, extracted, RELEASE):
        assert all(secret[i : i + 8] not in text for i in range(len(secret) - 7))


@pytest.mark.parametrize("use", ["identify", "id_digests"])
@pytest.mark.parametrize("other", [b"another digest", DIGEST + b"\0", b"", None])
def test_ids_for_another_mechanism_are_refused(bound, use, other):
    with pytest.raises(PrivacyRefused, match="bound to another mechanism"):
        getattr(bound, use)([1, 2], digest=other)


def test_draws_for_another_mechanism_are_refused_even_with_ids_that_are_known(bound):
    records = bound.identify([1, 2], digest=DIGEST)
    with pytest.raises(PrivacyRefused, match="bound to another mechanism"):
        bound.draw(symbols(0, 1), ids=records, digest=b"another digest")


def test_ids_are_needed_one_per_label_and_all_different(bound):
    with pytest.raises(InvalidInput, match="needs an id"):
        bound.draw(symbols(0), digest=DIGEST)
    with pytest.raises(InvalidInput, match="3 ids for 2 labels"):
        bound.draw(symbols(0, 1), ids=[1, 2, 3], digest=DIGEST)
    with pytest.raises(InvalidInput, match="unique"):
        bound.draw(symbols(0, 1), ids=["x", "x"], digest=DIGEST)
    with pytest.raises(InvalidInput, match="uint32"):
        bound.draw(np.zeros(1), ids=[1], digest=DIGEST)


def test_no_byte_of_a_key_shows(bound):
    text = repr(bound) + str(bound)
    assert text == 2 * f"BoundRandomness(digest={DIGEST.hex()}, subkeys=<64 bytes>)"


@pytest.mark.parametrize("subkeys", [b"", bytes(63), bytes(65), "x" * 64, None])
def test_subkeys_of_another_length_are_refused_without_being_shown(subkeys):
    with pytest.raises(InvalidInput, match="exactly 64 bytes") as caught:
        BoundRandomness(DIGEST, subkeys)
    assert "xx" not in str(caught.value)


@pytest.mark.parametrize("digest", [b"", None, "digest"])
def test_a_mechanism_is_needed(digest):
    for make in (lambda: BoundRandomness(digest, bytes(64)), lambda: KEYED.bound(digest)):
        with pytest.raises(InvalidInput, match="needs the mechanism's digest"):
            make()


def test_mechanisms_and_engines_take_it_as_they_take_its_key():
    mechanism, domain = RROnBins([10, 50, 100], epsilon=1), Domain(0, 110)
    ids, labels = pa.array(range(1000)), np.linspace(0, 110, 1000)
    sent = pickle.loads(pickle.dumps(KEYED.bound(mechanism.digest_bytes)))
    codes = mechanism.codes(labels, ids, KEYED)
    assert len(set(codes.tolist())) == 3
    assert np.array_equal(mechanism.codes(labels, ids, sent), codes)
    batch = LabelBatch(ids, labels, 0, FileTypes("int64", "double"))
    assert np.array_equal(draw_batch(batch, mechanism, domain, sent)[1], codes)
    with pytest.raises(PrivacyRefused):
        draw_batch(batch, RROnBins([10, 50, 101], epsilon=1), domain, sent)
