"""A statistical audit of a whole fit: does any step tell two sets of labels apart better than its ε allows?

Run: python benchmarks/audit_fit.py [--fits 40000] [--jobs 2] [--planted 0.05] [--both]

Two records without any difference in their features have the labels (0, 0) or (1, 1). Two labels differ, so the probabilities of any
event may differ by a factor of e^2ε and no more. The events are the most telling ones: an answer of the fit (the histogram, the coarse
look, the sums of the middle and of the end) lies on the side of (0, 0), or all of them do. ε = 1 in all. With `--both`, a fifth of ε
is for these sums. The rest is for residuals, labels minus a prediction of 0.5: a private histogram, and the randomized residuals.

What is asked of two such records does not depend on the answers, and what is inferred from them is a function of answers and
features (`tests/learn/test_method.py` shows it). So inference is left out here. All that reads labels runs as it is.

With `--planted 0.05` the scales that OpenDP gets are 5 % too small, and the audit must find it.
"""

from __future__ import annotations

import argparse
import math
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from multiprocessing import get_context
from types import SimpleNamespace
from unittest import mock

import numpy as np

from labeldp import Domain, LabelRandomizer
from labeldp.budget import exact_epsilon
from labeldp.learn.regressor import BothFit, Unit
from labeldp.learn.sums import sums_learner as learner
from labeldp.learn.sums.questions import Plan
from labeldp.learn.sums_then_labels import epsilon_for_sums, plan_for_residuals
from labeldp.release import grid_labels
from labeldp.release.sum_queries import SumQueries
from labeldp.sampling import integer_noise

BOUNDS = Domain.integers(0, 1)
TRAINED = learner.SumsLearner(np.zeros((2, 1)))
STEPS = ("histogram", "coarse look", "middle", "end")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=40_000, help="fits for each of the two sets of labels")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--planted", type=float, default=0.0, help="by how much the scale of the noise is too small")
    parser.add_argument("--both", action="store_true", help="sums first, then residuals")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    share = -(-given.fits // given.jobs)
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        tasks = [
            (pool.submit(count, label, share, given.planted, given.both), label)
            for label in (0, 1)
            for _ in range(given.jobs)
        ]
        hits = {label: sum(task.result() for task, of in tasks if of == label) for label in (0, 1)}
    fits = share * given.jobs
    print(
        f"{fits:,} fits of each, scales {given.planted:.0%} too small ({(time.perf_counter() - started) / 60:.1f} min)"
    )
    print(f"{'answer':>12}{'ε':>8}{'(0, 0)':>10}{'(1, 1)':>10}   log of the ratio, and what is allowed")
    costs, names = [answer.epsilon_exact for answer in release(0).answers], list(STEPS)
    if given.both:
        later = exact_epsilon(1) - epsilon_for_sums(exact_epsilon(1), 2)
        costs, names = [(1 - later) * cost for cost in costs] + [later], [*names, "residuals"]
    for name, cost, one, other in zip([*names, "all"], [*costs, sum(costs)], *hits.values(), strict=True):
        ratio = math.log(one / other)
        error = math.sqrt(1 / one + 1 / other - 2 / fits)
        excess = (ratio - 2 * float(cost)) / error
        verdict = "EXCESS" if excess > 3 else "no excess"
        print(
            f"{name:>12}{float(cost):>8.4f}{one:>10,}{other:>10,}   {ratio:.4f} ± {error:.4f}, {2 * float(cost):.4f}: "
            f"{excess:+.1f} standard errors, {verdict}"
        )


def release(label: int, reserved: Fraction = Fraction(0)) -> SumQueries:
    """The answers of one fit."""
    queries = SumQueries(np.full(2, float(label)), 1 - reserved, BOUNDS, reserved=reserved)
    TRAINED.learn(queries)
    return queries


def count(label: int, fits: int, planted: float, both: bool) -> np.ndarray:
    """How often each event happens."""
    draw, found = integer_noise.add_laplace, np.zeros(len(STEPS) + 1 + both, np.int64)
    reserved = exact_epsilon(1) - epsilon_for_sums(exact_epsilon(1), 2) if both else Fraction(0)

    def noisy(values: np.ndarray, scale: float) -> np.ndarray:
        return draw(values, scale * (1 - planted))

    warnings.simplefilter("ignore")  # about few records
    with (
        mock.patch.object(learner, "prior_belief", nothing_known),
        mock.patch.object(learner, "inferred", lambda evidence, found, _: (nothing_known(evidence, 1.0), found)),
        mock.patch.object(learner, "subtract_expected"),
        mock.patch.object(learner, "plan", one_sum),
        mock.patch.object(learner.SumsLearner, "model"),
        mock.patch.object(integer_noise, "add_laplace", noisy),
        mock.patch.object(grid_labels, "add_laplace", noisy),
    ):
        for _ in range(fits):
            queries = release(label, reserved)
            sides = tells(queries)
            if both:
                sides.append(residuals_tell(queries, label))
            found += [*sides, all(sides)]
    return found


def residuals_tell(queries: SumQueries, label: int) -> bool:
    """Whether both randomized residuals lie on the side of (0, 0)."""
    plans = LabelRandomizer(queries.reserved, BOUNDS).plan(2), plan_for_residuals(1.0, queries.reserved, 2)
    fit = BothFit(SimpleNamespace(queries=queries), *plans, None, np.full(2, float(label)), Unit())
    private = fit._randomized(np.full(2, 0.5))  # noqa: SLF001
    return bool((private.mechanism.outputs[private.codes] < 0).all())


def nothing_known(evidence: learner.Evidence, variance: float) -> SimpleNamespace:
    """In place of a posterior."""
    return SimpleNamespace(variances=np.full(len(evidence.blocks), variance))


def one_sum(_: object, __: object, candidates: np.ndarray, *___: object) -> Plan:
    """What is planned for such records: the signed sum of all labels."""
    assert candidates.shape[1] == 1
    return Plan((), candidates, 1.0, 0.0)


def tells(queries: SumQueries) -> list[bool]:
    """Which answers lie on the side of (0, 0)."""
    counts, *sums = queries.answers
    return [counts.values[0] >= 2 and counts.values[1] <= 0, *(answer.values[0] <= 0 for answer in sums)]


if __name__ == "__main__":
    main()
