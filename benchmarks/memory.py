"""Peak memory of `labeldp predict` against rows and of `labeldp train` against columns, streamed and with the table read whole.

Run: python benchmarks/memory.py [--rows 250000 1000000 4000000] [--columns 0 20 80] [--train-rows 500000]

Each figure is the peak of a process of its own, less that of a process that only imports the same code. "whole" is how it
was done before files were read in batches: read the table, then predict, or join and train. `train` leaves the extra
columns out with --exclude, so the learner needs the same whatever their number. Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp import Domain, LabelRandomizer, LabelSource, privatize

MIB = 1 << 20
PIECE = 1 << 18


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[250_000, 1_000_000, 4_000_000])
    parser.add_argument("--columns", type=int, nargs="+", default=[0, 20, 80])
    parser.add_argument("--train-rows", type=int, default=500_000)
    parser.add_argument("--job", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        run(*arguments.job)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        idle = peak("idle")
        print(f"peak memory in MiB above the {idle / MIB:.0f} MiB of the imports\n")
        print("train, 8 columns in use")
        print(f"{'rows':>12} {'unused columns':>16} {'file':>8} {'whole':>8} {'streamed':>10}")
        for unused in arguments.columns:
            wide = folder / f"wide-{unused}.parquet"
            write(wide, arguments.train_rows, unused)
            if not (folder / "message").exists():
                domain = Domain(0, 400, 101)
                randomizer = LabelRandomizer(2, domain, mechanism="auto")
                privatize(LabelSource(wide, "label", "key"), randomizer, folder / "message")
            peaks = [peak(f"train-{way}", folder, wide, unused) - idle for way in ("whole", "streamed")]
            size = f"{wide.stat().st_size / MIB:>8.0f}"
            print(
                f"{arguments.train_rows:>12,} {unused:>16} {size} {peaks[0] / MIB:>8.0f} {peaks[1] / MIB:>10.0f}",
                flush=True,
            )
        print("\npredict, 8 columns in use and 20 others")
        print(f"{'rows':>12} {'file':>8} {'whole':>8} {'streamed':>10}")
        for rows in arguments.rows:
            file = folder / f"rows-{rows}.parquet"
            write(file, rows, 20)
            peaks = [peak(f"predict-{way}", folder, file, 20) - idle for way in ("whole", "streamed")]
            whole, streamed = (pq.read_table(folder / f"{way}.parquet") for way in ("whole", "streamed"))
            assert streamed.equals(whole), "both ways must give the same predictions"
            size = f"{file.stat().st_size / MIB:>8.0f}"
            print(f"{rows:>12,} {size} {peaks[0] / MIB:>8.0f} {peaks[1] / MIB:>10.0f}", flush=True)
            file.unlink()


def peak(job: str, *arguments: object) -> int:
    """The peak of a process that does this job, in bytes."""
    command = [sys.executable, __file__, "--job", job, *map(str, arguments)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def run(job: str, folder: str = "", file: str = "", unused: str = "0") -> None:
    """Do one job in this process and print its peak."""
    from labeldp import SavedModel
    from labeldp.learn.prediction_files import predict_file
    from labeldp.learn.train import train

    place, features = Path(folder), Path(file)
    if job.startswith("train"):
        whole = job == "train-whole"
        left_out = ["label", *(f"unused {i}" for i in range(int(unused)))]
        table = pq.read_table(features) if whole else features
        model = train(place / "message", table, id="key", exclude=left_out, seed=0, folds=0).model
        if not (place / "model").exists():
            model.save(place / "model")
    elif job == "predict-whole":
        table = pq.read_table(features)
        predictions = SavedModel.load(place / "model").predict(table)
        pq.write_table(pa.table({"key": table["key"], "prediction": predictions}), place / "whole.parquet")
    elif job == "predict-streamed":
        (place / "streamed.parquet").unlink(missing_ok=True)
        predict_file(SavedModel.load(place / "model"), features, place / "streamed.parquet", "key")
    print(1024 * int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]))


def write(path: Path, rows: int, unused: int) -> None:
    """Six numbers and two texts that say something about the label, and columns that say nothing."""
    generator = np.random.default_rng(0)
    writer = None
    for first in range(0, rows, PIECE):
        count = min(PIECE, rows - first)
        label = np.minimum(generator.exponential(90, count), 400)
        columns = {"key": np.arange(first, first + count), "label": label}
        columns |= {f"number {i}": label + generator.normal(0, 100, count) for i in range(6)}
        shops = pa.array([f"shop number {i:05d}" for i in range(1000)])
        columns |= {f"text {i}": shops.take(pa.array(generator.integers(0, 1000, count))) for i in range(2)}
        columns |= {f"unused {i}": generator.random(count) for i in range(unused)}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


if __name__ == "__main__":
    main()
