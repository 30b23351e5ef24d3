"""Identifiers that look like the genuine file's: 32 upper-case hexadecimal digits, `-1` where missing."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.sampling.splitmix import mix

MISSING = -1
_HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), dtype=np.uint16)


def mixed(codes: NDArray[np.int64], salt: int) -> NDArray[np.uint64]:
    """A fixed pseudo-random 64-bit word for each code, by SplitMix64. Each salt gives other words."""
    return mix(codes.astype(np.uint64) + np.uint64(salt * 0x9E3779B97F4A7C15 % 2**64))


def uniform(codes: NDArray[np.int64], salt: int) -> NDArray[np.float64]:
    """A fixed pseudo-random number in [0, 1) for each code."""
    return np.asarray((mixed(codes, salt) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def hex_digits(codes: NDArray[np.int64], salt: int) -> NDArray[np.uint8]:
    """The 32 characters of each code's identifier, as a byte matrix."""
    words = np.column_stack([mixed(codes, salt), mixed(codes, salt + 0x5851F42D)])
    return _HEX[words.view(np.uint8)].view(np.uint8).reshape(len(codes), 32)


def identifiers(codes: NDArray[np.int64], salt: int) -> pa.StringArray:
    """Each code's identifier; negative codes are missing."""
    text = hex_digits(codes, salt)
    missing = codes < 0
    lengths = np.where(missing, 2, 32)
    if missing.any():
        text[missing, :2] = np.frombuffer(b"-1", dtype=np.uint8)
        text = text[np.arange(32) < lengths[:, None]]
    return _strings(text, lengths)


def titles(codes: NDArray[np.int64], salt: int, vocabulary: int = 5000) -> pa.StringArray:
    """Each code's title: zero or more identifiers separated by spaces; negative codes are missing.

    Most titles have one to three words, as in the genuine sample. Some words are much more frequent than others.
    """
    shares = np.cumsum([0.01, 0.04, 0.66, 0.19, 0.08, 0.015])
    words = np.searchsorted(shares, uniform(codes, salt), side="right")
    words[codes < 0] = 1
    first = np.cumsum(words) - words
    place = np.arange(words.sum()) - np.repeat(first, words)
    each = np.repeat(codes, words)
    word = (vocabulary ** uniform(each * 8 + place, salt + 1)).astype(np.int64)
    text = np.full((len(word), 33), ord(" "), dtype=np.uint8)
    text[:, :32] = hex_digits(word, salt + 2)
    lengths = np.full(len(word), 33)
    lengths[(place + 1) == np.repeat(words, words)] = 32
    missing = each < 0
    text[missing, :2] = np.frombuffer(b"-1", dtype=np.uint8)
    lengths[missing] = 2
    flat = text[np.arange(33) < lengths[:, None]]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return _strings(flat, ends[first + words] - ends[first])


def _strings(text: NDArray[np.uint8], lengths: NDArray[np.int64]) -> pa.StringArray:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text)))
