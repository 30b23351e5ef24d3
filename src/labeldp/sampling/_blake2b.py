"""Keyed BLAKE2b (RFC 7693) with 96-bit output over a column of strings, compiled: hashlib costs a Python call each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

_IV = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    dtype=np.uint64,
)  # fmt: skip
_SIGMA = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    dtype=np.uint8,
)
_DIGEST_BYTES = 12
_BLOCK = 128


def keyed_blake2b_96(
    content: NDArray[np.uint8], ends: NDArray[np.int64], key: bytes
) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """`hashlib.blake2b(string, digest_size=12, key=key)` of each string `content[ends[i]:ends[i + 1]]`.

    The first 8 bytes are returned as a little-endian 64-bit word, the last 4 as a 32-bit one.
    """
    if not 1 <= len(key) <= 64:
        raise ValueError("a BLAKE2b key has 1 to 64 bytes")
    key_block = np.zeros(_BLOCK, dtype=np.uint8)
    key_block[: len(key)] = np.frombuffer(key, dtype=np.uint8)
    state = _IV.copy()
    state[0] ^= np.uint64(0x01010000 | len(key) << 8 | _DIGEST_BYTES)
    high = np.empty(ends.size - 1, dtype=np.uint32)
    low = np.empty(ends.size - 1, dtype=np.uint64)
    _hash_all(content, ends, key_block, state, high, low)
    return high, low


@njit(cache=True)  # type: ignore[untyped-decorator]
def _hash_all(content: Any, ends: Any, key_block: Any, initial: Any, high: Any, low: Any) -> None:
    message = np.empty(16, dtype=np.uint64)
    keyed = initial.copy()
    _load(key_block, 0, 128, message)
    _compress(keyed, message, np.uint64(128), False)
    state = np.empty(8, dtype=np.uint64)
    for i in range(high.size):
        start, length = ends[i], ends[i + 1] - ends[i]
        if length == 0:  # the key block is then the last one
            state[:] = initial
            _load(key_block, 0, 128, message)
            _compress(state, message, np.uint64(128), True)
        else:
            state[:] = keyed
            done = 0
            while length - done > 128:
                _load(content, start + done, 128, message)
                done += 128
                _compress(state, message, np.uint64(128 + done), False)
            _load(content, start + done, length - done, message)
            _compress(state, message, np.uint64(128 + length), True)
        low[i] = state[0]
        high[i] = np.uint32(state[1] & np.uint64(0xFFFFFFFF))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _load(content: Any, start: Any, length: Any, message: Any) -> None:
    message[:] = np.uint64(0)
    for i in range(length):
        message[i >> 3] |= np.uint64(content[start + i]) << np.uint64(8 * (i & 7))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _compress(state: Any, message: Any, count: Any, last: bool) -> None:
    """The sixteen words are kept in names, not in an array, so that they stay in registers."""
    a0, a1, a2, a3 = state[0], state[1], state[2], state[3]
    b0, b1, b2, b3 = state[4], state[5], state[6], state[7]
    c0, c1, c2, c3 = _IV[0], _IV[1], _IV[2], _IV[3]
    d0, d1, d2, d3 = _IV[4] ^ count, _IV[5], _IV[6], _IV[7]
    if last:
        d2 = ~d2
    for number in range(12):
        s = _SIGMA[number % 10]
        a0, b0, c0, d0 = _mix(a0, b0, c0, d0, message[s[0]], message[s[1]])
        a1, b1, c1, d1 = _mix(a1, b1, c1, d1, message[s[2]], message[s[3]])
        a2, b2, c2, d2 = _mix(a2, b2, c2, d2, message[s[4]], message[s[5]])
        a3, b3, c3, d3 = _mix(a3, b3, c3, d3, message[s[6]], message[s[7]])
        a0, b1, c2, d3 = _mix(a0, b1, c2, d3, message[s[8]], message[s[9]])
        a1, b2, c3, d0 = _mix(a1, b2, c3, d0, message[s[10]], message[s[11]])
        a2, b3, c0, d1 = _mix(a2, b3, c0, d1, message[s[12]], message[s[13]])
        a3, b0, c1, d2 = _mix(a3, b0, c1, d2, message[s[14]], message[s[15]])
    state[0] ^= a0 ^ c0
    state[1] ^= a1 ^ c1
    state[2] ^= a2 ^ c2
    state[3] ^= a3 ^ c3
    state[4] ^= b0 ^ d0
    state[5] ^= b1 ^ d1
    state[6] ^= b2 ^ d2
    state[7] ^= b3 ^ d3


@njit(cache=True)  # type: ignore[untyped-decorator]
def _mix(a: Any, b: Any, c: Any, d: Any, x: Any, y: Any) -> Any:
    a = a + b + x
    d = _rotate(d ^ a, np.uint64(32))
    c += d
    b = _rotate(b ^ c, np.uint64(24))
    a = a + b + y
    d = _rotate(d ^ a, np.uint64(16))
    c += d
    b = _rotate(b ^ c, np.uint64(63))
    return a, b, c, d


@njit(cache=True)  # type: ignore[untyped-decorator]
def _rotate(word: Any, bits: Any) -> Any:
    return (word >> bits) | (word << (np.uint64(64) - bits))
