"""What the compiled BLAKE2b wins over hashlib for text ids. Run: python benchmarks/text_ids.py

Digests of the same ids are made turn by turn, by the library and by a loop over hashlib, and compared. ReprMixin is the fastest time
per id for each length. Then a new process compiles the loops with an empty cache and another one finds them there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa

LENGTHS = (8, 16, 36, 200)
HASHLIB = """
import hashlib
import numpy as np
import pyarrow as pa
from labeldp.sampling import ids

def by_hashlib(chunk, key):
    keyed = hashlib.blake2b(digest_size=12, key=key)  # copied, because mixing in the key is half of the work
    pairs = np.empty(len(chunk), [("low", "<u8"), ("high", "<u4")])
    for start in range(0, len(chunk), 65536):
        rows, found = slice(start, start + 65536), []
        for text in chunk[rows].cast(pa.large_binary()).to_pylist():
            state = keyed.copy()
            state.update(text)
            found.append(state.digest())
        pairs[rows] = np.frombuffer(b"".join(found), pairs.dtype)
    return pairs["high"] | ids.TEXT_TAG, np.ascontiguousarray(pairs["low"])
"""
FIRST_USE = """
import time
from labeldp.sampling.ids import digest_ids
import numba
start = time.perf_counter(), time.process_time()
digest_ids(["a"], bytes(32))
print(f"{time.perf_counter() - start[0]:6.2f} s  {time.process_time() - start[1]:6.2f} s CPU")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=500_000, help="how many ids of each length")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    per_id(options.ids, options.rounds)
    first_use()


def per_id(count: int, rounds: int) -> None:
    from labeldp.sampling import ids

    namespace: dict[str, object] = {}
    exec(HASHLIB, namespace)
    ways = {"compiled": ids._text_digests, "hashlib": namespace["by_hashlib"]}  # noqa: SLF001
    print(f"{count:,} ids, the fastest of {rounds}")
    rng, key = np.random.default_rng(1), bytes(range(32))
    for length in LENGTHS:
        letters = pa.py_buffer(rng.integers(97, 123, count * length, np.uint8))
        texts = pa.Array.from_buffers(pa.binary(length), count, [None, letters]).cast(pa.binary()).cast(pa.string())
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            found = {}
            for way, digests in ways.items():
                start = time.perf_counter()
                found[way] = digests(texts, key)
                times[way].append((time.perf_counter() - start) / count)
            assert all(map(np.array_equal, found["compiled"], found["hashlib"]))
        best = {way: min(each) * 1e6 for way, each in times.items()}
        ratio = best["hashlib"] / best["compiled"]
        shown = "  ".join(f"{way} {best[way]:.3f} µs" for way in ways)
        print(f"  {length:3} bytes  {shown}   hashlib / compiled: {ratio:5.2f}", flush=True)


def first_use() -> None:
    print("the first id of a process")
    with tempfile.TemporaryDirectory() as cache:
        for what in ("compiled anew", "from the cache"):
            command = [sys.executable, "-c", FIRST_USE]
            shown = subprocess.run(
                command, env=os.environ | {"NUMBA_CACHE_DIR": cache}, check=True, capture_output=True, text=True
            )
            print(f"  {what:14} {shown.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main()
