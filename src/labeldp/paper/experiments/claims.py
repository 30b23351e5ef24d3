"""Claims of the paper about its figures, each checked against ours."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from labeldp.paper.experiments.methods import NOT_PRIVATE, get_method
from labeldp.paper.experiments.summary import Figures, epsilon_text
from labeldp.paper.experiments.tasks import INFINITY, Published, Task

BINS = "rr-on-bins"


@dataclass(frozen=True)
class Claim:
    """A statement, whether it holds for our figures, and the figures that decide it."""

    text: str
    holds: bool
    detail: str


def mechanism_claims(task: Task, exact: Figures, stand_in: Figures, *, calibrated: bool) -> Iterator[Claim]:
    """Claims about the error of the private labels. Calibrated labels must also give the published figures."""
    if calibrated:
        yield from _agrees(exact, task.published, "mechanism", tuple({m for _, m, _ in task.published}), 0.001)
    yield from _lowest(exact, task.baselines, "private labels")
    if {("continuous-exponential", 4.0), ("laplace-unclipped", 4.0)} <= exact.keys():
        yield from _clipping(exact)
    yield from _lowest(stand_in, task.baselines, "private labels of the stand-in")


def trained_claims(task: Task, tested: Figures, *, near_published: bool) -> Iterator[Claim]:
    """Claims about the trained models. `near_published`: the data should give errors near the published ones."""
    yield from _lowest(tested, task.baselines, "models", up_to=4.0 if task.name == "census" else INFINITY)
    if near_published:
        yield from _agrees(tested, task.published, "test", (NOT_PRIVATE,), 0.10)
        yield from _agrees(tested, task.published, "test", (BINS,), 0.15)


def _agrees(
    figures: Figures, published: Published, column: str, methods: Sequence[str], within: float
) -> Iterator[Claim]:
    """Each measured figure is within a share of the published one. No claim if none was published or measured."""
    gaps = {}
    for (method, epsilon), measured in figures.items():
        mean = published.get((column, BINS if method == NOT_PRIVATE else method, epsilon), (0.0, None))[0]
        if method in methods and mean:
            gaps[method, epsilon] = abs(measured.mean / mean - 1)
    if not gaps:
        return
    (method, epsilon), worst = max(gaps.items(), key=lambda item: item[1])
    what = (
        "without privacy" if methods == (NOT_PRIVATE,) else " and ".join(get_method(m).title for m in sorted(methods))
    )
    yield Claim(
        f"{column} error, {what}: each of {len(gaps)} published figures within {within:.1%}",
        worst <= within,
        f"largest difference {worst:.3%}" + ("" if method == NOT_PRIVATE else f" at ε = {epsilon_text(epsilon)}"),
    )


def _lowest(figures: Figures, rivals: Sequence[str], what: str, up_to: float = INFINITY) -> Iterator[Claim]:
    """RR-on-Bins has the lowest error. No claim if RR-on-Bins or all of its rivals were left out."""
    margins: dict[tuple[str, float], float] = {}
    for (method, epsilon), measured in figures.items():
        own = figures.get((BINS, epsilon))
        if method in rivals and own is not None and epsilon <= up_to:
            margins[method, epsilon] = measured.mean / own.mean if own.mean > 0 else measured.mean - own.mean + 1
    limit = "at every ε" if up_to == INFINITY else f"for ε ≤ {up_to:g}"
    text = f"{what}: RR-on-Bins has the lowest error {limit}"
    if not margins:
        return
    (method, epsilon), least = min(margins.items(), key=lambda item: item[1])
    detail = f"closest: {get_method(method).title}, {least:.3f} times as much at ε = {epsilon_text(epsilon)}"
    ties = sorted(f"{get_method(m).title} at ε = {epsilon_text(e)}" for m, e in margins if _tied(figures, m, e))
    if ties:
        detail += f"; less than a standard deviation away, so undecided: {', '.join(ties)}"
    yield Claim(text, least > 1, detail)


def _tied(figures: Figures, method: str, epsilon: float) -> bool:
    """Whether a rival and RR-on-Bins differ by less than a standard deviation."""
    rival, own = figures[method, epsilon], figures[BINS, epsilon]
    return abs(rival.mean - own.mean) < max(rival.sd or 0.0, own.sd or 0.0)


def _clipping(exact: Figures) -> Iterator[Claim]:
    """What the paper says about clipping and the exponential mechanism."""
    budgets = sorted({epsilon for method, epsilon in exact if method == "continuous-exponential"})
    for method in ("laplace", "staircase"):
        gains = [exact[f"{method}-unclipped", e].mean / exact[method, e].mean for e in budgets]
        yield Claim(
            f"clipping helps the {get_method(method).title} mechanism, most at small ε",
            min(gains) > 1 and all(a > b for a, b in pairwise(gains)),
            f"error divided by {gains[0]:,.1f} at ε = {budgets[0]:g}, by {gains[-1]:,.2f} at ε = {budgets[-1]:g}",
        )
    for rival, start in (("laplace", 1.5), ("laplace-unclipped", 4.0)):
        ratios = {e: exact["continuous-exponential", e].mean / exact[rival, e].mean for e in budgets if e >= start}
        least = min(ratios, key=ratios.__getitem__)
        yield Claim(
            f"the exponential mechanism is worse than {get_method(rival).title} from ε = {start:g} on",
            ratios[least] > 1,
            f"at least {ratios[least]:.3f} times as much (ε = {least:g})",
        )
