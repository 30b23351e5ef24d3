"""Labels per second of an exact RR-on-Bins release, against OpenDP, diffprivlib and insecure NumPy.

    python benchmarks/sampling.py [--labels 10000000] [--repeat 3] [--diffprivlib PYTHON]

Every contender adds ε-DP noise to single labels; ours also encodes the labels and looks the outputs up. OpenDP and
diffprivlib are timed on fewer labels, their time being proportional, and each in the setting where it is fastest.
diffprivlib 0.6.6 does not import beside current scikit-learn: without --diffprivlib, a virtual environment with an older
one is made in a temporary folder; where that fails (no package index), diffprivlib is skipped with a message.
Targets: at least 50 times OpenDP and diffprivlib, at most 3 times the time of NumPy.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path

import numpy as np

from labeldp.mechanisms import RROnBins
from labeldp.sampling import KeyedRandomness, OsEntropy

EPSILON = 1
OUTPUTS = [20.0, 60.0, 120.0, 180.0, 240.0, 320.0]
UPPER = 400

DIFFPRIVLIB = """
import json, time
from diffprivlib import mechanisms as m
candidates = {
    "Binary": (m.Binary(epsilon=1, value0="0", value1="1"), "0"),
    "Geometric": (m.Geometric(epsilon=1, sensitivity=1), 3),
    "GeometricTruncated": (m.GeometricTruncated(epsilon=1, sensitivity=1, lower=0, upper=5), 3),
    "Laplace": (m.Laplace(epsilon=1, sensitivity=1), 3.0),
    "LaplaceTruncated": (m.LaplaceTruncated(epsilon=1, sensitivity=1, lower=0, upper=5), 3.0),
    "Staircase": (m.Staircase(epsilon=1, sensitivity=1), 3.0),
}
rates = {}
for name, (mechanism, value) in candidates.items():
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(20000):
            mechanism.randomise(value)
        rates[name] = max(rates.get(name, 0), 20000 / (time.perf_counter() - start))
print(json.dumps(rates))
"""


def rate(job: Callable[[], object], count: int, repeat: int) -> float:
    """Labels per second, the best of `repeat` runs after one to warm up."""
    job()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return count / min(times)


def numpy_job(mechanism: RROnBins, labels: np.ndarray) -> Callable[[], object]:
    """The same distribution from floats and a predictable generator: fast, and no protection."""
    generator = np.random.default_rng(0)
    thresholds, outputs = mechanism.encoder.thresholds, mechanism.outputs
    keep = float(mechanism.table.probabilities()[0, 0])

    def job() -> np.ndarray:
        bins = np.searchsorted(thresholds, labels)
        others = generator.integers(0, outputs.size - 1, labels.size)
        others += others >= bins
        return outputs[np.where(generator.random(labels.size) < keep, bins, others)]

    return job


def opendp_rate(repeat: int) -> float:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    values = list(range(100_000))
    rates = []
    for scale in (1.0, float(UPPER)):
        noise = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
        rates.append(rate(lambda noise=noise: noise(values), len(values), repeat))
    return max(rates)


def diffprivlib_rates(python: str | None) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        if python is None:
            venv.create(folder, with_pip=True)
            python = str(Path(folder) / "bin" / "python")
            wanted = ["diffprivlib==0.6.6", "scikit-learn<1.7"]
            subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True, capture_output=True)
        done = subprocess.run([python, "-c", DIFFPRIVLIB], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--diffprivlib", help="a Python in which diffprivlib imports")
    options = parser.parse_args()
    count, repeat = options.labels, options.repeat

    generator = np.random.default_rng(1)
    labels = generator.uniform(0, UPPER, count)
    ids = generator.permutation(count)
    mechanism = RROnBins(OUTPUTS, EPSILON)
    keyed = KeyedRandomness.generate()

    def report(name: str, figure: float, note: str = "") -> None:
        print(f"{name:<46}{figure:>16,.0f} labels/s  {note}", flush=True)

    ours = rate(lambda: mechanism.randomize(labels, randomness=OsEntropy()), count, repeat)
    report("labeldp, OS entropy", ours)
    report("labeldp, keyed, integer ids", rate(lambda: mechanism.randomize(labels, ids, keyed), count, repeat))
    few = count // 10
    texts = [f"customer-{number:012d}" for number in ids[:few]]
    import pyarrow as pa

    column = pa.array(texts)
    report("labeldp, keyed, text ids", rate(lambda: mechanism.randomize(labels[:few], column, keyed), few, repeat))
    plain = rate(numpy_job(mechanism, labels), count, repeat)
    report("numpy.random, insecure", plain, f"labeldp takes {plain / ours:.2f} × its time (target: at most 3)")
    other = opendp_rate(repeat)
    report("OpenDP, vector of integer Laplace", other, f"labeldp is {ours / other:,.0f} × as fast (target: 50)")
    try:
        rates = diffprivlib_rates(options.diffprivlib)
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"diffprivlib: skipped, no environment for it ({error})", file=sys.stderr)
        return
    fastest = max(rates, key=lambda name: rates[name])
    ratio = ours / rates[fastest]
    report(f"diffprivlib, {fastest}", rates[fastest], f"labeldp is {ratio:,.0f} × as fast (target: 50)")


if __name__ == "__main__":
    main()
