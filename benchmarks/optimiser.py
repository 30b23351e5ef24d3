"""Part 1 of `make bench`: how fast the best bins are found, beside three other ways to the same optimum.

    python benchmarks/optimiser.py [--quick] [--json FILE] [--plot FILE]

- labeldp: `optimal_bins`, O(k log k), exact sums;
- Algorithm 2, compiled: the paper's recurrence, O(k³) (`algorithm_2_compiled.py`);
- plain Python: `labeldp.paper.optimality` with floats, cubic too;
- HiGHS: the linear program over the k labels as outputs, by SciPy. Outputs between labels are not among its choices.

All run on one core in this process, turn by turn. Times are processor times, so that a busy machine distorts little. Every solver goes up to
its own largest size. Each optimum is compared with ours. Growth exponents are slopes of
log time against log k over the largest sizes, with 95 % intervals.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import algorithm_2_compiled
from bench.growth import fit
from bench.part import finish, parser, say
from bench.results import Column, Contest, Result, Table, Target
from bench.timing import alternately
from labeldp.design.bins import optimal_bins
from labeldp.losses import LOSSES as ALL_LOSSES
from labeldp.losses import get_loss
from labeldp.paper.optimality import algorithm_2, best_matrix, minimiser
from labeldp.priors import Prior

NUMBERS = {"pinball": "pinball(0.9)", "huber": "huber(20)"}
"""The numbers of losses that take one, for amounts up to 400."""
LOSSES = tuple(NUMBERS.get(entry.name, entry.example) for entry in ALL_LOSSES)
EPSILONS = (0.5, 1.0, 3.0, 8.0)
SIZES = (10, 30, 60, 100, 300, 1000, 2000, 10**4, 10**5, 10**6)
OURS, CUBIC, PLAIN, PROGRAM = "labeldp", "Algorithm 2, compiled", "plain Python, cubic", "HiGHS, the LP"
LIMITS = {CUBIC: 1000, PLAIN: 100, PROGRAM: 100}
"""The largest k of each, for every loss and ε."""
FAR = {CUBIC: 2000, PLAIN: 300, PROGRAM: 100}
"""The largest k of each, for squared loss and ε = 1."""
FROM = {OURS: 10**4, CUBIC: 100, PLAIN: 30, PROGRAM: 30}
"""The sizes from which exponents are fitted: below them, fixed costs show."""
QUICK_LOSSES, QUICK_EPSILONS, QUICK_SIZES = ("squared", "absolute"), (1.0,), (10, 30, 60, 300, 1000, 10**4, 10**5)


def main() -> int:
    options = parser(__doc__).parse_args()
    return finish(options, lambda: measure(quick=options.quick), draw)


def measure(*, quick: bool = False) -> Result:
    """All solvers on all cases."""
    command = "python benchmarks/optimiser.py" + (" --quick" if quick else "")
    result = Result("optimiser", "Best bins: our optimiser beside other solvers", command, quick=quick)
    losses, epsilons, sizes = LOSSES, EPSILONS, SIZES
    if quick:
        losses, epsilons, sizes = QUICK_LOSSES, QUICK_EPSILONS, QUICK_SIZES
    cases: dict[tuple[str, float], dict[int, dict[str, tuple[float, ...]]]] = {}
    worst: dict[str, float] = {}
    for loss in losses:
        for epsilon in epsilons:
            found = cases.setdefault((loss, epsilon), {})
            for k in sizes:
                limits = FAR if (loss, epsilon) == ("squared", 1.0) and not quick else LIMITS
                found[k], gaps = one_case(loss, epsilon, k, limits)
                worst |= {name: max(worst.get(name, 0.0), gap) for name, gap in gaps.items()}
            say(f"optimiser: {loss}, ε = {epsilon:g}: {median(found[sizes[-1]][OURS]):.2f} s at k = {sizes[-1]:,}")
    tabulate(result, cases, worst, sizes)
    return result


def one_case(
    loss: str, epsilon: float, k: int, limits: dict[str, int]
) -> tuple[dict[str, tuple[float, ...]], dict[str, float]]:
    """Processor seconds of every solver that can do it, and how far its optimum lies from ours (relative)."""
    prior = random_prior(k)
    solvers: dict[str, Callable[[], float]] = {OURS: lambda: optimal_bins(prior, epsilon, loss).expected_loss}
    if k <= limits[CUBIC] and algorithm_2_compiled.supports(loss):
        solvers[CUBIC] = partial(algorithm_2_compiled.least_loss, prior.values, prior.masses, epsilon, loss)
    if k <= limits[PLAIN] and loss in {"squared", "absolute", "pinball(0.9)"}:
        values, masses = prior.values.tolist(), (prior.masses / prior.masses.sum()).tolist()
        minimise = minimiser(get_loss(loss))
        solvers[PLAIN] = lambda: algorithm_2(values, masses, math.exp(epsilon), minimise).expected_loss
    if k <= limits[PROGRAM]:
        solvers[PROGRAM] = lambda: best_matrix(prior, prior.values, epsilon, loss).expected_loss
    optima: dict[str, float] = {}

    def noting(name: str, solver: Callable[[], float]) -> None:
        optima[name] = solver()

    jobs = {name: partial(noting, name, solver) for name, solver in solvers.items()}
    rounds = 5 if k <= 30 else 3 if k <= 10**5 else 1
    times = alternately(jobs, rounds, clock=time.process_time, warm=k <= 10**4, at_least=0.01)
    gaps = {name: abs(optima[name] / optima[OURS] - 1) for name in optima if name in {CUBIC, PLAIN}}
    if PROGRAM in optima and optima[PROGRAM] < optima[OURS] * (1 - 1e-6):
        raise AssertionError(f"the linear program found a better mechanism: {loss}, ε = {epsilon:g}, k = {k}")
    return {name: each.seconds for name, each in times.items()}, gaps


def random_prior(k: int) -> Prior:
    """Log-normal labels with uneven masses."""
    rng = np.random.default_rng(k)
    return Prior(np.sort(rng.lognormal(3.0, 1.0, size=k)), rng.random(k))


def tabulate(result: Result, cases: dict, worst: dict[str, float], sizes: tuple[int, ...]) -> None:
    """The tables, contests and targets of a run."""
    others = (CUBIC, PLAIN, PROGRAM)
    sized = Table(
        "sizes",
        "Squared loss, ε = 1: our processor time, and how many times as long the others take.",
        [Column("k", "labels k", ",d"), Column("ours", "labeldp, ms", ",.2f"), *(Column(o, o, ",.2f") for o in others)],
    )
    for k, found in cases["squared", 1.0].items():
        ours = median(found[OURS])
        ratios = {name: median(found[name]) / ours for name in others if name in found}
        sized.add(k=k, ours=ours * 1e3, **ratios)
    growths = Table(
        "growth",
        "Growth exponents b of time ≈ a·k^b, with 95 % intervals, over the larger sizes: the least and the largest over losses and ε.",
        [
            Column("solver", "solver"),
            Column("range", "sizes k"),
            Column("least", "least"),
            Column("largest", "largest"),
        ],
    )
    for name in (OURS, *others):
        fits = [growth for found in cases.values() if (growth := exponent(found, name)) is not None]
        if fits:
            low, high = min(fits, key=lambda g: g.exponent), max(fits, key=lambda g: g.exponent)
            reach = f"{low.smallest:,} to {max(low.largest, high.largest):,}"
            growths.add(solver=name, range=reach, least=str(low), largest=str(high))
    largest = sizes[-1]
    epsilons = sorted({epsilon for _, epsilon in cases})
    losses = Table(
        "losses",
        f"Our seconds for k = {largest:,} labels, by loss and ε, and the fitted exponent at the first ε.",
        [
            Column("loss", "loss"),
            *(Column(f"{e:g}", f"ε = {e:g}", ".2f") for e in epsilons),
            Column("growth", "exponent (95 %)"),
        ],
    )
    for loss in dict.fromkeys(loss for loss, _ in cases):
        growth = exponent(cases[loss, epsilons[0]], OURS)
        seconds = {f"{e:g}": median(cases[loss, e][largest][OURS]) for e in epsilons}
        losses.add(loss=loss, growth=str(growth), **seconds)
    result.tables += [sized, growths, losses]
    for (loss, epsilon), found in cases.items():
        for k, times in found.items():
            peers = {name: median(times[name]) for name in others if name in times}
            if peers:
                key = f"{loss}, ε = {epsilon:g}, k = {k}"
                result.contests.append(Contest(key, "low", {OURS: median(times[OURS])}, peers, "processor seconds"))
    notes = ", ".join(f"{name} {gap:.1g}" for name, gap in worst.items())
    result.notes.append(f"Largest relative difference from our optimum: {notes}. HiGHS never found a better mechanism.")
    if not result.quick:
        slowest = {loss: max(row[f"{e:g}"] for e in epsilons) for row in losses.rows for loss in [row["loss"]]}
        result.targets.append(Target("a million labels, squared loss", 3, slowest["squared"], " s"))
        result.targets.append(Target("a million labels, absolute loss", 20, slowest["absolute"], " s"))
        cubic = next(row[CUBIC] for row in sized.rows if row["k"] == 2000)
        result.targets.append(Target("compiled Algorithm 2 at 2,000 labels over ours", 100, cubic, "×", "high"))
    result.plot = {
        name: [[k, median(times[name])] for k, times in cases["squared", 1.0].items() if name in times]
        for name in (OURS, *others)
    }


def exponent(found: dict[int, dict[str, tuple[float, ...]]], name: str):
    """The fitted growth of one solver in one case, over its larger sizes."""
    points = [(k, second) for k, times in found.items() if k >= FROM[name] for second in times.get(name, ())]
    if len(points) < 3 or len({k for k, _ in points}) < 2:
        return None
    return fit(*zip(*points, strict=True))


def median(seconds: tuple[float, ...]) -> float:
    """The middle of the rounds."""
    return float(np.median(seconds))


def draw(result: Result, path: Path) -> None:
    """Time against k, all solvers."""
    from bench.pictures import lines

    lines(
        {name: points for name, points in result.plot.items() if points},
        path,
        title="Time to find the best bins",
        xlabel="labels k (log scale)",
        ylabel="processor seconds",
    )


if __name__ == "__main__":
    raise SystemExit(main())
