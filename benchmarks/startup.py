"""How long labeldp takes to start, beside an import of NumPy and pyarrow. Run: python benchmarks/startup.py [--json FILE]

Each of these runs in fresh processes, turn by turn, and the first round is not counted, since it may compile loops:

- reference:  python -c "import numpy, pyarrow";
- import:     import labeldp;
- help:       labeldp --help;
- compare:    labeldp compare --dataset criteo, which is every mechanism for 401 labels at five ε;
- advise:     labeldp advise for 50,000 records;
- randomize:  the first LabelRandomizer.randomize of a process, 2,000 labels, and with `rr-on-bins` instead of `auto`;
- privatize:  labeldp privatize on 20,000 rows, from the file to the message;
- compiling:  the first randomize again, with an empty cache of compiled loops, once.

The results are the medians of wall and processor time, and their ratios to those of the reference. On a busy machine only the
ratios mean something.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = [sys.executable, "-m", "labeldp"]
RANDOMIZE = """
import numpy as np
from labeldp import LabelRandomizer
labels = np.random.default_rng(1).exponential(80.0, 2000).clip(0, 400)
LabelRandomizer(epsilon=1, domain=(0, 400), mechanism={mechanism!r}).randomize(labels)
"""
WRITE = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
labels = np.random.default_rng(1).exponential(80.0, 20_000).clip(0, 400)
pq.write_table(pa.table({"id": np.arange(20_000), "label": labels}), sys.argv[1])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=5, help="how often each is run, after one round that is not counted"
    )
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="labeldp-benchmark-") as folder:
        runs = measured_in_turn(commands(Path(folder)), options.rounds, Path(folder))
    figures = {name: [statistics.median(run[which] for run in each) for which in (0, 1)] for name, each in runs.items()}
    wall, processor = figures["reference"]
    print(f"{'':22} {'seconds':>8} {'ratio':>7}   {'CPU':>8} {'ratio':>7}   medians of {options.rounds}")
    for name, (seconds, busy) in figures.items():
        print(f"{name:22} {seconds:8.2f} {seconds / wall:7.1f}   {busy:8.2f} {busy / processor:7.1f}")
    if options.json is not None:
        record = {
            name: {
                "seconds": seconds,
                "processor_seconds": busy,
                "ratio": seconds / wall,
                "processor_ratio": busy / processor,
            }
            for name, (seconds, busy) in figures.items()
        }
        options.json.write_text(json.dumps({"rounds": options.rounds, "startup": record}, indent=1) + "\n")


def commands(folder: Path) -> dict[str, list[str]]:
    data = folder / "labels.parquet"
    subprocess.run([sys.executable, "-c", WRITE, str(data)], check=True)
    code = [sys.executable, "-c"]
    bounds = ["--lower", "0", "--upper", "400"]
    privatize = ["privatize", str(data), "--label", "label", "--id", "id", "--epsilon", "1", *bounds, "--quiet"]
    return {
        "reference": [*code, "import numpy, pyarrow"],
        "import": [*code, "import labeldp"],
        "help": [*COMMAND, "--help"],
        "compare": [*COMMAND, "compare", "--dataset", "criteo"],
        "advise": [*COMMAND, "advise", *bounds, "--records", "50000", "--shape", "log-normal:mean=80,sd=90"],
        "randomize": [*code, RANDOMIZE.format(mechanism="auto")],
        "randomize rr-on-bins": [*code, RANDOMIZE.format(mechanism="rr-on-bins")],
        "privatize": [*COMMAND, *privatize, "--out", str(folder / "message-{}")],
    }


def measured_in_turn(every: dict[str, list[str]], rounds: int, folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Wall and processor seconds of each command, round by round. The first round fills caches."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in every}
    for number in range(rounds + 1):
        for name, command in every.items():
            run = measured([part.replace("{}", str(number)) if part.endswith("{}") else part for part in command])
            if number:
                runs[name].append(run)
    runs["randomize, compiling"] = [measured(every["randomize"], NUMBA_CACHE_DIR=str(folder / "cache"))]
    return runs


def measured(command: list[str], **variables: str) -> tuple[float, float]:
    start = time.perf_counter()
    child = subprocess.Popen(command, env=os.environ | variables, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
