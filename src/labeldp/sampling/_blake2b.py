"""Keyed BLAKE2b (RFC 7693) of 96 bits over a column of texts, compiled. Imported on first use, like `_kernels`.

`hashlib` gives the same bits but needs one Python call per text, which takes four to ten times as long
(`benchmarks/text_ids.py`). Here sixteen texts are hashed in parallel, one per lane, so that the compiler can use vector
instructions. A group takes as long as its longest text.

All arithmetic uses unsigned 64-bit integers, so results are the same on every processor. Literals are wrapped because
numba turns `uint64 + int` into a float. Branches and addresses depend on the length of a text, never on its content.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from labeldp.arrays import read_only

_IV = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    np.uint64,
)  # fmt: skip
_I0, _I1, _I2, _I3, _I4, _I5, _I6, _I7 = _IV
_DIGEST_BYTES = 12
_LANES = 16  # with 8 the compiler unrolls the loop over lanes instead of using vectors
_BLOCK = np.uint64(128)
_WORD = np.uint64(8)
_STEP = np.uint64(_LANES)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_NOT_LAST, _LAST = np.uint64(0), np.uint64(2**64 - 1)


def keyed_blake2b_96(
    content: NDArray[np.uint8], ends: NDArray[np.int64], key: bytes
) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Return `hashlib.blake2b(text, digest_size=12, key=key)` of each text `content[ends[i]:ends[i + 1]]`.

    The last four bytes are returned as a little-endian 32-bit word, the first eight as a 64-bit one.
    """
    if not 1 <= len(key) <= 64:
        raise ValueError("a BLAKE2b key has 1 to 64 bytes")
    key_block = np.zeros(int(_BLOCK), np.uint8)
    key_block[: len(key)] = np.frombuffer(key, np.uint8)
    initial = _IV.copy()
    initial[0] ^= np.uint64(0x01010000 | len(key) << 8 | _DIGEST_BYTES)
    high, low = np.empty(ends.size - 1, np.uint32), np.empty(ends.size - 1, np.uint64)
    _hash_all(read_only(content), read_only(ends), read_only(key_block), initial, high, low)
    return high, low


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _hash_all(
    content: Any, ends: Any, key_block: Any, initial: Any, high: Any, low: Any
) -> None:  # pragma: no cover - compiled
    # Word w of a lane is at index w · 16 + lane. The compiler vectorizes this layout, but not two-dimensional arrays.
    state, message = np.empty(8 * _LANES, np.uint64), np.empty(16 * _LANES, np.uint64)
    counts, lasts = np.empty(_LANES, np.uint64), np.empty(_LANES, np.uint64)
    # The block of the key comes first. In odd lanes it is also the last one, as for an empty text.
    for lane in range(_LANES):
        _start(initial, state, lane)
        _load(key_block, np.uint64(0), _BLOCK, message, lane)
        counts[lane], lasts[lane] = _BLOCK, _LAST if lane & 1 else _NOT_LAST
    _compress(state, message, counts, lasts)
    keyed, empty_low, empty_high = np.empty(8, np.uint64), state[1], np.uint32(state[_LANES + 1] & _LOW_HALF)
    for w in range(8):
        keyed[w] = state[w * _LANES]

    for first in range(0, high.size, _LANES):
        lanes = min(_LANES, high.size - first)
        longest = np.uint64(0)
        for lane in range(lanes):
            _start(keyed, state, lane)
            low[first + lane], high[first + lane] = empty_low, empty_high
            longest = max(longest, np.uint64(ends[first + lane + 1] - ends[first + lane]))
        for done in range(np.uint64(0), longest, _BLOCK):
            for lane in range(lanes):
                start, end = np.uint64(ends[first + lane]) + done, np.uint64(ends[first + lane + 1])
                if start < end:
                    size = min(end - start, _BLOCK)
                    _load(content, start, size, message, lane)
                    counts[lane] = _BLOCK + done + size
                    lasts[lane] = _LAST if start + size == end else _NOT_LAST
            _compress(state, message, counts, lasts)
            for lane in range(lanes):
                if np.uint64(ends[first + lane]) + done < np.uint64(ends[first + lane + 1]):  # else it has ended before
                    low[first + lane], high[first + lane] = state[lane], np.uint32(state[_LANES + lane] & _LOW_HALF)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _start(words: Any, state: Any, lane: Any) -> None:  # pragma: no cover - compiled
    for w in range(8):
        state[w * _LANES + lane] = words[w]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _load(content: Any, start: Any, size: Any, message: Any, lane: Any) -> None:  # pragma: no cover - compiled
    """Load up to 128 bytes as sixteen little-endian words, padded with zeros."""
    whole = size // _WORD
    for w in range(whole):
        message[w * _STEP + np.uint64(lane)] = _word(content, start + w * _WORD, _WORD)
    for w in range(whole, np.uint64(16)):
        message[w * _STEP + np.uint64(lane)] = np.uint64(0)
    rest = size - whole * _WORD
    if rest > np.uint64(0):
        message[whole * _STEP + np.uint64(lane)] = _word(content, start + whole * _WORD, rest)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _word(content: Any, start: Any, size: Any) -> Any:  # pragma: no cover - compiled
    word = np.uint64(0)
    for b in range(size):
        word |= np.uint64(content[start + b]) << (_WORD * b)
    return word


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _compress(state: Any, message: Any, counts: Any, lasts: Any) -> None:  # pragma: no cover - compiled
    """Apply the standard's function F in every lane. The table SIGMA gives the word order of each round."""
    for lane in range(_LANES):
        h0, h1, h2, h3 = _four(state, 0, lane)
        h4, h5, h6, h7 = _four(state, 4, lane)
        m0, m1, m2, m3 = _four(message, 0, lane)
        m4, m5, m6, m7 = _four(message, 4, lane)
        m8, m9, m10, m11 = _four(message, 8, lane)
        m12, m13, m14, m15 = _four(message, 12, lane)
        d0, d2 = _I4 ^ counts[lane], _I6 ^ lasts[lane]
        v = (h0, h1, h2, h3, h4, h5, h6, h7, _I0, _I1, _I2, _I3, d0, _I5, d2, _I7)
        v = _round(v, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15)
        v = _round(v, m14, m10, m4, m8, m9, m15, m13, m6, m1, m12, m0, m2, m11, m7, m5, m3)
        v = _round(v, m11, m8, m12, m0, m5, m2, m15, m13, m10, m14, m3, m6, m7, m1, m9, m4)
        v = _round(v, m7, m9, m3, m1, m13, m12, m11, m14, m2, m6, m5, m10, m4, m0, m15, m8)
        v = _round(v, m9, m0, m5, m7, m2, m4, m10, m15, m14, m1, m11, m12, m6, m8, m3, m13)
        v = _round(v, m2, m12, m6, m10, m0, m11, m8, m3, m4, m13, m7, m5, m15, m14, m1, m9)
        v = _round(v, m12, m5, m1, m15, m14, m13, m4, m10, m0, m7, m6, m3, m9, m2, m8, m11)
        v = _round(v, m13, m11, m7, m14, m12, m1, m3, m9, m5, m0, m15, m4, m8, m6, m2, m10)
        v = _round(v, m6, m15, m14, m9, m11, m3, m0, m8, m12, m2, m13, m7, m1, m4, m10, m5)
        v = _round(v, m10, m2, m8, m4, m7, m6, m1, m5, m15, m11, m9, m14, m3, m12, m13, m0)
        v = _round(v, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15)
        v = _round(v, m14, m10, m4, m8, m9, m15, m13, m6, m1, m12, m0, m2, m11, m7, m5, m3)
        state[lane] = h0 ^ v[0] ^ v[8]
        state[_LANES + lane] = h1 ^ v[1] ^ v[9]
        state[2 * _LANES + lane] = h2 ^ v[2] ^ v[10]
        state[3 * _LANES + lane] = h3 ^ v[3] ^ v[11]
        state[4 * _LANES + lane] = h4 ^ v[4] ^ v[12]
        state[5 * _LANES + lane] = h5 ^ v[5] ^ v[13]
        state[6 * _LANES + lane] = h6 ^ v[6] ^ v[14]
        state[7 * _LANES + lane] = h7 ^ v[7] ^ v[15]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _four(words: Any, first: Any, lane: Any) -> Any:  # pragma: no cover - compiled
    place = first * _LANES + lane
    return words[place], words[place + _LANES], words[place + 2 * _LANES], words[place + 3 * _LANES]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _round(
    v: Any, x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, x6: Any, x7: Any,
    x8: Any, x9: Any, x10: Any, x11: Any, x12: Any, x13: Any, x14: Any, x15: Any,
) -> Any:  # pragma: no cover - compiled  # fmt: skip
    """Mix the columns first, then the diagonals."""
    a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3 = v
    a0, b0, c0, d0 = _mix(a0, b0, c0, d0, x0, x1)
    a1, b1, c1, d1 = _mix(a1, b1, c1, d1, x2, x3)
    a2, b2, c2, d2 = _mix(a2, b2, c2, d2, x4, x5)
    a3, b3, c3, d3 = _mix(a3, b3, c3, d3, x6, x7)
    a0, b1, c2, d3 = _mix(a0, b1, c2, d3, x8, x9)
    a1, b2, c3, d0 = _mix(a1, b2, c3, d0, x10, x11)
    a2, b3, c0, d1 = _mix(a2, b3, c0, d1, x12, x13)
    a3, b0, c1, d2 = _mix(a3, b0, c1, d2, x14, x15)
    return a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _mix(a: Any, b: Any, c: Any, d: Any, x: Any, y: Any) -> Any:  # pragma: no cover - compiled
    """Return the standard's function G."""
    a = a + b + x
    d = _rotated(d ^ a, np.uint64(32))
    c = c + d
    b = _rotated(b ^ c, np.uint64(24))
    a = a + b + y
    d = _rotated(d ^ a, np.uint64(16))
    c = c + d
    b = _rotated(b ^ c, np.uint64(63))
    return a, b, c, d


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _rotated(word: Any, places: Any) -> Any:  # pragma: no cover - compiled
    return (word >> places) | (word << (np.uint64(64) - places))
