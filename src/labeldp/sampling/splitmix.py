"""SplitMix64's finaliser: a bijection of 64-bit words whose images show no trace of the order of the words."""

from collections.abc import Callable
from typing import Any

import numpy as np

from labeldp.sampling.table import Words

BLOCK = 1 << 14
"""Words at a time, so that what lies between two steps stays in the cache."""
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_I1, _I2 = np.uint64(0x96DE1B173F119089), np.uint64(0x319642B2D24D8EC3)  # inverses of the multipliers modulo 2^64
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
_S60, _S54, _S62 = np.uint64(60), np.uint64(54), np.uint64(62)


def mix(words: Words) -> Words:
    """The image of each word of an array."""
    return _in_blocks(mixed, words)


def unmix(words: Words) -> Words:
    """The words whose images are given: the inverse of `mix`."""
    return _in_blocks(unmixed, words)


def mixed(x: Any) -> Any:
    """The image of a word, or of each word of a small array. Compiled loops take it too."""
    x = (x ^ (x >> _S30)) * _M1
    x = (x ^ (x >> _S27)) * _M2
    return x ^ (x >> _S31)


def unmixed(x: Any) -> Any:
    """The word of an image: the inverse of `mixed`."""
    x = (x ^ (x >> _S31) ^ (x >> _S62)) * _I2
    x = (x ^ (x >> _S27) ^ (x >> _S54)) * _I1
    return x ^ (x >> _S30) ^ (x >> _S60)


def _in_blocks(function: Callable[[Words], Words], words: Words) -> Words:
    given = np.asarray(words, np.uint64)
    flat, images = given.reshape(-1), np.empty(given.size, np.uint64)
    for start in range(0, flat.size, BLOCK):
        rows = slice(start, start + BLOCK)
        images[rows] = function(flat[rows])
    return images.reshape(given.shape)
