"""The demo: a labels party sends a message for each ε, and a features party trains on it. On generated data."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp import plots
from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.engines.arrow.source import LabelSource
from labeldp.mechanisms.decoding import code_values
from labeldp.message.reader import Message
from labeldp.paper.data import criteo_like, published_criteo
from labeldp.paper.experiments import figures, get_task
from labeldp.paper.html_page import Report
from labeldp.randomizer import LabelRandomizer
from labeldp.release.ledger import Ledger
from labeldp.release.privatize import privatize
from labeldp.training.boosting import BoostingRegressor
from labeldp.training.columns import ColumnEncoder
from labeldp.training.joining import Joined, join
from labeldp.training.sizing import label_share

EPSILONS = ("0.5", "1", "2", "4", "8")
DATASET = "sales"
SEED = 0


@dataclass(frozen=True)
class EpsilonResult:
    """Errors at one ε: ours on generated data, and the paper's on the genuine data.

    `bins` and `debiased` are test errors of models trained on two decodings of one message, `auto` on another message.
    """

    epsilon: float
    label_error: float
    bins: float
    debiased: float
    auto: float
    published_label_error: float
    published_test_error: float


@dataclass(frozen=True)
class DemoResult:
    """What a run of the demo measured: the test error without privacy, and the errors at each ε."""

    rows: int
    not_private: float
    by_epsilon: list[EpsilonResult]
    folder: Path


def run_demo(
    folder: Path,
    *,
    rows: int,
    on_step: Callable[[str], None] = lambda text: None,  # noqa: ARG005
) -> DemoResult:
    """Run the demo in `folder`: write data, ledger and messages, train models. `on_step` is called before each step."""
    on_step(f"generating {rows:,} Criteo-like sales")
    train, test = criteo_like(rows, seed=SEED).split(SEED)
    ids = np.random.default_rng(SEED).permutation(len(train))
    pq.write_table(pa.table({"order": ids, "amount": train.labels}), folder / "labels.parquet")
    pq.write_table(train.features.append_column("order", pa.array(ids)), folder / "features.parquet")
    ledger = Ledger.create(folder / "ledger.db")
    ledger.add_dataset(DATASET, 2 * sum(float(epsilon) for epsilon in EPSILONS))
    features_party = _FeaturesParty(train.features, test.features, test.labels)
    on_step("training without privacy, for comparison")
    not_private = features_party.test_error(np.arange(len(train)), train.labels)
    published = {row.epsilon: row for row in published_criteo()}
    results = []
    for epsilon in EPSILONS:
        on_step(f"ε = {epsilon}: the labels party writes its messages, the features party trains on them")
        message = _release(folder, epsilon, ledger, "rr-on-bins")
        joined = join(message, pa.array(ids))
        auto_message = _release(folder, epsilon, ledger, "auto")
        private_labels = message.mechanism.outputs[joined.codes]
        paper = published[float(epsilon)]
        results.append(
            EpsilonResult(
                epsilon=float(epsilon),
                label_error=float(np.mean((private_labels - train.labels[joined.rows]) ** 2)),
                bins=features_party.private_test_error(message, joined, "bins"),
                debiased=features_party.private_test_error(message, joined, "debiased"),
                auto=features_party.private_test_error(auto_message, join(auto_message, pa.array(ids)), "auto"),
                published_label_error=paper.mechanism_rr_on_bins,
                published_test_error=paper.test_rr_on_bins,
            )
        )
    return DemoResult(rows, not_private, results, folder)


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


class _FeaturesParty:
    """Gradient boosting on feature columns that are encoded once."""

    def __init__(self, features: pa.Table, test_features: pa.Table, test_labels: Floats) -> None:
        encoder = ColumnEncoder.for_trees(features)
        self._matrix, self._test_matrix = encoder.ordinal(features), encoder.ordinal(test_features)
        self._test_labels = test_labels

    def private_test_error(self, message: Message, joined: Joined, decoder: str) -> float:
        """Train on the message's values, with trees sized by the share of a true label that a value is worth."""
        values = code_values(message.mechanism, decoder)
        return self.test_error(joined.rows, values[joined.codes], label_share(message.mechanism, values))

    def test_error(self, rows: NDArray[np.int64], targets: Floats, share: float = 1.0) -> float:
        """Train, and return the mean squared error on the test rows, with predictions clipped to the public bounds."""
        model = BoostingRegressor(random_state=SEED, share=share).trees(rows.size)
        model.fit(self._matrix[rows], targets)
        return float(np.mean((np.clip(model.predict(self._test_matrix), 0, 400) - self._test_labels) ** 2))


def report(result: DemoResult) -> Report:
    """The result of the demo as an HTML page."""
    results = result.by_epsilon
    page = Report(
        "Training on private labels",
        f"{result.rows:,} generated sales, five privacy budgets, one message each. The labels were randomized before they "
        "left their owner; everything after that is post-processing.",
    )
    page.heading("What it costs")
    page.table(
        COLUMNS,
        list(table_rows(result)),
        caption="Mean squared test error. The last column is the paper's own network on the genuine data, trained on its bins.",
        best=[1 + int(np.argmin([row.bins, row.debiased, row.auto])) for row in results],
    )
    page.text(
        "The first two models of a row were trained on the same message. The paper's bins minimise the error of each label. That "
        "pulls the values to the middle, and a model trained on them as well. Debiased values remove that bias at no cost in "
        "privacy. `auto` is another message at the same ε, from a mechanism designed for the error of the model."
    )
    lines = {
        "RR-on-Bins (the paper)": [row.bins for row in results],
        "same message, debiased": [row.debiased for row in results],
        "auto": [row.auto for row in results],
        "not private": [result.not_private] * len(results),
    }
    published = {"RR-on-Bins (the paper)": [row.published_test_error for row in results]}
    page.figure(
        plots.curves(
            [row.epsilon for row in results],
            lines,
            published=published,
            ylabel="test MSE",
            title="error of the model against ε",
        ),
        "Hollow circles: the paper's published figures.",
    )
    page.heading("What was sent")
    message = Message.open(result.folder / "message-rr-on-bins-2")
    assert message.mechanism.prior is not None
    page.text(
        f"At ε = 2 the labels party spent {float(message.mechanism.prior.epsilon_exact):.3f} on a private histogram of its "
        f"labels and designed {message.mechanism.outputs.size} bins for it. A label keeps its bin with odds of e^ε to one "
        "against any other."
    )
    page.figure(message.mechanism.plot(), "The private prior, and the outputs and borders of the bins, at ε = 2.")
    task = get_task("criteo")
    assert task.calibrated is not None
    page.figure(
        figures.joint(task, task.calibrated),
        "Joint density of true and private labels at ε = 3, RR-on-Bins and Laplace, as in the paper.",
    )
    page.table(
        ["ε", "measured", "paper, published"],
        [[f"{row.epsilon:g}", f"{row.label_error:,.0f}", f"{row.published_label_error:,.0f}"] for row in results],
        caption="Mean squared error of the private labels themselves.",
    )
    page.heading("What is promised")
    page.preformatted((result.folder / "message-rr-on-bins-2" / "PRIVACY.md").read_text(encoding="utf-8"))
    return page


COLUMNS = ("ε", "paper's bins", "debiased", "auto", "auto / bins", "not private", "paper, published")


def table_rows(result: DemoResult) -> Iterator[tuple[str, ...]]:
    """The test errors, one row for each ε, under `COLUMNS`."""
    for row in result.by_epsilon:
        bins, debiased, auto, not_private, published = (
            f"{error:,.0f}"
            for error in (row.bins, row.debiased, row.auto, result.not_private, row.published_test_error)
        )
        yield f"{row.epsilon:g}", bins, debiased, auto, f"{row.auto / row.bins:.2f}", not_private, published
