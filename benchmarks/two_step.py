"""How fast the two-step randomizer approaches the optimum: the paper proves an excess loss of O(B·√(k/n)).

Run: python benchmarks/two_step.py [--epsilon 1] [--draws 20]

Labels are drawn from the calibrated Criteo prior (k = 401 values); each draw of n labels gives a private prior of
ε₁ = √(k/n) and the mechanism designed for it with ε₂ = ε − ε₁, judged under the true prior without sampling.
"""

from __future__ import annotations

import argparse
import math
import warnings

import numpy as np

from labeldp import Domain
from labeldp.mechanisms import RROnBins
from labeldp.paper.data import criteo_prior
from labeldp.priors import BudgetWarning, prior_from_counts, split_budget


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--draws", type=int, default=20)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", BudgetWarning)
    truth = criteo_prior()
    domain = Domain(0, 400, 401)
    best = RROnBins.optimal(truth, arguments.epsilon).expected_loss(truth)
    generator = np.random.default_rng(0)
    bound = 400.0**2
    print(f"epsilon = {arguments.epsilon:g}, optimum {best:,.2f}, B = {bound:,.0f}, {arguments.draws} draws each")
    print(f"{'n':>12} {'epsilon_1':>10} {'excess':>12} {'excess / (B·sqrt(k/n))':>24} {'slope':>8}")
    before: tuple[int, float] | None = None
    for exponent in (3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7):
        n = round(10**exponent)
        if n * arguments.epsilon**2 < 401:
            continue
        split = split_budget(arguments.epsilon, 401, n)
        losses = [
            RROnBins.optimal(
                prior_from_counts(generator.multinomial(n, truth.masses), domain, split.scale), split.epsilon_labels
            ).expected_loss(truth)
            for _ in range(arguments.draws)
        ]
        excess = float(np.mean(losses)) - best
        slope = "" if before is None else f"{math.log(excess / before[1]) / math.log(n / before[0]):8.2f}"
        print(
            f"{n:>12,} {float(split.epsilon_prior):>10.4f} {excess:>12.2f} {excess / (bound * math.sqrt(401 / n)):>24.5f} {slope:>8}"
        )
        before = (n, excess)
    print("the proven rate is a slope of -0.5; steeper is better")


if __name__ == "__main__":
    main()
