"""How fast the best bins are found: a million labels, the growth of one Dinkelbach step, and against Algorithm 2.

    python benchmarks/optimal_bins.py

Everything runs on one core in this process, side by side. Times are processor times, so that a busy machine distorts
nothing; for the million labels the clock's time stands beside it. `optimiser.py` has all losses and other solvers.
"""

from __future__ import annotations

import math
import statistics
import time

import numpy as np

from algorithm_2_compiled import least_loss
from labeldp.design._problem import interval_problem
from labeldp.design.bins import optimal_bins
from labeldp.losses import get_loss
from labeldp.priors import Prior

EPSILONS = (0.5, 3.0)
LOSSES = ("squared", "absolute")


def main() -> None:
    for loss in LOSSES:
        optimal_bins(random_prior(100), 1.0, loss)  # compile, or load what was compiled
    million()
    growth()
    against_algorithm_2()


def million() -> None:
    print("One million distinct labels (target: about 3 s squared, 20 s absolute)")
    prior = random_prior(10**6)
    for loss in LOSSES:
        for epsilon in EPSILONS:
            start = time.perf_counter()
            bins, seconds = timed(lambda loss=loss, epsilon=epsilon: optimal_bins(prior, epsilon, loss))
            clock = time.perf_counter() - start
            print(f"  {loss:<9} ε = {epsilon:<4g} {seconds:6.2f} s ({clock:.2f} s by the clock), {len(bins)} outputs")


def growth() -> None:
    print("One Dinkelbach step, 10⁵ → 10⁶ labels, median of 5 (target: below 15×)")
    for loss in LOSSES:
        for epsilon in EPSILONS:
            times = {k: step_seconds(random_prior(k), epsilon, loss) for k in (10**5, 10**6)}
            small, large = times[10**5], times[10**6]
            print(
                f"  {loss:<9} ε = {epsilon:<4g} {small * 1e3:7.1f} ms → {large * 1e3:7.1f} ms   {large / small:5.1f}×"
            )


def against_algorithm_2() -> None:
    k, epsilon = 2000, 1.0
    print(f"Against compiled Algorithm 2 at k = {k:,}, squared loss, ε = {epsilon:g} (target: at least 100× faster)")
    prior = random_prior(k)
    least_loss(prior.values[:3], prior.masses[:3], epsilon, "squared")  # compile
    slow_loss, slow = timed(lambda: least_loss(prior.values, prior.masses, epsilon, "squared"))
    runs = [timed(lambda: optimal_bins(prior, epsilon)) for _ in range(5)]
    fast_loss, fast = runs[0][0].expected_loss, statistics.median(seconds for _, seconds in runs)
    print(
        f"  Algorithm 2 {slow:.2f} s, loss {slow_loss:.12g};  optimal_bins {fast * 1e3:.2f} ms, loss {fast_loss:.12g}"
    )
    print(f"  {slow / fast:.0f}× faster")


def random_prior(k: int) -> Prior:
    rng = np.random.default_rng(k)
    return Prior(np.sort(rng.lognormal(3.0, 1.0, size=k)), rng.random(k))


def step_seconds(prior: Prior, epsilon: float, loss: str) -> float:
    structure = get_loss(loss).structure
    assert structure is not None
    problem = interval_problem(prior.values, prior.masses, math.expm1(epsilon), structure)
    price = problem.cost(problem.first_path) / math.exp(epsilon)
    return statistics.median(timed(lambda: problem.best_path(price))[1] for _ in range(5))


def timed(job):
    start = time.process_time()
    result = job()
    return result, time.process_time() - start


if __name__ == "__main__":
    main()
