"""Label inference against real messages: how often is an attacker right about one record, and what does ε limit of that?

    python benchmarks/label_inference.py [--records 40000] [--epsilon 0.25 0.5 1 2 4 8] [--mechanism NAME …]
        [--secret median cap] [--releases 3] [--seed 0] [--out results.json]

The labels are Criteo-like purchase values in whole euros, and the features those of `criteo_like`. Each row of the table is the
mean over several messages that `privatize` wrote and `Message.open` read back. The secret is a statement about one record: its amount is above the
median of all amounts, or at the cap of 400. All attackers know the distribution of the amounts, the mechanism and the features.

- *prior*: knows the distribution only.
- *code*: adds the record's own code, by Bayes.
- *model*: trains a model on the codes of other records of the message, and applies it to the record's features.
- *outsiders*: the same model, applied to records that are not in the message at all.
- *model + code*: multiplies the model's distribution for the record by the likelihood of its code. The strongest realistic one.
- *true*: like *model*, with the true labels of the other records. It reads nothing that was released.
- *true + code*: the attacker of the definition, who knows all labels but one.

The model is gradient boosting of the label's normal score, with one spread for all records. It gives each record a normal
distribution of the score, and so a distribution over the 401 amounts. One half of the records trains it. A quarter sets slope and
spread, by maximum likelihood of the codes there, so that the model is as sure of itself as it may be. The last quarter is attacked:
nothing but its code tells about an attacked record.

The advantage is P[says yes | yes] − P[says yes | no]: 0 for guessing, 1 for certainty. By ε-DP a code adds at most
(e^ε − 1)/(e^ε + 1) to the advantage of an attacker who otherwise decides as well as it can. Exit code 1: what the code adds to
*prior* lies above the bound by more than chance explains, at a confidence of 99.99 % for the whole table.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri
from threadpoolctl import threadpool_limits

from labeldp import LabelRandomizer, LabelSource, Message, Prior, privatize
from labeldp.design.visibility import best_values, visible_bias_matrix
from labeldp.learn import BoostingRegressor
from labeldp.mechanisms import FiniteMechanism
from labeldp.mechanisms.bias_variance import VISIBLE, NormalScores, weight_of_variance
from labeldp.mechanisms.prediction import value_share
from labeldp.mechanisms.registry import MECHANISMS
from labeldp.paper.data import criteo_like, criteo_prior
from labeldp.priors import BudgetWarning

Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
DEFAULT = ("auto", "unbiased", "rr-on-bins", "discrete-laplace")
SECRETS = ("median", "cap")
GROUPS = 40
"""Amounts are taken together in so many groups to find slope and spread."""
MISSES = 1e-4


@dataclass(frozen=True)
class World:
    """What exists before anything is released. The first `inside` records are in the message, the others are outsiders."""

    features: pa.Table
    labels: Floats
    inside: int
    prior: Prior

    @classmethod
    def generated(cls, records: int, seed: int) -> World:
        """A quarter as many outsiders as records."""
        data = criteo_like(records + records // 4, seed)
        return cls(data.features, np.rint(data.labels), records, criteo_prior())

    @property
    def parts(self) -> tuple[slice, slice, slice]:
        """The records that train a model, those that set its spread, and those that are attacked. Rows are independent."""
        half, quarter = self.inside // 2, self.inside // 4
        return slice(half), slice(half, self.inside - quarter), slice(self.inside - quarter, self.inside)

    def secret(self, name: str) -> Truths:
        """For each amount whether the statement is true of it."""
        values = self.prior.values
        if name == "cap":
            return values == values[-1]
        return values > values[np.searchsorted(np.cumsum(self.prior.masses), 0.5)]


@dataclass(frozen=True)
class Result:
    """The advantage of every attacker against one message, and the most that the code may add."""

    secret: str
    mechanism: str
    epsilon: float
    code: float
    expected: float
    model: float
    outsiders: float
    model_code: float
    true: float
    true_code: float
    bound: float
    chance: float

    @property
    def fine(self) -> bool:
        return self.code <= self.bound + self.chance


def main() -> int:
    exact = [entry.name for entry in MECHANISMS if entry.exact]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=40_000, help="records in the message")
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--mechanism", nargs="+", choices=exact, default=DEFAULT)
    parser.add_argument("--secret", nargs="+", choices=SECRETS, default=SECRETS)
    parser.add_argument("--releases", type=int, default=3, help="messages for each row")
    parser.add_argument("--seed", type=int, default=0, help="of the data and the models; codes are drawn afresh")
    parser.add_argument("--out", type=Path, help="also write the results as JSON")
    arguments = parser.parse_args()
    world = World.generated(arguments.records, arguments.seed)
    honest = true_model(world)
    cells = [(name, epsilon) for name in arguments.mechanism for epsilon in arguments.epsilon]
    misses = MISSES / (len(cells) * len(arguments.secret))
    results = list[Result]()
    with threadpool_limits(1):  # fits are small, and threads that wait for each other cost more than they save
        for name, epsilon in track(cells, "attacks", console=Console(stderr=True)):
            runs = [attack(world, honest, name, epsilon, arguments.secret, misses) for _ in range(arguments.releases)]
            results += [averaged(same) for same in zip(*runs, strict=True)]
    for secret in arguments.secret:
        print(table(secret, [one for one in results if one.secret == secret]), end="\n\n")
    if arguments.out is not None:
        arguments.out.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n", encoding="utf-8")
    return 0 if all(one.fine for one in results) else 1


def attack(
    world: World,
    honest: Learned,
    name: str,
    epsilon: float,
    secrets: Iterable[str],
    misses: float,
    spent: float | None = None,
) -> list[Result]:
    """Release one message and attack every record in it. `spent` is for tests: what it costs in truth, if not ε."""
    mechanism, codes = release(world, name, epsilon if spent is None else spent)
    channel = mechanism.matrix(world.prior.values)
    model = private_model(world, mechanism, codes)
    attacked = world.parts[2]
    likelihoods = channel[:, codes[attacked]].T
    amounts = np.searchsorted(world.prior.values, world.labels)
    results = list[Result]()
    for secret in secrets:
        yes = world.secret(secret)
        inside, outside = yes[amounts[: world.inside]], yes[amounts[world.inside :]]
        share = world.prior.masses[yes].sum()
        if_yes, if_no = (channel[part].T @ world.prior.masses[part] for part in (yes, ~yes))
        fewer = min(inside.sum(), inside.size - inside.sum())
        found = {
            name: advantage(share, weights[:, yes].sum(axis=1), weights[:, ~yes].sum(axis=1), truth)
            for name, weights, truth in (
                ("model", model.inside, inside[attacked]),
                ("outsiders", model.outside, outside),
                ("model_code", model.inside * likelihoods, inside[attacked]),
                ("true", honest.inside, inside[attacked]),
                ("true_code", honest.inside * likelihoods, inside[attacked]),
            )
        }
        results.append(
            Result(
                secret,
                name,
                epsilon,
                code=advantage(share, if_yes[codes], if_no[codes], inside),
                expected=float(np.abs(if_yes / share - if_no / (1 - share)).sum()) / 2,
                bound=math.tanh(epsilon / 2),
                chance=2
                * math.sqrt(math.log(4 / misses) / (2 * float(fewer))),  # Hoeffding, for each of the two shares
                **found,
            )
        )
    return results


def averaged(results: Sequence[Result]) -> Result:
    """The mean over messages of one kind. All of them draw independently, so chance shrinks with their number."""
    first, numbers = results[0], ("code", "expected", "model", "outsiders", "model_code", "true", "true_code")
    means = {name: float(np.mean([getattr(one, name) for one in results])) for name in numbers}
    return replace(first, chance=first.chance / math.sqrt(len(results)), **means)


def advantage(share: float, for_yes: Floats, for_no: Floats, truth: Truths) -> float:
    """P[says yes | yes] − P[says yes | no] of who says yes where the odds are above those of the prior.

    The probabilities of yes and of no are known up to a factor for each record. Ties are decided by a coin.
    """
    high, low = for_yes * (1 - share), for_no * share
    coins = np.random.default_rng(0).integers(0, 2, truth.size)
    says = np.where(np.isclose(high, low, rtol=1e-9, atol=0), coins, high > low)
    return float(says[truth].mean() - says[~truth].mean())


def release(world: World, name: str, epsilon: float) -> tuple[FiniteMechanism, NDArray[np.intp]]:
    """A message on disk, as the labels party writes it and everybody else reads it."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        sales, message = Path(folder, "sales.parquet"), Path(folder, "message")
        pq.write_table(pa.table({"order": np.arange(world.inside), "amount": world.labels[: world.inside]}), sales)
        randomizer = LabelRandomizer(epsilon, (0, 400), mechanism=name)
        privatize(LabelSource(sales, "amount", "order"), randomizer, message)
        opened = Message.open(message)
        return opened.mechanism, np.asarray(opened.to_arrow().sort_by("order")["code"]).astype(np.intp)


@dataclass(frozen=True)
class Learned:
    """What a model believes about the attacked records and about outsiders: a distribution over the amounts in each row."""

    inside: Floats
    outside: Floats


def true_model(world: World) -> Learned:
    """Of the attacker who knows the true labels of others."""
    amounts = np.searchsorted(world.prior.values, world.labels[: world.inside])
    return learned(
        world, NormalScores.under(world.prior).scores[amounts], 1.0, np.eye(world.prior.values.size), amounts
    )


def private_model(world: World, mechanism: FiniteMechanism, codes: NDArray[np.intp]) -> Learned:
    """Of the attacker who has the message: codes stand for the numbers from which the score is learned best."""
    prior, scores = world.prior, NormalScores.under(world.prior).scores
    channel = mechanism.matrix(prior.values)
    visible, weight = visible_bias_matrix(prior.masses, VISIBLE), weight_of_variance(world.inside // 2)
    values = best_values(channel, visible, prior.masses, weight, scores)
    return learned(world, values[codes], value_share(mechanism, values, prior, scores), channel, codes)


def learned(world: World, scores: Floats, share: float, channel: Floats, codes: NDArray[np.intp]) -> Learned:
    """A model of the score, and what it believes about the attacked records and about outsiders."""
    training, setting, attacked = world.parts
    model = BoostingRegressor(share=share, random_state=0).fit(rows(world.features, training), scores[training])
    fit = fitted(world.prior, model.predict(rows(world.features, setting)), channel, codes[setting])
    cumulated = np.cumsum(world.prior.masses)
    return Learned(
        distributions(cumulated, model.predict(rows(world.features, attacked)), *fit),
        distributions(cumulated, model.predict(world.features.slice(world.inside)), *fit),
    )


def rows(features: pa.Table, part: slice) -> pa.Table:
    start, stop, _ = part.indices(features.num_rows)
    return features.slice(start, stop - start)


def fitted(prior: Prior, location: Floats, channel: Floats, codes: NDArray[np.intp]) -> tuple[float, float]:
    """The slope and the spread under which these codes are most likely."""
    cumulated = np.cumsum(prior.masses)
    group = np.minimum((cumulated * GROUPS).astype(np.intp), GROUPS - 1)
    joint = np.zeros((GROUPS, channel.shape[1]))
    np.add.at(joint, group, prior.masses[:, None] * channel)
    masses = np.bincount(group, prior.masses, GROUPS)
    held = masses > 0
    likelihoods = (joint[held] / masses[held, None])[:, codes].T

    def surprise(parameters: Floats) -> float:
        slope, log_spread = parameters
        beliefs = distributions(np.cumsum(masses[held]), location, slope, math.exp(log_spread))
        return -float(np.log(np.maximum((beliefs * likelihoods).sum(axis=1), 1e-300)).mean())

    slope, log_spread = minimize(surprise, [1.0, -0.5], method="Nelder-Mead", options={"maxfev": 60}).x
    return float(slope), math.exp(log_spread)


def distributions(cumulated: Floats, location: Floats, slope: float, spread: float) -> Floats:
    """The probability of each amount, if the record's normal score is normal around slope × location."""
    edges = np.concatenate([[-np.inf], ndtri(np.minimum(cumulated[:-1], 1)), [np.inf]])
    return np.diff(ndtr((edges - slope * location[:, None]) / spread), axis=1)


def table(secret: str, results: list[Result]) -> str:
    """The results in Markdown."""
    lines = [
        f"secret: {secret}. Advantage over guessing; the prior alone has 0.",
        "",
        "| mechanism | ε | bound | code | model | outsiders | model + code | true | true + code |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for one in results:
        figures = (one.bound, one.code, one.model, one.outsiders, one.model_code, one.true, one.true_code)
        shown = " | ".join(f"{figure:.2f}" for figure in figures)
        lines.append(f"| {one.mechanism} | {one.epsilon:g} | {shown} |" + ("" if one.fine else " ABOVE THE BOUND"))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
