"""Part 4 of `make bench`: what a private label and a model lose under every mechanism of the catalogue, at equal ε.

    python benchmarks/labels.py [--quick] [--json FILE] [--plot FILE]

Six distributions of labels, ε from 0.25 to 8, squared and absolute loss. Every figure is an expectation that is computed from
the probabilities, and nothing is sampled. Each mechanism is designed for the distribution and the loss, if it can be. All get the
whole ε: the distribution is taken as public.

- label error: the expected loss of a private label;
- model error: the squared test error that the rule of `auto` expects of a model trained on the mechanism's training values, for
  100,000 records and features that explain 0.7 of the label.

RPWithPrior (Liu and Huang 2026) is here several times. As the catalogue has it, its interval follows its paper's rule and its
half-width, which the paper leaves to the user, has the least label error. "Least loss" is `RPWithPrior.optimal`, where the interval
has it, too. "Tuned" follows the paper's rule with the half-width of least model error, the best of 16. By the theorem of the
paper that labeldp implements, no mechanism has a lower label error than RR-on-Bins. The last lines say where RPWithPrior is
better than RR-on-Bins or `auto`, and where not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.part import finish, parser, say
from bench.results import Column, Contest, Result, Table
from bench.standing import LEVEL
from labeldp import Domain, Prior, compare
from labeldp.evaluate.comparison import RECORDS
from labeldp.mechanisms import MECHANISMS, RPWithPrior
from labeldp.mechanisms.prediction import ModelErrors
from labeldp.paper.data import census_prior, criteo_prior

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
LABELS_SQUARED, LABELS_ABSOLUTE, MODEL = "label error, squared", "label error, absolute", "model error"
MEASURES = {LABELS_SQUARED: "squared", LABELS_ABSOLUTE: "absolute", MODEL: "squared"}
PAPER, BEST, TUNED = "rp-with-prior", "rp-with-prior, least loss", "rp-with-prior, tuned"
BINS, AUTO = "rr-on-bins", "auto"
TITLES = {entry.name: entry.title for entry in MECHANISMS} | {
    BEST: "RPWithPrior, least loss",
    TUNED: "RPWithPrior, tuned",
}
VARIANTS = {LABELS_SQUARED: (PAPER, BEST), LABELS_ABSOLUTE: (PAPER, BEST), MODEL: (PAPER, BEST, TUNED)}
HALF_WIDTHS = 16
NOT_PRIVATE, MEAN_ONLY = "not-private", "mean-only"
QUICK = {"epsilons": (1.0, 4.0), "priors": ("uniform", "census weeks")}


def main() -> int:
    options = parser(__doc__).parse_args()
    kept: list[Result] = []

    def measured() -> Result:
        kept.append(measure(quick=options.quick))
        return kept[0]

    code = finish(options, measured, draw)
    print("\n" + "\n".join(kept[0].notes))
    return code


def measure(*, quick: bool = False) -> Result:
    """Every mechanism on every distribution."""
    command = "python benchmarks/labels.py" + (" --quick" if quick else "")
    result = Result("labels", "Labels: what they and models lose under every mechanism", command, quick=quick)
    epsilons = QUICK["epsilons"] if quick else EPSILONS
    names = QUICK["priors"] if quick else tuple(PRIORS)
    figures: list[Figure] = []
    for name in names:
        found = list(figures_of(name, PRIORS[name](), epsilons))
        figures += found
        say(f"labels: {name}, {len(found)} figures")
    book = {(f.measure, f.prior, f.epsilon, f.mechanism): f.value for f in figures}
    tabulate(result, book, names, epsilons)
    result.plot = {"figures": [asdict(figure) for figure in figures]}
    return result


@dataclass(frozen=True)
class Figure:
    """One expectation."""

    measure: str
    prior: str
    epsilon: float
    mechanism: str
    value: float


def figures_of(name: str, prior: Prior, epsilons: tuple[float, ...]) -> Iterable[Figure]:
    """All measures of all mechanisms on one distribution."""
    models = ModelErrors(prior)
    for measure_name in (LABELS_SQUARED, LABELS_ABSOLUTE):
        loss = MEASURES[measure_name]
        for row in compare(prior, epsilons, loss):
            yield Figure(measure_name, name, row.epsilon, row.mechanism, row.expected_loss)
            if row.model_error is not None:
                yield Figure(MODEL, name, row.epsilon, row.mechanism, row.model_error)
        for epsilon in epsilons:
            best = RPWithPrior.optimal(prior, epsilon, loss)
            yield Figure(measure_name, name, epsilon, BEST, best.expected_loss(prior, loss))
            if loss == "squared":
                yield Figure(MODEL, name, epsilon, BEST, models.of(best, RECORDS).mse)
                yield Figure(MODEL, name, epsilon, TUNED, tuned_error(prior, epsilon, models))


def tuned_error(prior: Prior, epsilon: float, models: ModelErrors) -> float:
    """The least model error of the paper's rule over half-widths from half a cell to half of the range."""
    widest = float(prior.values[-1] - prior.values[0]) / 2
    narrowest = float(np.diff(prior.values).min()) / 2
    widths = np.geomspace(narrowest, widest, HALF_WIDTHS)
    return min(models.of(RPWithPrior(prior, epsilon, half_width=width), RECORDS).mse for width in widths)


def uniform() -> Prior:
    return Prior(np.arange(401.0), np.ones(401))


def log_normal() -> Prior:
    """Median 60, σ = 0.8, what is above 400 at 400."""
    return from_cells(Domain.integers(0, 400), np.exp(math.log(60) + 0.8 * normal_scores()))


def bimodal() -> Prior:
    """Half around 80 and half around 300, with standard deviations of 25 and 40."""
    scores = normal_scores()
    return from_cells(Domain.integers(0, 400), np.concatenate([80 + 25 * scores, 300 + 40 * scores]))


def zeros_and_counts() -> Prior:
    """Counts from 0 to 60: zero for 60 %, Poisson with a mean that is exponential around 8 for the others."""
    counts = np.arange(61.0)
    tail = (8 / 9) ** counts / 9  # a Poisson number with an exponential mean of 8 is geometric
    tail[-1] += 1 - tail.sum()
    masses = 0.4 * tail
    masses[0] += 0.6
    return Prior(counts, masses)


def normal_scores(size: int = 100_000) -> np.ndarray:
    """Even quantiles of the normal distribution."""
    from scipy.stats import norm

    return norm.ppf((np.arange(size) + 0.5) / size)


def from_cells(domain: Domain, labels: np.ndarray) -> Prior:
    """The distribution of clipped labels on a grid."""
    return Prior(domain.grid, np.bincount(domain.cell(labels), minlength=domain.count))


PRIORS: dict[str, Callable[[], Prior]] = {
    "uniform": uniform,
    "log-normal": log_normal,
    "Criteo, calibrated": criteo_prior,
    "bimodal": bimodal,
    "census weeks": census_prior,
    "zeros and counts": zeros_and_counts,
}

Book = dict[tuple[str, str, float, str], float]


def tabulate(result: Result, book: Book, names: tuple[str, ...], epsilons: tuple[float, ...]) -> None:
    """Ratios by distribution and ε, all mechanisms at ε = 1, the contests, and what follows from them in words."""
    for measure_name, mine, rival, words in (
        (LABELS_SQUARED, PAPER, BINS, "Squared label error of RPWithPrior over that of RR-on-Bins, the optimum."),
        (LABELS_SQUARED, BEST, BINS, "The same with the interval and half-width of least loss."),
        (LABELS_ABSOLUTE, PAPER, BINS, "Absolute label error of RPWithPrior over that of RR-on-Bins, the optimum."),
        (LABELS_ABSOLUTE, BEST, BINS, "The same with the interval and half-width of least loss."),
        (MODEL, PAPER, BINS, "Model error with RPWithPrior over that with RR-on-Bins, both debiased."),
        (MODEL, TUNED, BINS, "The same with the half-width of least model error."),
        (MODEL, PAPER, AUTO, "Model error with RPWithPrior over that with auto."),
        (MODEL, TUNED, AUTO, "The same with the half-width of least model error."),
    ):
        columns = [Column("prior", "labels"), *(Column(f"{e:g}", f"ε = {e:g}", ".3f") for e in epsilons)]
        table = Table(f"{measure_name}: {mine} over {rival}", words, columns)
        for name in names:
            table.add(prior=name, **{f"{e:g}": ratio(book, measure_name, name, e, mine, rival) for e in epsilons})
        result.tables.append(table)
    shown = 1.0
    for measure_name, base, words in (
        (LABELS_SQUARED, BINS, "Squared label error at ε = 1, over that of RR-on-Bins."),
        (LABELS_ABSOLUTE, BINS, "Absolute label error at ε = 1, over that of RR-on-Bins."),
        (MODEL, NOT_PRIVATE, "Model error at ε = 1, over that without privacy."),
    ):
        columns = [Column("mechanism", "mechanism"), *(Column(name, name, ",.3f") for name in names)]
        table = Table(f"{measure_name} at 1", words, columns)
        mechanisms = [one for one in (*TITLES, MEAN_ONLY) if (measure_name, names[0], shown, one) in book]
        average = {
            m: np.mean([math.log(ratio(book, measure_name, n, shown, m, base)) for n in names]) for m in mechanisms
        }
        for one in sorted(mechanisms, key=average.__getitem__):
            ratios = {name: ratio(book, measure_name, name, shown, one, base) for name in names}
            table.add(mechanism=TITLES.get(one, "the mean for all"), **ratios)
        result.tables.append(table)
    for measure_name in MEASURES:
        ours = (BINS,) if measure_name != MODEL else (BINS, AUTO)
        for name in names:
            for epsilon in epsilons:
                key = f"{measure_name}, {name}, ε = {epsilon:g}"
                figures = {one: book[measure_name, name, epsilon, one] for one in (*ours, *VARIANTS[measure_name])}
                result.contests.append(
                    Contest(
                        key,
                        "low",
                        {TITLES[one]: figures[one] for one in ours},
                        {TITLES[one]: figures[one] for one in VARIANTS[measure_name]},
                        "expected error",
                    )
                )
    for measure_name in MEASURES:
        for mine in VARIANTS[measure_name]:
            for rival in (BINS, AUTO):
                result.notes.append(verdict(book, measure_name, names, epsilons, mine, rival))
    result.notes.append(
        "Labels of auto are made for training and are far from the true ones: their label error is no fault. Auto is designed for the "
        "least model error of all ε-DP mechanisms by this very rule, so its lead in model error is by construction. The benchmarks "
        "that train models test the rule."
    )


def ratio(book: Book, measure_name: str, name: str, epsilon: float, mine: str, rival: str) -> float:
    return book[measure_name, name, epsilon, mine] / book[measure_name, name, epsilon, rival]


def verdict(
    book: Book, measure_name: str, names: tuple[str, ...], epsilons: tuple[float, ...], mine: str, rival: str
) -> str:
    """One sentence: where it is better by more than 1 %, where it is level, and where it is worse."""
    found = {(n, e): ratio(book, measure_name, n, e, mine, rival) for n in names for e in epsilons}
    better = {cell: each for cell, each in found.items() if each < 1 / LEVEL}
    worse = {cell: each for cell, each in found.items() if each > LEVEL}
    level = len(found) - len(better) - len(worse)
    parts = []
    if better:
        places = "; ".join(
            f"{name} at ε = {', '.join(f'{e:g}' for n, e in better if n == name)}"
            for name in names
            if any(n == name for n, _ in better)
        )
        where = "" if len(better) == len(found) else f": {places}"
        parts.append(
            f"better in {len(better)} of {len(found)} cases, at best {min(better.values()):.3f} times the error{where}"
        )
    else:
        parts.append("never better by more than 1 %")
    if level:
        parts.append(f"level in {level}")
    if worse:
        low, high = f"{min(worse.values()):.2f}", f"{max(worse.values()):.2f}"
        parts.append(
            f"worse in {len(worse)}, by {f'a factor of {low}' if low == high else f'factors of {low} to {high}'}"
        )
    return f"{measure_name[0].upper()}{measure_name[1:]}: {TITLES[mine]} beside {TITLES[rival]} is {'; '.join(parts)}."


def draw(result: Result, path: Path) -> None:
    """How far RPWithPrior's label error lies above the optimum, by distribution."""
    from labeldp import plots

    book = {
        (figure["prior"], figure["epsilon"], figure["mechanism"]): figure["value"]
        for figure in result.plot["figures"]
        if figure["measure"] == LABELS_SQUARED
    }
    priors = dict.fromkeys(prior for prior, _, _ in book)
    epsilons = list(dict.fromkeys(epsilon for _, epsilon, _ in book))
    lines = {prior: [book[prior, e, PAPER] / book[prior, e, BINS] for e in epsilons] for prior in priors}
    title = "RPWithPrior: squared error of a label"
    axes = plots.curves(epsilons, lines, ylabel="times that of RR-on-Bins", title=title)
    plots.save(axes, path, alt=plots.in_words(axes))


if __name__ == "__main__":
    raise SystemExit(main())
