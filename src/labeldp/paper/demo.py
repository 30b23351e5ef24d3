"""The whole story on generated data: a labels party, a message for each ε, a features party that trains three ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.engines.arrow.source import LabelSource
from labeldp.mechanisms import Laplace, RROnBins
from labeldp.mechanisms.decoding import code_values
from labeldp.message.reader import Message
from labeldp.paper.data import criteo_like, criteo_prior, published_criteo
from labeldp.randomizer import LabelRandomizer
from labeldp.release.ledger import Ledger
from labeldp.release.privatize import privatize
from labeldp.training.boosting import BoostingRegressor
from labeldp.training.columns import ColumnEncoder
from labeldp.training.joining import Joined, join
from labeldp.training.sizing import label_share

if TYPE_CHECKING:
    from labeldp.paper.html_page import Report

EPSILONS = ("0.5", "1", "2", "4", "8")
WAYS = ("bins", "debiased")
DATASET = "sales"


@dataclass(frozen=True)
class Row:
    """Test errors at one ε, ours and the paper's on the genuine data."""

    epsilon: float
    label_error: float
    bins: float
    debiased: float
    auto: float
    published_label_error: float
    published_test_error: float


@dataclass(frozen=True)
class DemoResult:
    """What a run of the demo found."""

    rows: int
    not_private: float
    figures: list[Row]
    folder: Path


def run_demo(folder: Path, *, rows: int, seed: int = 0, step: Callable[[str], None] = lambda text: None) -> DemoResult:  # noqa: ARG005
    """Runs the story in `folder`: data, ledger, messages, models. `step` is told what begins."""
    step(f"generating {rows:,} Criteo-like sales")
    train, test = criteo_like(rows, seed=seed).split(seed)
    ids = np.random.default_rng(seed).permutation(len(train))
    pq.write_table(pa.table({"order": ids, "amount": train.labels}), folder / "labels.parquet")
    pq.write_table(train.features.append_column("order", pa.array(ids)), folder / "features.parquet")
    ledger = Ledger.create(folder / "ledger.db")
    ledger.add_dataset(DATASET, 2 * sum(float(e) for e in EPSILONS))
    learner = _Learner(train.features, test.features, test.labels, seed)
    step("training without privacy, for comparison")
    not_private = learner.error(np.arange(len(train)), train.labels)
    published = {row.epsilon: row for row in published_criteo()}
    figures = []
    for epsilon in EPSILONS:
        step(f"ε = {epsilon}: the labels party writes its messages, the features party trains on them")
        message = _release(folder, epsilon, ledger, "rr-on-bins")
        joined = join(message, pa.array(ids))
        errors = {way: learner.private_error(message, joined, way) for way in WAYS}
        tuned = _release(folder, epsilon, ledger, "auto")
        errors["auto"] = learner.private_error(tuned, join(tuned, pa.array(ids)), "auto")
        private = message.mechanism.outputs[joined.codes]
        paper = published[float(epsilon)]
        figures.append(
            Row(
                float(epsilon),
                float(np.mean((private - train.labels[joined.rows]) ** 2)),
                errors["bins"],
                errors["debiased"],
                errors["auto"],
                paper.mechanism_rr_on_bins,
                paper.test_rr_on_bins,
            )
        )
    return DemoResult(rows, not_private, figures, folder)


def _release(folder: Path, epsilon: str, ledger: Ledger, mechanism: str) -> Message:
    """The labels party's whole job, as `labeldp privatize` does it."""
    out = folder / f"message-{mechanism}-{epsilon}"
    privatize(
        LabelSource(folder / "labels.parquet", "amount", "order"),
        LabelRandomizer(epsilon, Domain(0, 400, cells=401), mechanism=mechanism),
        out,
        ledger=ledger,
        dataset=DATASET,
    )
    return Message.open(out)


class _Learner:
    """The features party: gradient boosting on columns that were encoded once."""

    def __init__(self, features: pa.Table, test_features: pa.Table, test_labels: Floats, seed: int) -> None:
        encoder = ColumnEncoder.for_trees(features)
        self._matrix, self._test = encoder.ordinal(features), encoder.ordinal(test_features)
        self._labels, self._seed = test_labels, seed

    def private_error(self, message: Message, joined: Joined, decoder: str) -> float:
        """Trains on the message's values, sized by what share of a true label each is worth."""
        values = code_values(message.mechanism, decoder)
        return self.error(joined.rows, values[joined.codes], label_share(message.mechanism, values))

    def error(self, rows: NDArray[np.int64], targets: Floats, share: float = 1.0) -> float:
        """Mean squared error on held-out rows with true labels, predictions clipped into the public bounds."""
        model = BoostingRegressor(random_state=self._seed, share=share).trees(rows.size)
        model.fit(self._matrix[rows], targets)
        return float(np.mean((np.clip(model.predict(self._test), 0, 400) - self._labels) ** 2))


def report(story: DemoResult) -> Report:
    """The story as a page."""
    from labeldp import plots
    from labeldp.paper.html_page import Report

    prior = criteo_prior()
    page = Report(
        "Training on private labels",
        f"{story.rows:,} generated sales, five privacy budgets, one message each. The labels were randomized before they "
        "left their owner; everything after that is post-processing.",
    )
    page.heading("What it costs")
    page.table(
        COLUMNS,
        list(table_rows(story)),
        caption="Mean squared test error. The last column is the paper's own network on the genuine data, trained on its bins.",
        best=[1 + int(np.argmin([row.bins, row.debiased, row.auto])) for row in story.figures],
    )
    page.text(
        "The first two models of a row saw the same message. The paper's bins minimise the error of each label and are "
        "therefore pulled to the middle, and so is a model trained on them. Debiased values undo that pull on average, at no "
        "cost. `auto` is another message at the same ε, from a mechanism designed for the error of the model."
    )
    epsilons = [row.epsilon for row in story.figures]
    lines = {
        "RR-on-Bins (the paper)": [row.bins for row in story.figures],
        "same message, debiased": [row.debiased for row in story.figures],
        "auto": [row.auto for row in story.figures],
        "not private": [story.not_private] * len(epsilons),
    }
    published = {"RR-on-Bins (the paper)": [row.published_test_error for row in story.figures]}
    page.figure(
        plots.curves(epsilons, lines, published=published, ylabel="test MSE", title="error of the model against ε"),
        "Hollow circles: the paper's published figures.",
    )
    page.heading("What was sent")
    mechanism = Message.open(story.folder / "message-rr-on-bins-2").mechanism
    page.text(
        f"At ε = 2 the labels party spent {float(mechanism.prior.epsilon_exact):.3f} on a private histogram of its labels and found "  # type: ignore[union-attr]
        f"{mechanism.outputs.size} bins for it. A label keeps its bin with odds of e^ε to one against any other."
    )
    page.figure(mechanism.plot(), "The private prior, the bins' outputs and borders, at ε = 2.")
    page.figure(
        _joint(prior), "Joint density of true and private labels at ε = 3, RR-on-Bins and Laplace, as in the paper."
    )
    page.table(
        ["ε", "measured", "paper, published"],
        [[f"{r.epsilon:g}", f"{r.label_error:,.0f}", f"{r.published_label_error:,.0f}"] for r in story.figures],
        caption="Mean squared error of the private labels themselves.",
    )
    page.heading("What is promised")
    page.preformatted((story.folder / "message-rr-on-bins-2" / "PRIVACY.md").read_text(encoding="utf-8"))
    return page


def _joint(prior: Any) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    RROnBins.optimal(prior, 3).plot(prior, view="joint", ax=left)
    Laplace((0, 400), 3).plot(prior, view="joint", ax=right)
    return figure


COLUMNS = ("ε", "paper's bins", "debiased", "auto", "auto / bins", "not private", "paper, published")


def table_rows(story: DemoResult) -> Iterator[tuple[str, ...]]:
    """The test errors, a row for each ε, under `COLUMNS`."""
    for row in story.figures:
        yield (
            f"{row.epsilon:g}",
            f"{row.bins:,.0f}",
            f"{row.debiased:,.0f}",
            f"{row.auto:,.0f}",
            f"{row.auto / row.bins:.2f}",
            f"{story.not_private:,.0f}",
            f"{row.published_test_error:,.0f}",
        )
