"""Time and memory of `labeldp privatize` beside a plain pyarrow copy of the same columns. Run: python benchmarks/privatize.py

Unique ids in random order and labels with two decimals are generated on disk. Then, turn by turn, each in a process of its own:

- copy:       pyarrow reads the two columns in record batches and writes them to a new Parquet file, all at its defaults;
- privatize:  the command itself with --for labels: validation, private prior, keyed randomness, order by id digest,
              duplicate check, message.

Shown are the wall and processor time of the whole process, start-up included, its peak resident memory, and the ratios of
the fastest runs: of both times, because other programs on the machine blur the one and parallel reading the other.
The promise is at most 4 times the copy's time for integer ids, 8 times for text, and less than 1 GiB at 100 million rows.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

GENERATED_ROWS = 1 << 20
LIMITS = {"int": 4.0, "str": 8.0}
GIB = 1 << 30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--ids", choices=("int", "str", "both"), default="both")
    parser.add_argument("--rounds", type=int, default=2, help="how often both are run, turn by turn")
    parser.add_argument("--key-file", action="store_true", help="keep the key, so that the input is fingerprinted too")
    parser.add_argument("--folder", type=Path, help="where to work, on a disk with 80 bytes per row free")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="*", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step == "generate":
        generate(options.files[0], options.rows, options.ids)
        return 0
    if options.step == "copy":
        copy(*options.files)
        return 0
    kinds = ("int", "str") if options.ids == "both" else (options.ids,)
    kept = [compare(kind, options) for kind in kinds]
    return 0 if all(kept) else 1


def compare(kind: str, options: argparse.Namespace) -> bool:
    """Prints the figures for ids of one kind; says whether they keep the promise."""
    folder = Path(tempfile.mkdtemp(prefix="labeldp-benchmark-", dir=options.folder))
    try:
        data = folder / "data.parquet"
        print(f"{options.rows:,} rows, {kind} ids", flush=True)
        itself = [sys.executable, __file__]
        measured([*itself, "--step", "generate", "--rows", str(options.rows), "--ids", kind, str(data)])
        print(f"  input      {data.stat().st_size / GIB:6.2f} GiB", flush=True)
        times: dict[str, list[tuple[float, float]]] = {"copy": [], "privatize": []}
        memory: dict[str, int] = {"copy": 0, "privatize": 0}
        for _ in range(options.rounds):
            copied, message, key = folder / "copy.parquet", folder / "message", folder / "key"
            commands = {
                "copy": [*itself, "--step", "copy", str(data), str(copied)],
                "privatize": privatize(data, message),
            }
            if options.key_file:
                commands["privatize"] += ["--key-file", str(key)]
            for name, command in commands.items():
                seconds, busy, resident = measured(command)
                times[name].append((seconds, busy))
                memory[name] = max(memory[name], resident)
                print(
                    f"  {name:10} {seconds:6.1f} s  {busy:6.1f} s CPU  {resident / GIB:5.2f} GiB resident", flush=True
                )
            copied.unlink()
            shutil.rmtree(message)
            key.unlink(missing_ok=True)
        wall, processor = (
            min(run[which] for run in times["privatize"]) / min(run[which] for run in times["copy"]) for which in (0, 1)
        )
        kept = max(wall, processor) <= LIMITS[kind] and memory["privatize"] < GIB
        verdict = f"at most {LIMITS[kind]:g} and 1 GiB: {'kept' if kept else 'NOT KEPT'}"
        print(f"  ratio      {wall:6.2f}    {processor:6.2f} CPU    {verdict}", flush=True)
        return kept
    finally:
        shutil.rmtree(folder)


def privatize(data: Path, message: Path) -> list[str]:
    program = [sys.executable, "-c", "from labeldp.cli import main; main()", "privatize", str(data), "--quiet"]
    columns, settings = ["--label", "label", "--id", "id"], ["--epsilon", "1", "--lower", "0", "--upper", "400"]
    return [*program, *columns, *settings, "--for", "labels", "--out", str(message)]


def measured(command: list[str]) -> tuple[float, float, int]:
    """Seconds, processor seconds and peak resident bytes of one process. This one stays small, since a child starts with its memory."""
    start = time.perf_counter()
    child = subprocess.Popen(command)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def copy(source: Path, target: Path) -> None:
    with pq.ParquetFile(source) as parquet, pq.ParquetWriter(target, parquet.schema_arrow) as writer:
        for batch in parquet.iter_batches():
            writer.write_batch(batch)


def generate(path: Path, rows: int, kind: str) -> None:
    """Ids are distinct because an odd multiplier and a shift-xor are bijections of 64 bits."""
    rng = np.random.default_rng(1)
    id_type = pa.int64() if kind == "int" else pa.string()
    with pq.ParquetWriter(path, pa.schema([("id", id_type), ("label", pa.float64())])) as writer:
        for start in range(0, rows, GENERATED_ROWS):
            count = min(GENERATED_ROWS, rows - start)
            words = np.arange(start, start + count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            words ^= words >> np.uint64(32)
            ids = pa.array(words.view(np.int64)) if kind == "int" else hexadecimal(words)
            labels = np.minimum(np.round(rng.exponential(80.0, count), 2), 400.0)
            writer.write_batch(pa.record_batch([ids, pa.array(labels)], ["id", "label"]))


def hexadecimal(words: np.ndarray) -> pa.Array:
    """Sixteen digits each."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    characters = np.empty((words.size, 16), np.uint8)
    for place in range(16):
        characters[:, place] = digits[(words >> np.uint64(60 - 4 * place)) & np.uint64(15)]
    ends = np.arange(0, 16 * words.size + 1, 16, dtype=np.int32)
    return pa.StringArray.from_buffers(words.size, pa.py_buffer(ends), pa.py_buffer(characters))


if __name__ == "__main__":
    sys.exit(main())
