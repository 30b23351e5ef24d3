"""Private sums of labels that an engine reads, such as a cluster: all exact sums come from one pass."""

from __future__ import annotations

from functools import partial

from labeldp.budget import Epsilon
from labeldp.central.asking import Answering
from labeldp.central.held_labels import MOST_SIGNS, on_grid, require_few, require_room, require_several
from labeldp.central.private_sums import PrivateSums, clip_units
from labeldp.domain import Domain, OutOfRange, check_out_of_range
from labeldp.engines.passes import ExactSums, SumInput
from labeldp.errors import InvalidInput
from labeldp.release.ledger import Ledger


def release_sums(
    source: SumInput,
    epsilon: Epsilon,
    domain: Domain | tuple[float, float],
    *,
    clip: tuple[float, float] | None = None,
    out_of_range: OutOfRange = "clip",
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> PrivateSums:
    """Noisy sums over the cells and against the signs of an input, for ε together.

    Parameters
    ----------
    source : SumInput
        The labels and the public columns.
    epsilon, domain, clip, out_of_range, ledger, dataset
        As in `PrivateSums.over_cells`.

    Returns
    -------
    PrivateSums
        With an answer against signs if there are any, then one over cells if there are any.

    Raises
    ------
    InvalidInput
        If something cannot be summed. Nothing is charged then.

    Privacy
    -------
    Costs ε. Every partition and all columns of signs together get an equal share.
    """
    check_out_of_range(out_of_range)
    grid = on_grid(Domain.of(domain))
    lower, upper = (0, grid.count - 1) if clip is None else clip_units(clip, grid)
    hold = partial(_summed, source, grid, lower, upper, out_of_range)
    asking = _EngineSums(hold, epsilon, ledger=ledger, dataset=dataset)
    asking.answer_all()
    return PrivateSums(asking.domain, asking.records, asking.answers, asking.epsilon_exact)


class _EngineSums(Answering[ExactSums]):
    """Holds exact sums, and answers each of them once."""

    def answer_all(self) -> None:
        """Both answers, as far as there is something to answer.

        Signs come first. Their noise is at least as wide as that of cells for an equal share, so whatever is refused for being too
        wide is refused before anything is charged.
        """
        partitions, signs = len(self._held.sizes), self._held.sign_sums.size
        if signs:
            self._answer_signs(
                signs, lambda: (self._held.sign_sums, self._held.sign_counts), self._epsilon / (partitions + 1)
            )
        if partitions:
            self._answer_cells(self._held.sizes, lambda: (self._held.cell_sums, self._held.cell_counts), self.remaining)


def _summed(source: SumInput, grid: Domain, lower: int, upper: int, out_of_range: OutOfRange) -> ExactSums:
    """The exact sums, once all that can be refused was."""
    sizes = source.sizes()
    require_few(sum(sizes))
    if source.sign_columns > MOST_SIGNS:
        raise InvalidInput(f"one answer has at most {MOST_SIGNS:,} columns of signs, got {source.sign_columns:,}")
    exact = source.sum_labels(grid, lower, upper, sizes, out_of_range)
    require_several(exact.records)
    require_room(exact.records, grid)
    grid.judge_clipping(exact.clipped, exact.records, out_of_range)
    return exact
