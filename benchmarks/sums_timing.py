"""Time and memory of one fit from noisy sums, for `sums.py --timing`.

Each fit runs in a process of its own, on Criteo-like data with 20 columns. Memory is the peak of that process less that of one
that only imports the library and reads the features and labels. Linux only: it reads /proc.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from labeldp import LabelDPRegressor
from labeldp.paper.data import criteo_like

MIB = 1 << 20


def run(sizes: list[int], epsilon: float = 0.5) -> None:
    """Print a line for each number of rows."""
    print(f"one fit of LabelDPRegressor(epsilon={epsilon}, domain=(0, 400), method='sums'), 20 columns; memory in MiB")
    print(f"{'rows':>10}{'seconds':>10}{'features':>10}{'read':>8}{'fitted':>8}{'fit needs':>11}{'bytes a row':>13}")
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            path = Path(folder) / f"{size}.arrow"
            whole = criteo_like(size, seed=0)
            table = whole.features.append_column("label", pa.array(whole.labels))
            with pa.ipc.new_file(path, table.schema) as sink:
                sink.write_table(table)
            features = whole.features.nbytes
            del whole, table
            _, read = job("read", path, epsilon)
            seconds, fitted = job("fit", path, epsilon)
            needs = fitted - read
            print(
                f"{size:>10,}{seconds:>10.1f}{features / MIB:>10.0f}{read / MIB:>8.0f}{fitted / MIB:>8.0f}"
                f"{needs / MIB:>11.0f}{needs / size:>13.0f}",
                flush=True,
            )


def job(what: str, path: Path, epsilon: float) -> tuple[float, int]:
    """Seconds and peak memory in bytes of a process that does this."""
    command = [sys.executable, __file__, what, str(path), str(epsilon)]
    seconds, peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), int(peak)


def main(what: str, path: str, epsilon: str) -> None:
    """Do one job in this process and print its figures."""
    with pa.OSFile(path) as source:  # not mapped: features are in memory, as a user has them
        table = pa.ipc.open_file(source).read_all()
    labels = table["label"].to_numpy()
    started = time.perf_counter()
    if what == "fit":
        LabelDPRegressor(epsilon=float(epsilon), domain=(0, 400), method="sums").fit(table.drop(["label"]), labels)
    seconds = time.perf_counter() - started
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))[1]
    print(seconds, int(peak) << 10)


if __name__ == "__main__":
    main(*sys.argv[1:])
