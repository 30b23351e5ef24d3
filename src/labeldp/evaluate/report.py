"""Reports by group: the number of records, the mean and quantiles of the labels of each group, or the rates of classes, with 95 % intervals.

A report of labels is a release: it charges the ledger and writes a folder with `report.json` (the noisy sums), `figures.csv` and `PRIVACY.md`. The
mean follows from exact noisy sums of y and of (y − ½)², quantiles from a noisy histogram of each group, rates from noisy counts of the classes. A
report of private labels costs nothing, and has means or rates only.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain, OutOfRange
from labeldp.engines.arrow.source import LabelSource
from labeldp.errors import InvalidInput, described, is_number
from labeldp.evaluate.class_sums import modelled, share_figure
from labeldp.evaluate.estimates import estimate_mean, estimate_rates
from labeldp.evaluate.groups import Figures, FiguresRelease, Groups, figures_table
from labeldp.evaluate.held_out_sums import WIDEST, HeldOutFigure, Linear, figure, reach_of_noise, reach_of_sampling
from labeldp.formatting import count_of, plain
from labeldp.json_text import Stored
from labeldp.mechanisms import PrivateLabels
from labeldp.release.account import Account
from labeldp.release.flow import Drawn, Ready, Run, release
from labeldp.release.grid_labels import SumsBudget, noise_scale, on_grid, require_several, sums_request
from labeldp.release.group_sums import (
    KINDS,
    UNITS,
    GroupSums,
    Rows,
    check_numbers,
    draw_histograms,
    draw_numbers,
)
from labeldp.release.private_sums import SumsProof
from labeldp.release.randomizer import numbered_persons
from labeldp.release_kind import REPORT
from labeldp.tables.files import Phase, read_columns, readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALL = "all records"
"""The name of the only group without a column of groups."""
MEAN, SQUARE = range(2)
MIDDLE = 0.5
FEWEST_CELLS, MOST_CELLS = 16, 1024
MOST_QUANTILES = 20


@dataclass(frozen=True)
class GroupRow:
    """The figures of one group.

    Attributes
    ----------
    group : str
        Its name.
    records : int
        The number of its records, which is public.
    figures : dict of str to HeldOutFigure
        "mean", and "quantile 0.5" and so on, each with its interval. For classes "rate of yes" and so on; of two, that of the second.

    Examples
    --------
    >>> from labeldp.evaluate import GroupRow
    >>> from labeldp.evaluate.held_out_sums import HeldOutFigure
    >>> GroupRow("north", 1200, {"mean": HeldOutFigure(4.1, 0.1, 3.9, 4.3)}).figures["mean"].value
    4.1
    """

    group: str
    records: int
    figures: dict[str, HeldOutFigure]


@dataclass(frozen=True, eq=False, repr=False)
class Report(Figures):
    """Figures of the labels by group, from noisy sums or from private labels. Contains no label.

    Attributes
    ----------
    domain : Domain
        The bounds of the labels, or their classes.
    by : str or None
        The column that makes the groups.
    rows : tuple of GroupRow
        One for each group.
    epsilon_exact : Fraction
        What the report costs; for private labels, what these cost before.
    quantiles : tuple of float
        The quantiles that it has.
    sums : tuple of GroupSums
        The noisy sums that it follows from; none for a report of private labels.
    left_out : int
        The number of records whose groups are too small, even together.
    without_label, without_features : int
        In a report of private labels: the numbers of rows of the features without a private label, and of labels without features.
    persons : int or None
        The number of persons, if ε is for all labels of a person. Figures are then means and quantiles over persons.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq
    >>> from labeldp import LabelSource, report
    >>> ward = np.arange(8000) % 2
    >>> stay = np.random.default_rng(0).uniform(0, 10, 8000) + 10 * ward
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"ward": ward, "stay": stay}), f"{folder}/visits.parquet")
    ...     labels = LabelSource(f"{folder}/visits.parquet", "stay")
    ...     found = report(labels, by="ward", epsilon=1, domain=(0, 30), out=f"{folder}/report")
    >>> [bool(row.figures["mean"].lower < true < row.figures["mean"].upper) for row, true in zip(found.rows, (5, 15))]
    [True, True]
    """

    kind = REPORT
    domain: Domain
    by: str | None
    rows: tuple[GroupRow, ...]
    epsilon_exact: Fraction
    quantiles: tuple[float, ...] = ()
    sums: tuple[GroupSums, ...] = ()
    left_out: int = 0
    without_label: int = 0
    without_features: int = 0
    persons: int | None = None

    def proof(self) -> SumsProof:
        """Return what the noisy sums cost as exact fractions, and whether the total is within ε.

        Returns
        -------
        SumsProof
        """
        return SumsProof.of(self.sums, self.epsilon_exact)

    def is_known(self, found: HeldOutFigure) -> bool:
        """Return whether an interval says something: it covers less than four fifths of the bounds.

        Parameters
        ----------
        found : HeldOutFigure
            One of the figures.

        Returns
        -------
        bool
        """
        width = 1.0 if self.domain.classes is not None else self.domain.upper - self.domain.lower
        return found.upper - found.lower < WIDEST * width

    def to_arrow(self) -> pa.Table:
        """Return one row for each group and figure.

        Returns
        -------
        pyarrow.Table
            The columns group, records, figure, value, lower and upper, the ends of the 95 % interval.
        """
        rows = [
            (row.group, row.records, name, one.value, one.lower, one.upper)
            for row in self.rows
            for name, one in row.figures.items()
        ]
        return figures_table(("group", "records", "figure", "value", "lower", "upper"), rows)

    def plot(self, figure: str | None = None, *, ax: Axes | None = None) -> Axes:
        """Draw a figure of every group with its interval.

        Parameters
        ----------
        figure : str, optional
            Which one: "mean", "quantile 0.5", "rate of yes" and so on. By default the first: the mean, or the rate of a class.
        ax : matplotlib axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib axes

        Raises
        ------
        InvalidInput
            If the report has no such figure.
        """
        from labeldp.plots import intervals

        figure = next(iter(self.rows[0].figures)) if figure is None else figure
        if figure not in self.rows[0].figures:
            raise InvalidInput(f"this report has {', '.join(self.rows[0].figures)}, not {described(figure)}")
        found = [row.figures[figure] for row in self.rows]
        ends = [one.lower for one in found], [one.value for one in found], [one.upper for one in found]
        unit = "" if self.domain.unit is None else f" ({self.domain.unit})"
        title = f"{figure} by {self.by}" if self.by is not None else figure
        label = f"label{unit}" if self.domain.classes is None else "share of the labels"
        return intervals([row.group for row in self.rows], *ends, xlabel=label, title=title, ax=ax)

    def to_json(self) -> str:
        groups = tuple(row.group for row in self.rows)
        facts = self.domain, self.by, groups, self.quantiles, self.epsilon_exact
        return _ReportSums(*facts, self.sums, self.left_out, self.persons).to_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> Report:
        return _ReportSums.from_json(text).report()

    def _facts(self) -> dict[str, str]:
        first = next(iter(self.rows[0].figures))
        facts = {row.group: f"{first} {plain(row.figures[first].value)}" for row in self.rows[:4]}
        return facts | {"groups": f"{len(self.rows)}", "epsilon": f"{self.epsilon:g}"}


@dataclass(frozen=True, eq=False)
class _ReportSums(Stored):
    """The noisy sums of a report, from which its figures follow."""

    format, noun = "labeldp report", "a report"

    domain: Domain
    by: str | None
    groups: tuple[str, ...]
    quantiles: tuple[float, ...]
    epsilon_exact: Fraction
    sums: tuple[GroupSums, ...]
    left_out: int
    persons: int | None

    def report(self) -> Report:
        """Return the figures, if the sums fit each other and cost what is claimed."""
        domain, quantiles, sums = self.domain, checked_quantiles(self.quantiles), self.sums
        found = [one.kind for one in sums], sums[0].values.shape[1] if sums else 0
        expected = ["numbers", "histograms"][: 1 + bool(quantiles)], 2
        if domain.classes is not None:
            expected = [_counted(domain)], len(modelled(domain.count))
        if found != expected or (domain.classes is not None and quantiles):
            raise InvalidInput("the sums of a report do not fit its figures")
        numbers, *histograms = sums
        if any(len(one.counts) != len(self.groups) or (one.counts != numbers.counts).any() for one in sums):
            raise InvalidInput("the sums of a report do not fit its groups")
        if self.persons is not None and not 1 <= self.persons <= self.left_out + int(numbers.counts.sum()):
            raise InvalidInput("a report has more persons than records")
        for part in sums:
            part.check_unit(self.persons)
        rows = []
        for place, (name, count) in enumerate(zip(self.groups, numbers.counts.tolist(), strict=True)):
            if domain.classes is not None:
                figures = _rates(numbers, place, domain.classes)
            else:
                figures = {"mean": _mean(numbers, place, domain)}
                figures |= {f"quantile {one:g}": _quantile(histograms[0], place, one) for one in quantiles}
            rows.append(GroupRow(name, count, figures))
        made = Report(
            domain, self.by, tuple(rows), self.epsilon_exact, quantiles, sums, self.left_out, persons=self.persons
        )
        made.proof().require()
        return made


def checked_quantiles(quantiles: Sequence[Any]) -> tuple[float, ...]:
    """Return the quantiles as increasing numbers between 0 and 1."""
    wanted = tuple(quantiles)
    if len(wanted) > MOST_QUANTILES:
        raise InvalidInput(f"a report has at most {MOST_QUANTILES} quantiles, got {len(wanted)}")
    for one in wanted:
        if not is_number(one) or not 0 < one < 1:
            raise InvalidInput(
                f"quantiles must be numbers between 0 and 1, such as 0.5 for the median, got {described(one)}"
            )
    return tuple(sorted({float(one) for one in wanted}))


def _mean(sums: GroupSums, place: int, domain: Domain) -> HeldOutFigure:
    """The mean within the bounds. The variance over records or persons is too large rather than too small by the noise."""
    values, noise, size = sums.means[place], sums.means_variance[place], sums.sizes[place]
    variance = float(np.clip(values[SQUARE] - (values[MEAN]) ** 2, 0, MIDDLE**2)) + math.sqrt(noise[SQUARE])
    line = Linear(float(values[MEAN] + MIDDLE), np.array([1.0, 0.0]), np.diag(noise))
    found, width = figure(line, min(variance, MIDDLE**2) / size), domain.upper - domain.lower
    value, lower, upper = (
        domain.lower + width * x for x in (found.value, max(0.0, found.lower), min(1.0, found.upper))
    )
    return HeldOutFigure(value, width * found.standard_error, lower, upper)


def _counted(domain: Domain) -> str:
    """The kind of the counts of classes: of the second of two, or of all."""
    return "hits" if domain.count == 2 else "histograms"


def _rates(sums: GroupSums, place: int, classes: tuple[str, ...]) -> dict[str, HeldOutFigure]:
    """The rates of classes from their noisy counts in one group."""
    weight, size = float(sums.weights[place]), float(sums.sizes[place])
    noise = np.array([[sums.variance / weight**2]])
    return {
        f"rate of {classes[k]}": share_figure(Linear(float(count) / weight, np.ones(1), noise), size)
        for k, count in zip(modelled(len(classes)), sums.values[place], strict=True)
    }


def _quantile(sums: GroupSums, place: int, wanted: float) -> HeldOutFigure:
    """A quantile from the noisy counts of one group, in the unit of the labels.

    The weight of the labels up to each edge is a sum of noisy ones, moved so that the last one is that of all. A cell is in the interval
    unless the weight up to its lower edge is clearly larger than the quantile's, or that up to its upper edge clearly smaller; the quantile's
    own cell fails either test with probability 2.5 % at the most.
    """
    counts, size, ends = sums.values[place] / UNITS, sums.sizes[place], sums.ends[place]
    cells = counts.size
    edge = np.arange(cells + 1)
    below = np.concatenate([[0.0], np.cumsum(counts)])
    below += (size - below[-1]) * edge / cells
    noise = sums.variance / UNITS**2 * edge * (cells - edge) / cells
    target, sampling = wanted * size, size * wanted * (1 - wanted)
    reach = np.sqrt(reach_of_sampling() ** 2 * sampling + reach_of_noise() ** 2 * noise)
    fits = np.flatnonzero((below[:-1] <= target + reach[:-1]) & (below[1:] >= target - reach[1:]))
    rising = (np.maximum.accumulate(below) + np.minimum.accumulate(below[::-1])[::-1]) / 2
    cell = int(np.clip(np.searchsorted(rising, target) - 1, 0, cells - 1))
    inside = (target - rising[cell]) / (rising[cell + 1] - rising[cell]) if rising[cell + 1] > rising[cell] else 0.5
    low, high = float(ends[fits[0], 0]), float(ends[fits[-1], 1])
    value = float(np.clip(ends[cell, 0] + inside * (ends[cell, 1] - ends[cell, 0]), low, high))
    return HeldOutFigure(value, (high - low) / (2 * reach_of_sampling()), low, high)


def report_private(private: PrivateLabels, groups: Groups | None, epsilon: Fraction) -> Report:
    """Return the means of private labels by group, or the rates of their classes. It costs nothing."""
    domain = private.mechanism.domain
    if domain is None:
        raise InvalidInput("these private labels have no public bounds, so that nothing is known of their means")
    of = groups or Groups("", (ALL,), np.zeros(len(private), np.int64))
    rows = []
    for place, group in enumerate(of.names):
        own = private[of.codes == place]
        found = {"mean": estimate_mean(own)} if domain.classes is None else estimate_rates(own)
        figures = {
            name: HeldOutFigure(one.value, one.standard_error, one.lower, one.upper) for name, one in found.items()
        }
        rows.append(GroupRow(group, len(own), figures))
    by = None if groups is None else groups.by
    return Report(domain, by, tuple(rows), epsilon, left_out=of.left_out)


def report_labels(
    source: LabelSource,
    by: str | None,
    out: str | os.PathLike[str],
    epsilon: Epsilon,
    domain: Domain | tuple[float, float],
    *,
    quantiles: Sequence[float],
    smallest_group: int,
    out_of_range: OutOfRange,
    **options: Any,
) -> tuple[Report, int]:
    """Release a report of labels, as `labeldp.report` describes; `options` are those of `release`.

    Also return how many labels lay outside the bounds, which is private.
    """
    bounds, wanted = Domain.of(domain), checked_quantiles(quantiles)
    if bounds.classes is not None:
        if wanted not in ((), (0.5,)):  # the second is the default
            raise InvalidInput("classes have rates and no quantiles: leave them out")
        wanted = ()
    job = ReportRelease(source, by, exact_epsilon(epsilon), bounds, wanted, smallest_group, out_of_range)
    ready, found, _ = release(job, out, **options)
    return found, ready.clipped


@dataclass(frozen=True)
class ReportReady(Ready):
    """Labels from 0 to 1, or the positions of classes, with their groups."""

    labels: Floats
    groups: Groups
    rows: Rows
    persons: int | None
    clipped: int


@dataclass(eq=False)
class ReportRelease(FiguresRelease[ReportReady]):
    """The release of figures of the labels by group."""

    kind = REPORT
    source: LabelSource
    by: str | None
    epsilon: Fraction
    domain: Domain
    quantiles: tuple[float, ...]
    smallest_group: int
    out_of_range: OutOfRange

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by == self.source.label_column:
            raise InvalidInput(
                f"the column {self.by!r} holds the labels, and groups must be public: give another column"
            )

    @property
    def _shares(self) -> tuple[Fraction, Fraction]:
        """The parts of ε for means and for histograms."""
        half = self.epsilon / 2
        return (half, half) if self.quantiles else (self.epsilon, Fraction(0))

    def read(self, account: Account, phase: Phase) -> ReportReady:  # noqa: ARG002
        """Read labels and groups."""
        column = None if self.by is None else _column(self.source, self.by)
        _, labels, owners = self.read_labels(phase)
        require_several(labels.size)
        if column is not None and len(column) != labels.size:
            raise InvalidInput(
                f"{self.source.path} changed while it was read. Run the command again when the file no longer changes"
            )
        persons = None if owners is None else numbered_persons(owners, labels.size)
        if column is None:
            groups = Groups("", (ALL,), np.zeros(labels.size, np.int64))
        else:
            groups = Groups.of(column, str(self.by), self.source.path, self.smallest_group, persons)
        rows = Rows.of(groups.codes, persons)
        count = None if persons is None else int(persons.max()) + 1
        for_means, for_counts = self._shares
        if self.domain.classes is not None:
            noise_scale(KINDS[_counted(self.domain)], for_means)
        else:
            check_numbers(2, labels.size, for_means)
        if for_counts:
            noise_scale(KINDS["histograms"], for_counts)
        request = sums_request(on_grid(self.domain), labels.size, self.kind)
        scaled, clipped = self.scaled(labels)
        return ReportReady(request, labels.size, 0, scaled[rows.used], groups, rows, count, clipped)

    def draw(self, ready: ReportReady, run: Run) -> Drawn:
        """Draw all sums, and write the table of figures."""
        run.phase("summing", None)
        budget, groups = SumsBudget(self.epsilon), ready.groups
        if self.domain.classes is None:
            sums, what = self._sums(budget, ready), "means and quantiles"
        else:
            counted = modelled(self.domain.count)
            ends = np.column_stack([counted, counted]).astype(np.float64)
            cells = ready.labels.astype(np.int64) - counted[0]
            sums = [draw_histograms(budget, cells, ends, ready.rows, self.epsilon, _counted(self.domain))]
            what = "rates of classes"
        facts = on_grid(self.domain), self.by, groups.names, self.quantiles, self.epsilon
        found = _ReportSums(*facts, tuple(sums), groups.left_out, ready.persons).report()
        labels, names = count_of(ready.records, "label"), count_of(len(groups.names), "group")
        return self.written(found, f"These are noisy {what} of {labels} in {names}.", ready.records, run.data)

    def _sums(self, budget: SumsBudget, ready: ReportReady) -> list[GroupSums]:
        """Draw the sums for means and quantiles of numbers."""
        groups, rows = ready.groups, ready.rows
        above = rows.means(ready.labels - MIDDLE)
        for_means, for_counts = self._shares
        ends = np.broadcast_to([[-MIDDLE, MIDDLE], [0.0, MIDDLE**2]], (len(groups.names), 2, 2))
        sums = [draw_numbers(budget, [above, np.square(above)], ends, rows, for_means)]
        if for_counts:
            cells, edges = self._cells(ready, for_counts)
            sums.append(draw_histograms(budget, cells, edges, rows, for_counts))
        return sums

    def _cells(self, ready: ReportReady, epsilon: Fraction) -> tuple[NDArray[np.int64], Floats]:
        """The cell of each label, and the ends of all cells. Their number follows from public numbers.

        A domain with few grid points has a cell for each, without width.
        """
        domain = self.domain
        usual = float(epsilon) * (ready.persons or ready.records) / len(ready.groups.names)
        count = int(np.clip(1.5 * usual ** (2 / 3), FEWEST_CELLS, MOST_CELLS))
        if domain.cells is not None and domain.count <= count:
            labels = domain.lower + ready.labels * (domain.upper - domain.lower)
            return domain.cell(np.clip(labels, domain.lower, domain.upper)).astype(np.int64), np.column_stack(
                [domain.grid] * 2
            )
        edges = np.linspace(domain.lower, domain.upper, count + 1)
        cells = np.minimum((ready.labels * count).astype(np.int64), count - 1)
        return cells, np.column_stack([edges[:-1], edges[1:]])


def _column(source: LabelSource, name: str) -> pa.Array:
    """Return a public column of the file of labels, in the order of its records."""
    parts: list[pa.Array] = []
    for file in source.files():
        with readable(file):
            parts += [batch.column(0) for batch in read_columns(file, [name], source.delimiter)]
    parts = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in parts]
    if len({one.type for one in parts}) > 1:
        raise InvalidInput(f"the files of {source.path} have values of several types in {name!r}: convert them to one")
    if not parts:
        raise InvalidInput(f"{source.path} has no records: there is nothing to report")
    return pa.concat_arrays(parts)
