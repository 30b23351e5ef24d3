"""Opening a message of 10⁷ ids and joining it with features in another order: right, and how long.

Against pyarrow's own join. Opening compares every byte with the manifest and proves ε. Reading checks every row, and that no id is there twice.

Run: python benchmarks/join.py [--rows 10000000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp import Domain, LabelRandomizer, Prior
from labeldp.artifact.reader import Message
from labeldp.engines.arrow.source import LabelSource
from labeldp.learn.joined_features import join
from labeldp.release.labels import privatize


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        labels = (np.arange(rows) % 2).astype(float)
        pq.write_table(pa.table({"key": np.arange(rows), "label": labels}), folder / "labels.parquet")
        domain = Domain(0, 1, 2)
        nearly_exact = LabelRandomizer(40, domain, mechanism="rr-on-bins", prior=Prior.uniform(domain))
        privatize(LabelSource(folder / "labels.parquet", "label", "key"), nearly_exact, folder / "message")
        start = time.perf_counter()
        message = Message.open(folder / "message")
        opened = time.perf_counter() - start
        megabytes = sum(file.bytes for file in message.manifest.files) / 1e6

        start = time.perf_counter()
        for _ in message.batches():
            pass
        read = time.perf_counter() - start

        wanted = pa.array(generator.permutation(rows))

        start = time.perf_counter()
        joined = join(message, wanted)
        ours = time.perf_counter() - start
        right = np.array_equal(joined.codes, np.asarray(wanted)[joined.rows] % 2) and joined.rows.size == rows

        start = time.perf_counter()
        table = pq.read_table(folder / "message" / "labels.parquet")
        features = pa.table({"key": wanted, "row": np.arange(rows)})
        plain = features.join(table, "key", join_type="left outer")
        theirs = time.perf_counter() - start
        assert plain.num_rows == rows
    print(f"{rows:,} ids, shuffled: every label in its row: {right}")
    print(f"opening: {megabytes:,.0f} MB compared with the manifest     {opened:6.2f} s")
    print(f"reading, every row checked, ids unique    {read:6.2f} s")
    print(f"labeldp (with every check of the message) {ours:6.2f} s")
    print(f"pyarrow read and join                     {theirs:6.2f} s")
    print(f"ratio                                     {ours / theirs:6.2f}  (at most 3)")


if __name__ == "__main__":
    main()
