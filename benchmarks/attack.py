"""A leave-one-label attack on every mechanism: how often does the best attacker name the right one of two labels?

    python benchmarks/attack.py [--trials 20000] [--records 1000000] [--epsilon 0.5 1 2] [--mechanism NAME …]
        [--path fresh keyed message] [--jobs 2] [--json]

The attacker knows everything but one label: the other labels, the features, and that the label is y₀ or y₁, the two that the
mechanism tells apart best. They see the whole message: the codes, the mechanism, and the noisy histogram behind its prior. (The
ledger's public part, which is an id, ε, times and the mechanism's digest, adds nothing: the digest follows from the message.) The
best test is the likelihood ratio, by Neyman and Pearson: that of the two noisy counts in which the data sets differ, times that of
the code. Given the mechanism, the other records' codes do not depend on the label. The attacker says y₁ where the ratio is above
1, and tosses a coin where it is 1. Their advantage, P[says y₁ | y₁] − P[says y₁ | y₀], is at most (e^ε − 1)/(e^ε + 1) under ε-DP.
Where there is a histogram, two weaker attackers are held to the share of ε that they look at: one sees the counts alone, the
other the codes that one given mechanism draws for many records.

Each trial is a real release. Where the mechanism needs a prior, a trial is a call of `LabelRandomizer.randomize` on all
records: it draws the histogram's noise, designs the mechanism and draws every code; one record is the target. Where it needs
none, the mechanism is the same in all releases and records are drawn independently, so each record of one large release is a
trial; so it is for codes under one given mechanism.
`fresh` draws from the operating system, `keyed` under a new key for each release, and `message` runs `privatize` on a file and
reads the message back.

Intervals are Clopper–Pearson's. They hold for all rows together with a confidence of 99.9 %. A row is a violation if the
interval of one of its attackers lies above that attacker's bound. The controls are broken on purpose and must be caught: one spends twice the ε that it claims,
one publishes its histogram without noise. The exit code is 1 after a violation, or if a control was not caught.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import track
from scipy.stats import beta

from labeldp import Domain, LabelRandomizer, LabelSource, Message, privatize
from labeldp.mechanisms import FiniteMechanism
from labeldp.mechanisms.registry import MECHANISMS
from labeldp.priors import BudgetWarning
from labeldp.sampling import KeyedRandomness

DOMAIN = Domain.integers(0, 2)
OTHERS = np.array([0.0] * 9 + [1.0] * 2 + [2.0] * 8)
"""The other labels, which the attacker knows. So few records pay the most for their prior."""
PILOT = 20
"""Releases from which the attacker learns which two labels are told apart best, before the trials."""
TOGETHER = 0.999
TIE = 1e-9
"""Log ratios below this are rounding."""
Pair = tuple[float, float]
PATHS = ("fresh", "keyed", "message")
EPSILONS = (0.5, 1.0, 2.0)
TWICE, EXACT = "control: twice the ε", "control: no noise on counts"


@dataclass(frozen=True)
class Cell:
    """One row of the table: what is attacked."""

    mechanism: str
    epsilon: float
    path: str = "fresh"
    control: str | None = None

    @property
    def randomizer(self) -> LabelRandomizer:
        spent = 2 * self.epsilon if self.control == TWICE else self.epsilon
        return LabelRandomizer(spent, DOMAIN, mechanism=self.mechanism)

    @property
    def shares(self) -> dict[str, float]:
        """The ε that each attacker is held to, by what they look at."""
        claimed = LabelRandomizer(self.epsilon, DOMAIN, mechanism=self.mechanism)
        split = claimed.plan(OTHERS.size + 1).split
        if split is None:
            return {"message": self.epsilon}
        parts = {"counts": float(split.epsilon_prior), "code": float(split.epsilon_labels)}
        return {"message": self.epsilon, **parts}


@dataclass(frozen=True)
class Advantage:
    """How much better than guessing one attacker was, with an interval, and the most that ε-DP allows."""

    measured: float
    lower: float
    upper: float
    bound: float


@dataclass(frozen=True)
class Result:
    """What the attackers reached.

    `expected` is the advantage that follows from the ratios themselves, without the codes that were drawn: the mean total
    variation between both cases, given what the histogram told. Without a histogram it is exact.
    """

    cell: Cell
    pair: Pair
    trials: int
    advantages: dict[str, Advantage]
    expected: float

    @property
    def violation(self) -> bool:
        return any(one.lower > one.bound for one in self.advantages.values())

    @property
    def verdict(self) -> str:
        if self.cell.control is not None:
            return "caught" if self.violation else "NOT CAUGHT"
        return "VIOLATION" if self.violation else "ok"

    @property
    def fine(self) -> bool:
        return self.violation == (self.cell.control is not None)


def main() -> int:
    exact = [entry.name for entry in MECHANISMS if entry.exact]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20_000, help="releases for each row, where a prior is needed")
    parser.add_argument(
        "--records", type=int, default=1_000_000, help="records for each row that is drawn by one mechanism"
    )
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--mechanism", nargs="+", choices=exact, default=exact)
    parser.add_argument("--path", nargs="+", choices=PATHS, default=PATHS[:2])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    cells = [Cell(name, e, path) for name in arguments.mechanism for e in arguments.epsilon for path in arguments.path]
    cells += [Cell("randomized-response", epsilon, control=TWICE) for epsilon in arguments.epsilon]
    cells += [Cell("rr-on-bins", epsilon, control=EXACT) for epsilon in arguments.epsilon]
    misses = (1 - TOGETHER) / len(cells)
    work = Parallel(arguments.jobs, return_as="generator")(
        delayed(attack)(cell, arguments.trials, arguments.records, misses) for cell in cells
    )
    results = list(track(work, "attacks", len(cells), console=Console(stderr=True)))
    records = [asdict(result) | {"verdict": result.verdict} for result in results]
    print(json.dumps(records, indent=1) if arguments.json else table(results))
    return 0 if all(result.fine for result in results) else 1


def attack(cell: Cell, trials: int, records: int, misses: float, seed: int = 0) -> Result:
    """Attack with all attackers. Half of the trials have either label. All intervals hold but with probability `misses`."""
    with quiet(), broken(cell):
        pair, mechanism = pilot(cell)
        labels = np.asarray(pair)[truth(records)]
        if MECHANISMS[cell.mechanism].needs_prior:
            counts, code, variation = many_releases(cell, pair, trials)
            alone = code_ratios(mechanism, pair)[drawn(mechanism, cell, labels)]
            ratios = {"message": counts + code, "counts": counts, "code": alone}
        else:
            mechanism, codes = release(cell, labels)
            ratios, variation = {"message": code_ratios(mechanism, pair)[codes]}, apart(mechanism, pair)
    advantages = {
        attacker: judged(ratios[attacker], epsilon, misses / len(ratios), seed)
        for attacker, epsilon in cell.shares.items()
    }
    return Result(cell, pair, ratios["message"].size, advantages, float(np.mean(variation)))


def truth(trials: int) -> np.ndarray:
    """Which label each trial has: y₀, y₁, y₀, y₁, …"""
    return np.arange(trials) % 2


def judged(ratios: np.ndarray, epsilon: float, misses: float, seed: int) -> Advantage:
    """The advantage of saying y₁ where the log ratio is positive, and tossing a coin where it is zero."""
    coins = np.random.default_rng(seed).integers(0, 2, ratios.size)
    says = np.where(np.abs(ratios) < TIE, coins, ratios > 0)
    (false, low_false, high_false), (true, low_true, high_true) = (
        clopper_pearson(int(says[label::2].sum()), says[label::2].size, misses / 2) for label in (0, 1)
    )
    return Advantage(true - false, low_true - high_false, high_true - low_false, math.tanh(epsilon / 2))


def many_releases(cell: Cell, pair: Pair, trials: int) -> np.ndarray:
    """A release of all records for each trial: log ratios of the counts and of record 0's code, and the total variation."""
    found = np.empty((3, trials))
    for trial, label in enumerate(truth(trials)):
        mechanism, codes = release(cell, np.append(pair[label], OTHERS))
        counted = counts_ratio(mechanism, pair)
        chance = 1 / (1 + math.exp(-counted))
        low, high = mechanism.matrix(pair)
        variation = np.abs(chance * high - (1 - chance) * low).sum()
        found[:, trial] = counted, code_ratios(mechanism, pair)[codes[0]], variation
    return found


def code_ratios(mechanism: FiniteMechanism, pair: Pair) -> np.ndarray:
    """The log ratio P[code | y₁] : P[code | y₀] of each code."""
    low, high = mechanism.matrix(pair)
    ratios: np.ndarray = np.log(high / low)
    return ratios


def apart(mechanism: FiniteMechanism, pair: Pair) -> float:
    """The total variation between the codes of two labels."""
    low, high = mechanism.matrix(pair)
    return float(np.abs(high - low).sum()) / 2


def counts_ratio(mechanism: FiniteMechanism, pair: Pair) -> float:
    """The log ratio P[noisy counts | y₁] : P[noisy counts | y₀]. A count's noise z has mass e^(−|z|/scale), but for a factor."""
    assert mechanism.prior is not None
    noisy = mechanism.prior.counts
    assert noisy is not None, "a message shows its noisy counts"
    others = np.bincount(DOMAIN.cell(OTHERS), minlength=DOMAIN.count)
    target = np.eye(DOMAIN.count)[DOMAIN.cell(pair)]
    distances = np.abs(noisy.values - others - target).sum(axis=1)
    return float(distances[0] - distances[1]) / noisy.scale


def release(cell: Cell, labels: np.ndarray) -> tuple[FiniteMechanism, np.ndarray]:
    """What the attacker sees of one release: the mechanism with its noisy counts, and the codes."""
    if cell.path == "message":
        return through_a_file(cell.randomizer, labels)
    private = cell.randomizer.randomize(labels, *draws(cell, labels.size))
    return private.mechanism, private.codes


def drawn(mechanism: FiniteMechanism, cell: Cell, labels: np.ndarray) -> np.ndarray:
    """The codes that one mechanism gives many records."""
    return mechanism.codes(labels, *draws(cell, labels.size))


def draws(cell: Cell, records: int) -> tuple[np.ndarray | None, KeyedRandomness | None]:
    """Ids and randomness. A message is always drawn under a key."""
    return (None, None) if cell.path == "fresh" else (np.arange(records), KeyedRandomness.generate())


def through_a_file(randomizer: LabelRandomizer, labels: np.ndarray) -> tuple[FiniteMechanism, np.ndarray]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(pa.table({"id": np.arange(labels.size), "y": labels}), folder / "labels.parquet")
        privatize(LabelSource(folder / "labels.parquet", "y", "id"), randomizer, folder / "message")
        message = Message.open(folder / "message")
        records = message.to_arrow().sort_by("id")
        return message.mechanism, np.asarray(records["code"])


def pilot(cell: Cell) -> tuple[Pair, FiniteMechanism]:
    """The two labels whose codes differ most, on average over a few releases, and the release in which they differ most."""
    made = [release(cell, np.append(DOMAIN.lower, OTHERS))[0] for _ in range(PILOT)]
    pairs = [(float(low), float(high)) for low, high in combinations(DOMAIN.grid, 2)]
    pair = max(pairs, key=lambda pair: sum(apart(mechanism, pair) for mechanism in made))
    return pair, max(made, key=lambda mechanism: apart(mechanism, pair))


def clopper_pearson(hits: int, size: int, misses: float) -> tuple[float, float, float]:
    """A share with its interval."""
    low = 0.0 if hits == 0 else float(beta.ppf(misses / 2, hits, size - hits + 1))
    high = 1.0 if hits == size else float(beta.ppf(1 - misses / 2, hits + 1, size - hits))
    return hits / size, low, high


@contextmanager
def quiet() -> Iterator[None]:
    """So few records are too few for a good prior, which is not the question here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        yield


def broken(cell: Cell) -> AbstractContextManager[object]:
    """Take the noise from the histogram, for the control."""
    if cell.control != EXACT:
        return nullcontext()
    return mock.patch("opendp.measurements.make_laplace", return_value=lambda counts: counts)


def table(results: Sequence[Result]) -> str:
    """The results in Markdown. Each advantage stands before its bound."""
    lines = [
        "| mechanism | ε | draws | advantage | 99.9 % interval | expected | bound | counts alone | code alone | |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for one in results:
        cell, whole = one.cell, one.advantages["message"]
        name = cell.mechanism if cell.control is None else f"{cell.mechanism}, {cell.control}"
        parts = [one.advantages.get(part) for part in ("counts", "code")]
        shown = ["" if part is None else f"{part.measured:.3f} of {part.bound:.3f}" for part in parts]
        lines.append(
            f"| {name} | {cell.epsilon:g} | {cell.path} | {whole.measured:.3f} | {whole.lower:.3f} … {whole.upper:.3f} | "
            f"{one.expected:.3f} | {whole.bound:.3f} | {' | '.join(shown)} | {one.verdict} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
