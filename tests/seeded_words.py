"""Randomness for tests that follows from a seed alone.

`conftest.py` runs every test inside `seeded_draws`, with a seed made from the test's name. A test that needs the operating
system's randomness has the marker `os_randomness` and states its false-alarm rate.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import zlib
from contextlib import contextmanager
from unittest import mock

import numpy as np
import opendp.measurements

from labeldp.sampling import KeyedRandomness


class SeededWords:
    """A source of draws for `Mechanism.codes`. Every call continues the same stream.

    Keyed words depend on the mechanism too, and a mechanism that a solver designed differs in its last digits between
    processors. So a test of frequencies on keyed words could be unlucky on some processors.
    """

    needs_ids = False

    def __init__(self, seed):
        self._generator = np.random.Generator(np.random.Philox(seed))  # not the stream that `default_rng(seed)` gives

    def identify(self, ids, *, digest):
        return None

    def draw(self, symbols, *, ids=None, digest=b"", rounding=False):
        words = self._generator.integers(0, 1 << 64, (1 + rounding, symbols.size), dtype=np.uint64)
        return words[0], words[1] if rounding else None


def seed_of(name):
    return zlib.crc32(name.encode())


class Streams:
    """Random bytes from a seed. labeldp's main thread has the seed's own stream; every other place that asks has one of its own.

    So what labeldp draws depends neither on how often other packages ask, which changes with their versions and with the number
    of threads, nor on which thread asks first.
    """

    def __init__(self, seed):
        self._seed = seed
        self._system = os.urandom
        self._streams = {}
        self._lock = threading.Lock()

    def __call__(self, size):
        frame = sys._getframe(1)
        while frame.f_back and frame.f_globals.get("__name__") in {"random", "secrets", "uuid"}:
            frame = frame.f_back
        place = f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}"
        if place.startswith("numba."):  # names of new files, which must differ between processes
            return self._system(size)
        if place.startswith("labeldp.") and threading.current_thread() is threading.main_thread():
            place = ""
        with self._lock:
            if place not in self._streams:
                seed = (self._seed, seed_of(place)) if place else self._seed
                self._streams[place] = np.random.Generator(np.random.Philox(seed))
            return self._streams[place].bytes(size)


@contextmanager
def seeded_draws(seed, *, any_processor=False):
    """Make every draw of labeldp, NumPy and scikit-learn in this process follow from the seed until the block ends.

    Replaced are the two sources below all draws: `os.urandom`, from which labeldp and `secrets` take words, and OpenDP's
    sampler, which takes no seed. Everything above them is the real code. With `any_processor`, keyed words do not depend
    on the mechanism's digest either, so that they are the same on every processor (see `SeededWords`).
    """
    streams = Streams(seed)
    laplace = np.random.Generator(np.random.Philox(seed + 1))

    def make_laplace(*arguments, scale):
        """Return a measurement with the law and the privacy map of OpenDP's. It adds the difference of two geometric numbers."""
        success, limits = -np.expm1(-1 / scale), np.iinfo(np.int64)

        def noisy(values):
            added, removed = (laplace.geometric(success, len(values)).tolist() for _ in range(2))
            sums = (sum(terms) - less for *terms, less in zip(values, added, removed, strict=True))
            return [min(max(total, limits.min), limits.max) for total in sums]

        noisy.map = measurement(*arguments, scale=scale).map
        return noisy

    measurement = opendp.measurements.make_laplace
    subkeys = KeyedRandomness._subkeys_for

    def subkeys_for_any(self, digest):
        return subkeys(self, b"any mechanism" if any_processor else digest)

    states = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        with (
            mock.patch.object(os, "urandom", streams),
            mock.patch.object(random, "_urandom", streams),  # SystemRandom's, which `secrets` uses
            mock.patch.object(KeyedRandomness, "_subkeys_for", subkeys_for_any),
            mock.patch.object(opendp.measurements, "make_laplace", make_laplace),
        ):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
