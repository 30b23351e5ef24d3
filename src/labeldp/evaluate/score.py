"""Scores: the labels party's answer to predictions of another party, the noisy error of each model with its interval.

`score` is a release: it charges the ledger, and writes a folder with `score.json` (the noisy sums), `figures.csv` and `PRIVACY.md`.
`Score.open` reads it. `held_out_error` computes the figures; for classes, `class_sums.py` does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrays import Floats, label_array
from labeldp.artifact.id_join import match_ids, require_distinct, require_same_kind
from labeldp.artifact.labels_file import id_kind
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain, OutOfRange, check_out_of_range
from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.batches import checked_ids
from labeldp.engines.passes import MatchedInput
from labeldp.errors import InvalidInput, expect, expect_path
from labeldp.evaluate.class_sums import ClassError, ClassSums, checked_rates
from labeldp.evaluate.groups import (
    SMALLEST_GROUP,
    Figures,
    FiguresRelease,
    Groups,
    figures_table,
)
from labeldp.evaluate.held_out_sums import RISK, HeldOutError, HeldOutFigure, HeldOutSums, Questions, SummedLabels
from labeldp.formatting import count_of, plain
from labeldp.release.account import Account
from labeldp.release.flow import Drawn, Ready, Run, release
from labeldp.release.grid_labels import SumsBudget, on_grid, require_several, sums_request
from labeldp.release.group_sums import Rows
from labeldp.release.ledger import Ledger
from labeldp.release.private_sums import SumsProof
from labeldp.release.randomizer import numbered_persons
from labeldp.release.sums import require_labels
from labeldp.release_kind import SCORE
from labeldp.tables.feature_file import FeatureFile
from labeldp.tables.files import Phase

MOST_MODELS = 10
"""The most models in one score: they share ε."""
MOST_OUTSIDE = 0.2
"""Predictions are refused if more than this share lies outside the bounds: their unit is probably another one."""


@dataclass(frozen=True)
class Difference:
    """Two models on the same records.

    Attributes
    ----------
    first, second : str
        Their names.
    error : HeldOutFigure
        How much larger the mean squared error (for classes, the log loss) of the first is. The intervals of all pairs hold together with
        probability 95 %.

    Examples
    --------
    >>> from labeldp.evaluate import Difference
    >>> from labeldp.evaluate.held_out_sums import HeldOutFigure
    >>> Difference("boosting", "line", HeldOutFigure(-40.0, 5.0, lower=-50.0, upper=-30.0)).better
    'boosting'
    """

    first: str
    second: str
    error: HeldOutFigure

    @property
    def better(self) -> str | None:
        """The model with the smaller error, or None if the interval does not tell."""
        if self.error.lower > 0:
            return self.second
        return self.first if self.error.upper < 0 else None


@dataclass(frozen=True, eq=False, repr=False)
class Score(Figures):
    """How good the predictions of one or several models are, from noisy sums of the true labels. Contains no label.

    Attributes
    ----------
    domain : Domain
        The bounds of the labels, or their classes.
    models : tuple of str
        The names of the models: the columns of predictions; for classes, what the names of their columns begin with.
    by : str or None
        The column that makes the groups.
    groups : tuple of str
        The names of the groups.
    records : int
        The number of records that were scored.
    epsilon_exact : Fraction
        What the score costs.
    sums : tuple of HeldOutSums or of ClassSums
        The noisy sums for all records, and for groups if there are any.
    persons : int or None
        The number of persons, if ε is for all labels of a person. Figures are then means over persons.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq
    >>> from labeldp import LabelSource, score
    >>> amounts = np.random.default_rng(0).uniform(0, 400, 20_000)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"order": range(20_000), "amount": amounts}), f"{folder}/labels.parquet")
    ...     pq.write_table(pa.table({"order": range(20_000), "prediction": amounts + 9}), f"{folder}/predictions.parquet")
    ...     labels = LabelSource(f"{folder}/labels.parquet", "amount", "order")
    ...     found = score(labels, f"{folder}/predictions.parquet", f"{folder}/score", 1, (0, 400)).score
    >>> bool(found.overall["prediction"].r2.lower > 0.9)
    True
    """

    kind = SCORE
    format, noun = "labeldp score", "a score"

    domain: Domain
    models: tuple[str, ...]
    by: str | None
    groups: tuple[str, ...]
    records: int
    epsilon_exact: Fraction
    sums: tuple[HeldOutSums | ClassSums, ...]
    persons: int | None = None

    def __post_init__(self) -> None:
        classes = self.domain.classes
        if len(self.sums) not in (1, 2) or any(isinstance(one, ClassSums) is (classes is None) for one in self.sums):
            raise InvalidInput("a score has sums for all records, and perhaps for groups")
        whole, *parts = self.sums
        shapes = [(len(one.means), one.models) for one in self.sums]
        expected = [(1, len(self.models))] + ([(len(self.groups), len(self.models))] if self.by is not None else [])
        if shapes != expected or int(whole.first.counts[0]) != self.records:
            raise InvalidInput("the sums of a score do not fit its models, groups and records")
        if any(int(one.first.counts.sum()) > self.records for one in parts):
            raise InvalidInput("the groups of a score have more records than it")
        if classes is not None and any(one.means.shape[2:] != (len(classes),) for one in self.sums):
            raise InvalidInput("the sums of a score do not fit its classes")
        if self.persons is not None and not 1 <= self.persons <= self.records:
            raise InvalidInput("a score has more persons than records")
        for part in (part for one in self.sums for part in one.parts):
            part.check_unit(self.persons)
        self.proof().require()

    @property
    def overall(self) -> dict[str, HeldOutError | ClassError]:
        """The figures of each model for all records."""
        return self._figures(0, 0)

    @property
    def by_group(self) -> dict[str, dict[str, HeldOutError | ClassError]]:
        """The figures of each model for each group, by the group's name."""
        return {name: self._figures(1, place) for place, name in enumerate(self.groups)}

    @property
    def differences(self) -> tuple[Difference, ...]:
        """All pairs of models, for all records."""
        pairs = list(combinations(range(len(self.models)), 2))
        found, width = self.sums[0].group(0), self._width
        return tuple(
            Difference(self.models[one], self.models[two], found.difference(one, two, width, RISK / len(pairs)))
            for one, two in pairs
        )

    @property
    def _width(self) -> float:
        return self.domain.upper - self.domain.lower

    def _figures(self, part: int, group: int) -> dict[str, HeldOutError | ClassError]:
        found = self.sums[part].group(group)
        return {name: found.error(model, self.domain, self.epsilon_exact) for model, name in enumerate(self.models)}

    def proof(self) -> SumsProof:
        """Return what the noisy sums cost as exact fractions, and whether the total is within ε.

        Returns
        -------
        SumsProof
        """
        return SumsProof.of([sums for one in self.sums for sums in one.parts], self.epsilon_exact)

    def sentences(self) -> Iterator[str]:
        """Yield what the figures say about each model and each pair of models.

        Yields
        ------
        str
            A sentence.
        """
        for name, found in self.overall.items():
            yield _judged(name, found)
        for pair in self.differences:
            what = "mean squared errors" if self.domain.classes is None else "log losses"
            size = (
                f"{what} differ by {plain(pair.error.value)} ({plain(pair.error.lower)} to {plain(pair.error.upper)})"
            )
            if pair.better is None:
                yield f"{pair.first} or {pair.second}: not known which is better. Their {size}"
            else:
                worse = pair.first if pair.better == pair.second else pair.second
                yield f"{pair.better} is better than {worse}: their {size}"

    def to_arrow(self) -> pa.Table:
        """Return one row for each group, model and figure.

        Returns
        -------
        pyarrow.Table
            The columns group (null for all records), model, records, figure, value, lower and upper, the ends of the 95 % interval.
        """
        rows: list[tuple[Any, ...]] = []
        for group, models in [(None, self.overall), *self.by_group.items()]:
            for model, found in models.items():
                for name, one in found.figures.items():
                    rows.append((group, model, found.records, name, one.value, one.lower, one.upper))
                for part in getattr(found, "calibration", ()):
                    name = f"share of {part.of} where {part.predicted:.4g} is predicted"
                    rows.append(
                        (group, model, part.records, name, part.share.value, part.share.lower, part.share.upper)
                    )
        return figures_table(("group", "model", "records", "figure", "value", "lower", "upper"), rows)

    def _facts(self) -> dict[str, str]:
        facts = {name: " ".join(map(str, next(iter(found.figures.items())))) for name, found in self.overall.items()}
        return facts | {"records": f"{self.records:,}", "epsilon": f"{self.epsilon:g}"}


def _judged(name: str, found: HeldOutError | ClassError) -> str:
    if isinstance(found, ClassError):
        loss = f"log loss {plain(found.log_loss.value)}, always answering the mean probabilities {plain(found.log_loss.value + found.gain.value)}"
        better = "better" if found.gain.lower > 0 else "worse" if found.gain.upper < 0 else ""
        if not better:
            return f"{name}: {loss}. Which is better is not known from this score. Ask for more records or a larger ε"
        return f"{name}: {loss}. It is {better} than that"
    r2, gain = found.r2, found.gain
    if r2.lower <= -1:
        known = "what it explains is not known from this score"
        if gain.lower > 0:
            known = f"it is better than always answering the mean, {known[5:]}"
        return f"{name}: {known}. Ask for more records or a larger ε"
    share = f"{100 * r2.value:.0f} % ({100 * r2.lower:.0f} to {100 * r2.upper:.0f} %) of the labels' variation"
    if r2.lower > 0:
        return f"{name} explains {share}: it is better than always answering the mean"
    verdict = (
        "it is worse than always answering the mean"
        if r2.upper < 0
        else "whether it is better than the mean is not known"
    )
    return f"{name} explains {share}: {verdict}"


@dataclass(frozen=True)
class ScoreOutcome:
    """The result of `score`, for the labels party, which must not pass `clipped` on.

    Attributes
    ----------
    answer : Path
        The folder to send back.
    score : Score
        What is in it.
    without_label : int
        How many predictions had no label and were left out.
    without_prediction : int
        How many labels had no prediction and were not used.
    moved_predictions : int
        How many predictions lay outside the bounds and were moved to them.
    merged_groups, outside_groups : int
        How many small groups were merged, and how many records are in no group since even the merged ones were too few.
    clipped : int
        How many of the labels lay outside the bounds. This count is private: ε does not cover it.

    Examples
    --------
    `Score` has one.
    """

    answer: Path
    score: Score
    without_label: int
    without_prediction: int
    moved_predictions: int
    merged_groups: int
    outside_groups: int
    clipped: int = field(repr=False)


def score(
    source: LabelSource | MatchedInput,
    predictions: str | os.PathLike[str],
    out: str | os.PathLike[str],
    epsilon: Epsilon,
    domain: Domain | tuple[float, float],
    *,
    id: str | None = None,  # noqa: A002 - the name that train has
    models: Sequence[str] | None = None,
    by: str | None = None,
    smallest_group: int = SMALLEST_GROUP,
    matching: bool = False,
    out_of_range: OutOfRange = "clip",
    ledger: Ledger | None = None,
    dataset: str | None = None,
    sign_key: str | os.PathLike[str] | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> ScoreOutcome:
    """Answer predictions with their noisy error: how good they are for the true labels, which stay where they are.

    For numbers these are the mean squared error, R², the mean absolute error, the bias and the gain over the mean; for classes log loss, its gain
    over the mean probabilities, Brier score, AUC, rates and a calibration table.

    Parameters
    ----------
    source : LabelSource
        The file of labels, with an id column. If it has a column of persons, ε is for all labels of a person together: a person
        with k rows counts as one, each row with a weight of 1/k, and the figures are means over persons.
    predictions : str or Path
        The predictions that the features party sent, by id: Parquet, CSV, TSV or Arrow IPC.
    out : str or Path
        The folder to write. It must not exist yet.
    epsilon : float, str, Decimal or Fraction
        What the score costs.
    domain : Domain or (lower, upper)
        The public bounds of the labels, never read off them. Predictions outside are moved to the nearer bound. Or `Domain.of_classes`; probabilities
        are then moved to 0.0001 at least and 0.9999 at most.
    id : str, optional
        The id column of the predictions. By default it has the same name as that of the labels.
    models : sequence of str, optional
        The columns of predictions, one for each model. By default all columns of numbers but the ids and `by`. For classes, a model is what
        the names of columns begin with: `probability` for columns `probability_no` and `probability_yes`. A column without the name of a
        class has the probability of the second of two.
    by : str, optional
        A column of the predictions' file: figures are given for each of its values too. Half of ε goes there.
    smallest_group : int, default 20
        Groups with fewer records, or fewer persons, are merged into one.
    matching : bool, default False
        Leave out predictions without a label. Otherwise they are an error.
    out_of_range : {"clip", "clip-all", "error"}, default "clip"
        What happens to labels outside the bounds.
    ledger : Ledger, optional
        Charge ε to `dataset` in this ledger before anything is drawn.
    dataset : str, optional
        The dataset in `ledger` to charge.
    sign_key : str or Path, optional
        Your private Ed25519 key, as in `privatize`. The folder is signed with it.
    phase : callable, optional
        For progress bars, as in `privatize`.

    Returns
    -------
    ScoreOutcome

    Raises
    ------
    InvalidInput
        If labels, predictions, groups or settings are refused. Nothing is charged then.
    InsufficientBudget
        If the ledger has less than ε left.

    See Also
    --------
    held_out_error : The same figures for a team that has both sides.

    Privacy
    -------
    ε-DP for replacing one label by another valid one, or all labels of one person. Predictions, groups, ids and whom a row belongs
    to are public. A second run draws fresh noise and
    costs ε again. Labels that were used to train the model, through another release, pay the sum of both.

    Examples
    --------
    See `Score`.
    """
    if not hasattr(source, "match"):  # labels on a cluster
        how = "give LabelSource(path, label, id), or a Spark frame to labeldp.spark.score"
        expect(source, LabelSource, "source", how)
    id = id or getattr(source, "id_column", None)  # noqa: A001
    if id is None:
        raise InvalidInput("predictions are matched to labels by id: give LabelSource an id column (--id)")
    check_out_of_range(out_of_range)
    expect_path(predictions, "predictions", "save them to a file with a column of ids")
    bounds = Domain.of(domain)
    sent = _Predictions(Path(predictions), id, tuple(models or ()), by, smallest_group)
    job = ScoreRelease(source, sent, exact_epsilon(epsilon), bounds, matching, out_of_range)
    ready, found, _ = release(job, out, ledger=ledger, dataset=dataset, sign_key=sign_key, phase=phase)
    groups, joined = ready.groups, ready.joined
    merged, outside = (0, 0) if groups is None else (groups.merged, groups.left_out)
    unmatched = joined.asked - ready.records, joined.held - ready.records
    return ScoreOutcome(Path(out).absolute(), found, *unmatched, ready.moved, merged, outside, joined.clipped)


def _numeric(file: FeatureFile, names: list[str]) -> tuple[str, ...]:
    """Return the columns that hold numbers."""
    file.prepare(names)
    kinds = file.schema(names).types
    numbers = (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal)
    return tuple(name for name, kind in zip(names, kinds, strict=True) if any(are(kind) for are in numbers))


@dataclass(frozen=True)
class _Predictions:
    """The other party's file, its columns, and how to group its records."""

    path: Path
    id_column: str
    models: tuple[str, ...]
    by: str | None
    smallest_group: int

    def opened(self, classes: tuple[str, ...] | None) -> tuple[FeatureFile, tuple[str, ...]]:
        """Open the file, and return it with the columns of predictions."""
        file = FeatureFile.open(self.path)
        file.require(self.id_column, ", which should have the ids")
        if self.by is not None:
            file.require(self.by)
        taken = (self.id_column, self.by)
        models = self.models or _numeric(file, [name for name in file.names if name not in taken])
        if classes is not None and self.models:
            of = {name: [f"{name}_{one}" for one in classes if f"{name}_{one}" in file.names] for name in models}
            models = tuple(one for name in models for one in ([name] if name in file.names else of[name] or [name]))
        elif classes is not None:
            models = tuple(name for name in models if name.endswith(tuple(f"_{one}" for one in classes))) or models
        for name in models:
            file.require(name)
            if name in taken:
                raise InvalidInput(
                    f"the column {name!r} of {self.path} cannot hold predictions as well as ids or groups"
                )
        if not models:
            raise InvalidInput(
                f"{self.path} has no column of predictions next to {self.id_column!r}: they must be numbers"
            )
        return file, models

    def read(
        self, file: FeatureFile, models: tuple[str, ...], kind: str, phase: Phase
    ) -> tuple[pa.Array, Floats, pa.Array | None]:
        """Return the ids, the predictions with a row for each model, and the column of groups."""
        wanted = [*models, *([] if self.by is None else [self.by])]
        file.prepare(wanted, phase)
        batches = list(file.batches(wanted, phase("predictions", file.rows), as_written=self.id_column))
        if not batches:
            raise InvalidInput(f"{self.path} has no records: ask for the predictions again")
        table = pa.Table.from_batches(
            [batch.rename_columns([str(n) for n in range(len(wanted) + 1)]) for batch in batches]
        )
        columns = [table.column(place).combine_chunks() for place in range(len(wanted) + 1)]
        columns = [pa.concat_arrays(one.chunks) if isinstance(one, pa.ChunkedArray) else one for one in columns]
        text = file.delimiter is not None
        ids = checked_ids(columns[-1], self.id_column, 0, self.path, kind if text else None, text_file=text)
        values = [
            label_array(one, f"{self.path}: predictions in {name!r}")
            for one, name in zip(columns, models, strict=False)
        ]
        return ids, np.stack(values), None if self.by is None else columns[len(models)]

    def groups(
        self, column: pa.Array | None, rows: NDArray[np.int64], persons: NDArray[np.int64] | None
    ) -> Groups | None:
        """Return the groups of some of the records."""
        if column is None or self.by is None:
            return None
        return Groups.of(column.take(pa.array(rows)), self.by, self.path, self.smallest_group, persons)


@dataclass(frozen=True)
class _Joined:
    """Labels that have predictions, from 0 to 1 or the positions of classes, with the numbers of all predictions and of all labels."""

    rows: NDArray[np.int64]
    labels: Floats | SummedLabels
    persons: NDArray[np.int64] | None
    asked: int
    held: int
    clipped: int


@dataclass(frozen=True)
class ScoreReady(Ready):
    """Labels that were matched to predictions, both from 0 to 1, and public facts about them. For classes: positions and probabilities."""

    joined: _Joined
    predictions: Floats
    models: tuple[str, ...]
    groups: Groups | None
    moved: int


@dataclass(frozen=True)
class _LabelsOnCluster:
    """The labels of these ids, which are summed where they are."""

    source: MatchedInput
    ids: pa.Array
    domain: Domain

    def exact(self, questions: Questions, f: Floats, rows: Rows) -> NDArray[np.int64]:
        """Return the exact sums of questions about these rows."""
        ids = self.ids.take(pa.array(rows.used))
        asked = _OnWorker(questions, self.domain.lower, self.domain.upper)
        return self.source.sums(ids, f, rows.codes, self.domain, asked, questions.ends.shape[:2])


@dataclass(frozen=True)
class _OnWorker:
    """The sums of questions over the records of a batch, for labels within the bounds."""

    questions: Questions
    lower: float
    upper: float

    def __call__(self, labels: Floats, f: Floats, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.questions.exact((labels - self.lower) / (self.upper - self.lower), f, Rows.of(codes))


@dataclass(eq=False)
class ScoreRelease(FiguresRelease[ScoreReady]):
    """The release of noisy errors of predictions."""

    kind = SCORE
    source: LabelSource | MatchedInput  # type: ignore[assignment]  # the other party's predictions can also go to a cluster
    predictions: _Predictions
    epsilon: Fraction
    domain: Domain
    matching: bool
    out_of_range: OutOfRange

    def __post_init__(self) -> None:
        if isinstance(self.source, LabelSource):
            super().__post_init__()
        else:
            self.source = self.source.in_unit(self.domain)

    @property
    def _shares(self) -> list[Fraction]:
        """The parts of ε for all records, and for groups if there are any."""
        return [self.epsilon] if self.predictions.by is None else [self.epsilon / 2] * 2

    def read(self, account: Account, phase: Phase) -> ScoreReady:  # noqa: ARG002
        """Read labels and predictions, and match them by id."""
        sent, domain = self.predictions, self.domain
        file, columns = sent.opened(domain.classes)
        places = {} if domain.classes is None else _by_class(columns, domain.classes, sent.path)
        models = columns if domain.classes is None else tuple(places)
        if len(set(columns)) < len(columns) or len(models) > MOST_MODELS:
            raise InvalidInput(
                f"{sent.path} has {len(columns)} columns of predictions, and a score has 1 to {MOST_MODELS} different models: name those "
                "that are meant (--models, models=…)"
            )
        join = self._joined if isinstance(self.source, LabelSource) else self._joined_on_cluster
        found, predictions, column = join(file, columns, phase)
        rows, persons = found.rows, found.persons
        Rows.of(np.zeros(rows.size, np.int64), persons)  # raises errors about persons before the charge
        if domain.classes is None:
            predictions, moved = _within(predictions[:, rows], domain, sent.path)
            for share in self._shares:
                HeldOutSums.check(len(models), rows.size, share)
            predictions = (predictions - domain.lower) / (domain.upper - domain.lower)
        else:
            predictions, moved = _probabilities(predictions[:, rows], places, domain.count, sent.path)
            for share in self._shares:
                ClassSums.check(len(models), domain.count, rows.size, share)
        groups = sent.groups(column, rows, persons)
        request = sums_request(on_grid(domain), rows.size, self.kind)
        return ScoreReady(request, rows.size, 0, found, predictions, models, groups, moved)

    def _joined(
        self, file: FeatureFile, columns: tuple[str, ...], phase: Phase
    ) -> tuple[_Joined, Floats, pa.Array | None]:
        """Read labels and predictions on this machine, and match them by id."""
        sent, source = self.predictions, self.source
        assert isinstance(source, LabelSource), "the other kind is on a cluster"
        ids, labels, owners = self.read_labels(phase)
        asked, predictions, column = sent.read(file, columns, id_kind(ids.type), phase)
        found = match_ids(asked, ids, sent.path, source.path)
        rows = np.flatnonzero(found >= 0)
        require_labels(len(asked) - rows.size, rows.size, sent.path, matching=self.matching)
        require_several(rows.size)
        own, clipped = self.scaled(labels[found[rows]])
        persons = None if owners is None else numbered_persons(owners.take(pa.array(found[rows])), rows.size)
        return _Joined(rows, own, persons, len(asked), len(ids), clipped), predictions, column

    def _joined_on_cluster(
        self, file: FeatureFile, columns: tuple[str, ...], phase: Phase
    ) -> tuple[_Joined, Floats, pa.Array | None]:
        """Read predictions on this machine, and match them to the labels of a cluster, which stay there."""
        sent, domain, source = self.predictions, self.domain, self.source
        assert not isinstance(source, LabelSource), "the other kind is on this machine"
        asked, predictions, column = sent.read(file, columns, source.id_kind, phase)
        kind = pa.int64() if source.id_kind == "int" else pa.string()
        require_same_kind(asked.type, kind, sent.path, "the labels")
        require_distinct(asked, sent.path)
        try:
            asked = asked.cast(kind)
        except pa.ArrowInvalid:
            raise InvalidInput(
                f"the ids of {sent.path} are too large for Spark: give --id-type str, and ids as text"
            ) from None
        phase("matching", None)
        found = source.match(asked, domain, self.out_of_range)
        require_labels(len(asked) - found.rows.size, found.rows.size, sent.path, matching=self.matching)
        require_several(found.rows.size)
        domain.judge_clipping(found.clipped, found.rows.size, self.out_of_range)
        labels = _LabelsOnCluster(source, asked.take(pa.array(found.rows)), domain)
        return _Joined(found.rows, labels, None, len(asked), found.labels, found.clipped), predictions, column

    def draw(self, ready: ScoreReady, run: Run) -> Drawn:
        """Draw all sums, and write the table of figures."""
        run.phase("summing", None)
        budget, groups, joined = SumsBudget(self.epsilon), ready.groups, ready.joined
        every = [np.zeros(ready.records, np.int64), *([] if groups is None else [groups.codes])]
        kind: Any = HeldOutSums if self.domain.classes is None else ClassSums  # on a cluster the first
        sums = tuple(
            kind.ask(budget, share, joined.labels, ready.predictions, codes, joined.persons)
            for share, codes in zip(self._shares, every, strict=True)
        )
        by, names = (None, ()) if groups is None else (groups.by, groups.names)
        persons = None if joined.persons is None else int(joined.persons.max()) + 1
        found = Score(on_grid(self.domain), ready.models, by, names, ready.records, self.epsilon, sums, persons)
        models, records = count_of(len(ready.models), "model"), count_of(ready.records, "record")
        return self.written(found, f"These are noisy errors of {models} on {records}.", ready.records, run.data)


def _within(predictions: Floats, domain: Domain, path: Path) -> tuple[Floats, int]:
    """Move predictions to the bounds, and return how many had to be moved. Labels lie within, so it can only lower errors."""
    outside = (predictions < domain.lower) | (predictions > domain.upper)
    share = outside.mean(axis=1).max()
    if share > MOST_OUTSIDE:
        raise InvalidInput(
            f"{100 * share:.0f} % of the predictions in {path} lie outside the bounds {domain.lower:g} to {domain.upper:g}. Are they in the "
            "unit of the labels? Nothing was charged: ask for predictions within the bounds"
        )
    return np.clip(predictions, domain.lower, domain.upper), int(np.count_nonzero(outside))


def _by_class(columns: Sequence[str], classes: tuple[str, ...], path: Path) -> dict[str, dict[int, int]]:
    """For each model the place of the column of each class: the one that ends with "_" and its name, or, of the second of two, one without such an end."""
    found: dict[str, dict[int, int]] = {}
    for place, name in enumerate(columns):
        ends = [k for k, one in enumerate(classes) if name.endswith(f"_{one}") and name != f"_{one}"]
        k = max(ends, key=lambda one: len(classes[one])) if ends else len(classes) - 1
        own = found.setdefault(name[: -len(classes[k]) - 1] if ends else name, {})
        if k in own:
            raise InvalidInput(
                f"{path} has two columns for the probability of {classes[k]!r} by one model: name the columns that are meant (--models, models=…)"
            )
        own[k] = place
    for model, places in found.items():
        missing = [one for k, one in enumerate(classes) if k not in places]
        if missing and (len(classes), len(places)) != (2, 1):
            raise InvalidInput(
                f"{path} has no column {model}_{missing[0]}: for more than two classes, a model has a column of probabilities for each"
            )
    return found


def _probabilities(values: Floats, models: dict[str, dict[int, int]], classes: int, path: Path) -> tuple[Floats, int]:
    """Return the probabilities of all classes by each model for each record, away from 0 and 1, and how many records had to be moved."""
    found = np.stack(
        [
            np.stack([values[places[k]] if k in places else 1 - values[places[1 - k]] for k in range(classes)], axis=1)
            for places in models.values()
        ]
    )
    return checked_rates(found, f"in {path}", "give the columns of probabilities (--models, models=…)")
