"""The most that a faster hash of text ids could win for `labeldp privatize` as a whole. Run: python benchmarks/text_ids.py

The command runs on one file of text ids, turn by turn, each time in a process of its own: as it is, with hashlib's BLAKE2b,
and with digests that cost nothing (a word made of the ids' own bytes). Shown are the fastest wall and processor times,
start-up included, and their ratios.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from privatize import generate, measured, privatize

FREE = """
import numpy as np
import pyarrow as pa
from labeldp.sampling import ids

def digests(chunk, key):
    _, ends, data = chunk.cast(pa.large_binary()).buffers()
    first = np.frombuffer(ends, np.int64)[chunk.offset]
    words = np.frombuffer(data, "<u8", 2 * len(chunk), first).reshape(-1, 2)  # ids of sixteen digits
    mixed = (words[:, 0] * np.uint64(0x9E3779B97F4A7C15)) ^ words[:, 1] * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(32)).astype(np.uint32) | ids.TEXT_TAG, mixed * np.uint64(0x94D049BB133111EB)

ids._text_digests = digests
"""
WAYS = {"hashlib": "", "free": FREE}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to work, on a disk with 80 bytes per row free")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="labeldp-benchmark-", dir=options.folder))
    try:
        data, message = folder / "data.parquet", folder / "message"
        generate(data, options.rows, "str")
        times: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
        for _ in range(options.rounds):
            for way, patch in WAYS.items():
                command = privatize(data, message)
                command[2] = patch + command[2]
                seconds, busy, _ = measured(command)
                times[way].append((seconds, busy))
                shutil.rmtree(message)
        print(f"{options.rows:,} rows with text ids, the fastest of {options.rounds}")
        wall, processor = ({way: min(run[i] for run in runs) for way, runs in times.items()} for i in (0, 1))
        for way in WAYS:
            shares = (
                f"hashlib / this: {wall['hashlib'] / wall[way]:5.2f}  {processor['hashlib'] / processor[way]:5.2f} CPU"
            )
            print(f"  {way:9} {wall[way]:6.1f} s  {processor[way]:6.1f} s CPU   {shares}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
