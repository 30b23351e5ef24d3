"""The demo: a labels party sends `auto`'s message and the paper's, and a features party trains on them. On generated data."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp import plots
from labeldp.arrays import Floats
from labeldp.artifact.reader import Message
from labeldp.domain import Domain
from labeldp.engines.arrow.source import LabelSource
from labeldp.learn.feature_columns import ColumnEncoder
from labeldp.learn.joined_features import Joined, join
from labeldp.learn.learners import BoostingRegressor
from labeldp.mechanisms import MECHANISMS
from labeldp.mechanisms.auto import alternatives
from labeldp.mechanisms.decoding import code_values
from labeldp.mechanisms.prediction import label_share
from labeldp.paper.data import criteo_like, published_criteo
from labeldp.paper.experiments.tasks import get_method
from labeldp.paper.html_page import Report
from labeldp.release.labels import privatize
from labeldp.release.ledger import Ledger
from labeldp.release.randomizer import LabelRandomizer

EPSILON = "1"
"""The budget of the story."""
EPSILONS = ("0.5", "1", "2", "4")
"""The budgets of the one picture that compares several."""
DOMAIN = Domain(0, 400, cells=401)
DATASET = "sales"
SEED = 0
PAPER, DEBIASED, AUTO, NOT_PRIVATE = "paper's bins", "same, debiased", "auto", "without privacy"
COLOURS = {
    PAPER: MECHANISMS["rr-on-bins"].colour,
    DEBIASED: get_method("debiased").colour,
    AUTO: MECHANISMS["auto"].colour,
    NOT_PRIVATE: plots.QUIET,
}

COLUMNS = ("trained on", "test error", "above no privacy")
MEAN_ONLY = "nothing: answers the mean"


@dataclass(frozen=True)
class EpsilonResult:
    """Test errors at one ε: of models trained on the paper's bins and on `auto`'s values, and the paper's on genuine data."""

    epsilon: float
    bins: float
    auto: float
    published: float


@dataclass(frozen=True)
class DemoResult:
    """What a run of the demo measured.

    `errors` are test errors by what a model was trained on, at `EPSILON`. `mean_only` is the error of a model that
    answers the mean of the labels for all features.
    """

    rows: int
    records: int
    mean_only: float
    errors: dict[str, float]
    by_epsilon: list[EpsilonResult]
    folder: Path

    @property
    def not_private(self) -> float:
        """The test error of training on the true labels."""
        return self.errors[NOT_PRIVATE]


def run_demo(folder: Path, *, rows: int, on_step: Callable[[str], None]) -> DemoResult:
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
    errors = {NOT_PRIVATE: features_party.test_error(np.arange(len(train)), train.labels)}
    published = {row.epsilon: row.test_rr_on_bins for row in published_criteo()}
    results = []
    for epsilon in EPSILONS:
        on_step(f"ε = {epsilon}: the labels party writes its messages, the features party trains on them")
        paper, auto = (_release(folder, epsilon, ledger, name) for name in ("rr-on-bins", "auto"))
        joined = join(paper, pa.array(ids))
        bins = features_party.private_test_error(paper, joined, "bins")
        best = features_party.private_test_error(auto, join(auto, pa.array(ids)), "auto")
        if epsilon == EPSILON:
            debiased = features_party.private_test_error(paper, joined, "debiased")
            errors = {PAPER: bins, DEBIASED: debiased, AUTO: best} | errors
        results.append(EpsilonResult(float(epsilon), bins, best, published[float(epsilon)]))
    mean_only = float(np.mean((test.labels - train.labels.mean()) ** 2))
    return DemoResult(rows, len(train), mean_only, errors, results, folder)


def _release(folder: Path, epsilon: str, ledger: Ledger, mechanism: str) -> Message:
    """Return the labels party's whole job, as `labeldp privatize` does it."""
    out = folder / f"message-{mechanism}-{epsilon}"
    privatize(
        LabelSource(folder / "labels.parquet", "amount", "order"),
        LabelRandomizer(epsilon, DOMAIN, mechanism=mechanism),
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
        self._numeric = len(encoder.numeric)
        self._test_labels = test_labels

    def private_test_error(self, message: Message, joined: Joined, decoder: str) -> float:
        """Train on the message's values, with trees sized by the share of a true label that a value is worth."""
        values = code_values(message.mechanism, decoder)
        return self.test_error(joined.rows, values[joined.codes], label_share(message.mechanism, values))

    def test_error(self, rows: NDArray[np.int64], targets: Floats, share: float = 1.0) -> float:
        """Train, and return the mean squared error on the test rows, with predictions clipped to the public bounds."""
        model = BoostingRegressor(random_state=SEED, share=share).model(rows.size, self._numeric)
        model.fit(self._matrix[rows], targets)
        return float(np.mean((np.clip(model.predict(self._test_matrix), 0, 400) - self._test_labels) ** 2))


def table_rows(result: DemoResult) -> list[tuple[str, str, str]]:
    """Return the test errors at `EPSILON` under `COLUMNS`, `auto` last but one."""
    errors = {MEAN_ONLY: result.mean_only} | result.errors
    return [
        (name, f"{error:,.0f}", "" if name == NOT_PRIVATE else f"{error / result.not_private - 1:+.0%}")
        for name, error in errors.items()
    ]


def report(result: DemoResult) -> Report:
    """Return the result of the demo as an HTML page."""
    page = Report(
        "Training on private labels",
        f"{result.rows:,} generated sales, each label sent with ε = {EPSILON}. The labels were randomized before they left their "
        "owner; everything after that is post-processing.",
    )
    rows = table_rows(result)
    page.heading("What it costs")
    page.table(
        COLUMNS,
        rows,
        caption=f"Mean squared error of the model on {result.rows - result.records:,} other sales, ε = {EPSILON}.",
        best=[1 if row[0] == AUTO else -1 for row in rows],
    )
    page.text(
        "The paper's bins have the smallest error of single labels. But they pull all labels towards the middle, and a model learns that "
        "pull. Debiased values remove the pull from the same message, at no cost in privacy. `auto`, the default, sends another message "
        "with the same ε. Its mechanism is designed for the smallest error of the model."
    )
    paper, auto = (Message.open(result.folder / f"message-{name}-{EPSILON}") for name in ("rr-on-bins", "auto"))
    _why(page, paper, auto, result)
    _what_was_sent(page, auto)
    _other_budgets(page, result)
    page.heading("What is promised")
    page.text(
        "Every message contains this page, `PRIVACY.md`. It is written for the people who are responsible for the labels:"
    )
    page.markdown((auto.path / "PRIVACY.md").read_text(encoding="utf-8"))
    return page


def _why(page: Report, paper: Message, auto: Message, result: DemoResult) -> None:
    """Show the parts of the measured errors, and what a label becomes on average."""
    page.heading("What the error is made of")
    prior = auto.mechanism.prior
    assert prior is not None
    found = alternatives(prior, auto.mechanism.epsilon_exact, result.records, domain=DOMAIN)
    predicted = {choice.name: choice.prediction for choice in found}
    names = {PAPER: "rr-on-bins", DEBIASED: "rr-on-bins, debiased", AUTO: "auto"}
    floors = [min(result.not_private, result.errors[name]) for name in names]
    biases = [
        (result.errors[name] - floor) * predicted[choice].bias / (predicted[choice].bias + predicted[choice].noise)
        for (name, choice), floor in zip(names.items(), floors, strict=True)
    ]
    noises = [result.errors[name] - floor - bias for name, floor, bias in zip(names, floors, biases, strict=True)]
    drawn = plots.error_parts(list(names), floors, biases, noises, title=f"what the error is made of, ε = {EPSILON}")
    page.figure(
        drawn,
        "The bars are the test errors in the table. The floor is the error without privacy. The shares of bias and noise above it are "
        f"predicted for {result.records:,} records from the private histogram.",
    )
    page.text(
        "A model averages noise over many records, but it learns bias. So `auto` adds much noise to single labels, and keeps them right "
        "on average. The paper's mechanism keeps single labels near the truth, and accepts a large bias."
    )
    labels = DOMAIN.grid
    means = {PAPER: paper.mechanism.conditional_moments(labels)[0], AUTO: auto.mechanism.conditional_moments(labels)[0]}
    drawn = plots.mean_values(labels, means, colours=COLOURS, title=f"what a label becomes on average, ε = {EPSILON}")
    page.figure(drawn, "On the dashed line, private labels are right on average.")


def _what_was_sent(page: Report, auto: Message) -> None:
    mechanism = auto.mechanism
    page.heading("What was sent")
    prior = mechanism.prior
    assert prior is not None
    page.text(
        f"The labels party spent {float(prior.epsilon_exact):.2f} of ε = {EPSILON} on a private histogram of its labels, and "
        f"{mechanism.epsilon:.2f} on the labels. Each label was replaced by one of {mechanism.outputs.size} outputs. Many of them lie far "
        "outside the range from 0 to 400. That is the noise that a model averages. Every output is possible for every label, "
        f"and none is more than {math.exp(mechanism.epsilon):.2f} times as likely from one label as from another."
    )
    drawn = plots.bins(
        mechanism.outputs,
        np.empty(0),
        (prior.values, prior.masses),
        chances=prior.masses @ mechanism.matrix(prior.values),
        colour=COLOURS[AUTO],
        title=f"auto's {mechanism.outputs.size} outputs, ε = {EPSILON}",
    )
    low, high = float(mechanism.outputs.min()), float(mechanism.outputs.max())
    page.figure(
        drawn,
        "The private histogram of the labels, and the outputs that the message can contain.",
        alt=f"The private prior of the labels from 0 to 400, falling from left to right, and {mechanism.outputs.size} outputs "
        f"as upright lines from {low:,.0f} to {high:,.0f}, most of them below 0 or above 400.",
    )


def _other_budgets(page: Report, result: DemoResult) -> None:
    """Draw the picture that compares several ε, and write its figures."""
    page.heading("Other values of ε")
    rows = result.by_epsilon
    lines = {
        PAPER: [row.bins for row in rows],
        AUTO: [row.auto for row in rows],
        NOT_PRIVATE: [result.not_private] * len(rows),
    }
    drawn = plots.curves(
        [row.epsilon for row in rows],
        lines,
        published={PAPER: [row.published for row in rows]},
        colours=COLOURS,
        dashed=[NOT_PRIVATE],
        ylabel="test error (mean squared)",
        title="error of the model against ε",
    )
    page.figure(drawn, "The circles are published in the paper: its network, trained on its bins of the genuine data.")
    cells = [
        (f"{row.epsilon:g}", *(f"{error:,.0f}" for error in (row.bins, row.auto, result.not_private, row.published)))
        for row in rows
    ]
    page.table(("ε", PAPER, AUTO, NOT_PRIVATE, "paper, published"), cells)
    page.details("The numbers in this picture")
