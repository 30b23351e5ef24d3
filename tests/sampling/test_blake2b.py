"""The compiled BLAKE2b against hashlib's, and the buffers that it reads."""

from __future__ import annotations

import hashlib
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labeldp.arrays import read_only
from labeldp.errors import InvalidInput
from labeldp.sampling import _blake2b
from labeldp.sampling._blake2b import keyed_blake2b_96
from labeldp.sampling.ids import digest_ids, text_buffers

KEY = bytes(range(32))
LANES = 16

TEXT_TYPES = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.dictionary(pa.int8(), pa.string()),
]


def by_hashlib(texts: list[bytes], key: bytes = KEY) -> list[bytes]:
    return [hashlib.blake2b(text, digest_size=12, key=key).digest() for text in texts]


def compiled(array: pa.Array, key: bytes = KEY) -> list[bytes]:
    high, low = keyed_blake2b_96(*text_buffers(array), key)
    return [int(a).to_bytes(8, "little") + int(b).to_bytes(4, "little") for a, b in zip(low, high, strict=True)]


def tagged(digests: list[bytes]) -> list[int]:
    return [int.from_bytes(digest, "little") | 1 << 95 for digest in digests]


def bits(ids: object) -> list[int]:
    found = digest_ids(ids, KEY)
    return [(int(high) << 64) | int(low) for high, low in zip(found.high, found.low, strict=True)]


lengths = st.one_of(st.integers(0, 40), st.sampled_from([0, 1, 7, 8, 127, 128, 129, 255, 256, 257, 500]))
texts = lengths.flatmap(lambda size: st.binary(min_size=size, max_size=size))


@settings(deadline=None)
@given(st.lists(texts, max_size=3 * LANES), st.binary(min_size=1, max_size=64))
@example([], KEY)
@example([b""], KEY)
@example([b""] * (LANES + 1), KEY)
@example([b"x" * n for n in range(300)], KEY)
@example([b"x" * 1000, b""] * LANES, bytes(64))
def test_every_text_has_the_digest_of_hashlib(many, key):
    assert compiled(pa.array(many, pa.large_binary()), key) == by_hashlib(many, key)


@pytest.mark.parametrize("lane", [0, 1, 15, 16, 17])
def test_block_boundaries_are_hashed_right_in_every_lane(lane):
    for length in (0, 1, 7, 8, 9, 127, 128, 129, 255, 256, 257, 1000):
        many = [b"short"] * (2 * LANES + 1)
        many[lane] = bytes(i % 251 for i in range(length))
        assert compiled(pa.array(many, pa.binary())) == by_hashlib(many), length


@settings(deadline=None)
@given(
    st.sampled_from(TEXT_TYPES),
    st.lists(st.lists(st.text(max_size=150), max_size=20), max_size=3),
    st.integers(0, 5),
    st.integers(0, 60),
)
def test_arrow_types_slices_and_chunks_change_nothing(kind, chunks, offset, length):
    whole = pa.chunked_array([pa.array(chunk, kind) for chunk in chunks], kind)
    parts = [chunk.slice(offset, length) for chunk in (whole, *whole.chunks)]
    texts_of = [[text for chunk in chunks for text in chunk], *chunks]
    for part, all_texts in zip(parts, texts_of, strict=True):
        expected = [text.encode() for text in all_texts[offset : offset + length]]
        assert bits(part) == tagged(by_hashlib(expected))


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(0, 40), st.integers(0, 3), st.randoms(use_true_random=False))
def test_fixed_size_binary_is_text_too(width, count, offset, random):
    many = [random.randbytes(width) for _ in range(count)]
    assert bits(pa.array(many, pa.binary(width)).slice(offset)) == tagged(by_hashlib(many[offset:]))


def test_offsets_that_are_not_aligned_are_copied_to_where_compiled_loops_may_read_them():
    many = [b"a", b"", b"ccc" * 50]
    offsets = np.cumsum([0, *(len(text) for text in many)]).astype("<i8").tobytes()
    shifted = pa.py_buffer(b"\0" + offsets).slice(1)
    array = pa.Array.from_buffers(pa.large_binary(), 3, [None, shifted, pa.py_buffer(b"".join(many))])
    ends = text_buffers(array)[1]
    assert not ends.flags.aligned
    assert read_only(ends).flags.aligned
    assert compiled(array) == by_hashlib(many)


def test_buffers_that_may_be_written_do_not_compile_the_loops_again():
    compiled(pa.array(["a"]))
    content, ends = np.zeros(4, np.uint8), np.array([0, 4])
    keyed_blake2b_96(content, ends, KEY)
    assert len(_blake2b._hash_all.signatures) == 1
    assert content.flags.writeable


@pytest.mark.parametrize("offsets", [[0, 5, 3], [0, 2, 7], [-1, 2, 4], [2, 1, 4]])
def test_damaged_offsets_are_refused_without_showing_a_text(offsets):
    held = np.array([0, 3, 6])
    texts = pa.Array.from_buffers(pa.large_binary(), 2, [None, pa.py_buffer(held), pa.py_buffer(b"secret")])
    held[:] = offsets  # after Arrow has looked at them, which it does not do for files
    with pytest.raises(InvalidInput, match="damaged") as caught:
        digest_ids(texts, KEY)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", [b"", bytes(65)])
def test_keys_that_blake2b_does_not_take_are_refused(key):
    with pytest.raises(ValueError, match="1 to 64 bytes"):
        compiled(pa.array(["a"]), key)


def test_threads_hash_at_the_same_time_without_disturbing_each_other():
    many = [[str(i * k).encode() * (k + 1) for i in range(5000)] for k in range(4)]
    found: dict[int, list[bytes]] = {}

    def work(k: int) -> None:
        found[k] = compiled(pa.array(many[k]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[k] == by_hashlib(many[k]) for k in range(4))
