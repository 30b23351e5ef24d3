"""A statistical audit of a whole fit by noisy sums: does any answer tell two sets of labels apart better than its ε allows?

Run: python benchmarks/audit_fit.py [--fits 40000] [--jobs 2] [--planted 0.05]

Two records without any difference in their features have the labels (0, 0) or (1, 1). Two labels differ, so the probabilities of any
event may differ by a factor of e^2ε and no more. The events are the most telling ones: an answer of the fit (the histogram, the coarse
look, the final sums) lies on the side of (0, 0), or all of them do. ε = 1 in all.

What is asked of two such records does not depend on the answers, and what is inferred from them is a function of answers and
features (`tests/learn/test_method.py` shows it). So inference is left out here. All that reads labels runs as it is.

With `--planted 0.05` the scales that OpenDP gets are 5 % too small, and the audit must find it.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from types import SimpleNamespace
from unittest import mock

import numpy as np

from labeldp import Domain
from labeldp.learn.sums import sums_learner as learner
from labeldp.learn.sums.questions import Plan
from labeldp.release import sums_draw
from labeldp.release.sum_queries import SumQueries
from labeldp.sampling import integer_noise

BOUNDS = Domain.integers(0, 1)
TRAINED = learner.SumsLearner(np.zeros((2, 1)))
NAMES = ("histogram", "coarse look", "final sums", "all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=40_000, help="fits for each of the two sets of labels")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--planted", type=float, default=0.0, help="by how much the scale of the noise is too small")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    share = -(-given.fits // given.jobs)
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        tasks = [
            (pool.submit(count, label, share, given.planted), label) for label in (0, 1) for _ in range(given.jobs)
        ]
        hits = {label: sum(task.result() for task, of in tasks if of == label) for label in (0, 1)}
    fits = share * given.jobs
    print(
        f"{fits:,} fits of each, scales {given.planted:.0%} too small ({(time.perf_counter() - started) / 60:.1f} min)"
    )
    print(f"{'answer':>12}{'ε':>8}{'(0, 0)':>10}{'(1, 1)':>10}   log of the ratio, and what is allowed")
    costs = [answer.epsilon_exact for answer in release(0).answers]
    for name, cost, one, other in zip(NAMES, [*costs, sum(costs)], *hits.values(), strict=True):
        ratio = math.log(one / other)
        error = math.sqrt(1 / one + 1 / other - 2 / fits)
        excess = (ratio - 2 * float(cost)) / error
        verdict = "EXCESS" if excess > 3 else "no excess"
        print(
            f"{name:>12}{float(cost):>8.4f}{one:>10,}{other:>10,}   {ratio:.4f} ± {error:.4f}, {2 * float(cost):.4f}: "
            f"{excess:+.1f} standard errors, {verdict}"
        )


def release(label: int) -> SumQueries:
    """The answers of one fit."""
    queries = SumQueries(np.full(2, float(label)), 1, BOUNDS)
    TRAINED.learn(queries)
    return queries


def count(label: int, fits: int, planted: float) -> np.ndarray:
    """How often each event happens."""
    draw, found = integer_noise.add_laplace, np.zeros(len(NAMES), np.int64)

    def noisy(values: np.ndarray, scale: float) -> np.ndarray:
        return draw(values, scale * (1 - planted))

    with (
        mock.patch.object(learner, "before", nothing_known),
        mock.patch.object(learner, "infer", nothing_known),
        mock.patch.object(learner, "plan", one_sum),
        mock.patch.object(learner.SumsLearner, "model"),
        mock.patch.object(integer_noise, "add_laplace", noisy),
        mock.patch.object(sums_draw, "add_laplace", noisy),
    ):
        for _ in range(fits):
            found += tells(release(label))
    return found


def nothing_known(evidence: learner.Evidence, variance: float) -> SimpleNamespace:
    """In place of a posterior."""
    return SimpleNamespace(variances=np.full(len(evidence.blocks), variance))


def one_sum(_: object, __: object, candidates: np.ndarray, *___: object) -> Plan:
    """What is planned for such records: the signed sum of all labels."""
    assert candidates.shape[1] == 1
    return Plan((), candidates, 1.0, 0.0)


def tells(queries: SumQueries) -> list[bool]:
    """Which answers lie on the side of (0, 0), and whether all do."""
    counts, coarse, final = queries.answers
    sides = [counts.values[0] >= 2 and counts.values[1] <= 0, coarse.values[0] <= 0, final.values[0] <= 0]
    return [*sides, all(sides)]


if __name__ == "__main__":
    main()
