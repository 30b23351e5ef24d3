"""`auto`: the mechanism and the training values for a model, from n, ε and the private prior alone.

The rule. A model trained on n private values keeps the bias that its features can see and averages the rest:

    test error ≈ floor + E[(E[bias | x])²] + (CAPACITY / n)·E[Var(value | x)]

For squared loss `choose` takes the ε-DP mechanism with the least such error, `BiasVariance.optimal` with τ = CAPACITY / n
and visible = VISIBLE; its own outputs are the values to train on. For every other loss it returns the paper's mechanism,
RR-on-Bins for that loss, made as in the paper; where a mean minimises the loss (Poisson, gamma) its values are debiased.

CAPACITY and VISIBLE are two numbers about models and data that nobody knows before training. They were fitted once, on
generated data (docs/beyond-the-paper.md): the error of gradient boosting follows the formula with 30 degrees of freedom,
and taking features to explain 0.7 of the label is a cautious guess. Being wrong about either by a factor of two costs a
few percent. The choice is a function of public numbers and costs no privacy; only `choose_privately` reads counts of
labels, for the prior, and says what that costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact
from labeldp.decode import code_values, training_decoder
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.losses import get_loss
from labeldp.mechanisms.bias_variance import MOST_LABELS, BiasVariance
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.rr_on_bins import RROnBins
from labeldp.mechanisms.unbiased import Unbiased
from labeldp.prior import BudgetSplit, Prior, check_histogram, noisy_counts, prior_from_counts, split_budget
from labeldp.tradeoff.excess import Excess, expected_excess
from labeldp.tradeoff.visibility import visible_part
from labeldp.unimodal import unimodal_masses

if TYPE_CHECKING:
    from labeldp.mechanisms.base import LossLike

CAPACITY = 30.0
"""Degrees of freedom that a model spends: the share of the values' variance in its error is CAPACITY / n."""
VISIBLE = 0.7
"""The share of the label that features are taken to explain."""
MOST_FOR_PRIOR = Fraction(1, 10)
"""The most that `auto` spends on its prior."""
COARSE = 1001
"""Cells of a design whose domain has more labels than it can tell apart."""


@dataclass(frozen=True, eq=False)
class Choice:
    """A mechanism, what its codes stand for in training, and what that is expected to cost.

    `decoder` is a name for `labeldp.decode.code_values`; `values` are what it gives. `predicted_error` is the test MSE
    that the rule above expects, of features that explain VISIBLE of the label.
    """

    name: str
    mechanism: FiniteMechanism
    decoder: str
    excess: Excess
    predicted_error: float
    why: str

    @property
    def values(self) -> Floats:
        """A number to train on for each code."""
        return code_values(self.mechanism, self.decoder)


def choose(
    prior: Prior,
    epsilon: Epsilon,
    records: int,
    loss: LossLike = "squared",
    *,
    domain: Domain | tuple[float, float] | None = None,
) -> Choice:
    """The mechanism and decoder for training a model on `records` labels at `epsilon` each; see the module's rule."""
    measure = get_loss(loss)
    tau = weight_of_variance(records)
    if measure.name == "squared":
        prior, domain = _coarse(prior, domain)
        mechanism: FiniteMechanism
        try:
            mechanism = BiasVariance.optimal(prior, epsilon, tau, visible=VISIBLE, domain=domain)
        except InvalidInput:
            raise
        except (
            LabelDPError
        ):  # the solver gave up on this noisy prior: a second draw would be a second look at the labels
            mechanism = RROnBins.optimal(prior, epsilon, domain=domain)
            return _judged(
                "auto", mechanism, "debiased", prior, tau, "RR-on-Bins, debiased: the program had no solution"
            )
        why = (
            f"least expected error of a model on {records:,} records: visible bias² + {tau:.3g} × variance, "
            f"features taken to explain {VISIBLE:g} of the label"
        )
        return _judged("auto", mechanism, "bins", prior, tau, why)
    mechanism = RROnBins.optimal(prior, epsilon, measure, domain=None if domain is None else Domain.of(domain))
    prior, _ = _coarse(prior, domain)
    why = f"RR-on-Bins, optimal for the {measure.name} loss of the labels"
    return _judged("auto", mechanism, training_decoder(mechanism), prior, tau, why)


def choose_privately(
    counts: NDArray[np.int64], domain: Domain, epsilon: Epsilon, records: int, loss: LossLike = "squared"
) -> Choice:
    """`choose` from exact counts on the cells of `domain`: the private prior and the mechanism together cost ε.

    Privacy: ε₁ for the histogram (integer Laplace noise of scale 2/ε₁) and ε₂ for each label, ε₁ + ε₂ = ε exactly, by
    `split_for_training`. Cells that the design cannot tell apart are counted together; then noise is added once, and what
    `unimodal_masses` makes of the noisy counts is post-processing.
    """
    split = split_for_training(epsilon, domain.count, records, loss)
    if get_loss(loss).name != "squared":
        return choose(prior_from_counts(counts, domain, split.scale), split.labels, records, loss, domain=domain)
    if domain.count > MOST_LABELS:
        fine, domain = domain, Domain(domain.lower, domain.upper, COARSE)
        counts = np.bincount(domain.cell(fine.grid), counts, COARSE).astype(np.int64)
    masses = unimodal_masses(noisy_counts(counts, split.scale), records, split.scale)
    return choose(Prior(domain.grid, masses, split.prior), split.labels, records, domain=domain)


def split_for_training(epsilon: Epsilon, cells: int, records: int, loss: LossLike = "squared") -> BudgetSplit:
    """ε/25 for the prior, at most MOST_FOR_PRIOR, and the rest for the labels: a design needs only a rough prior.

    The paper's √(cells/records) grows too large where cells are many and too small where they are few: whether a tail
    is real or noise is worth more than the 4 % that the labels lose. At large ε the labels' variance grows with e^ε₁,
    whatever ε is, which is what the limit is for. Losses with the paper's mechanism keep its split.
    """
    if get_loss(loss).name != "squared":
        return split_budget(epsilon, cells, records)
    total = exact(epsilon)
    check_histogram(cells, records)
    advice = (
        f"{records:,} records are too few to learn how the labels are distributed at epsilon = {float(total):g}: "
        "the mechanism is designed for nearly flat labels. A public prior helps."
    )
    most = min(total / 25, MOST_FOR_PRIOR)
    return BudgetSplit.spending(most, total, advice if 2 / most > Fraction(records, 4) else None)


def alternatives(
    prior: Prior, epsilon: Epsilon, records: int, *, domain: Domain | tuple[float, float] | None = None
) -> list[Choice]:
    """What `choose` decided against, and its own choice last: for showing bias, variance and predicted error side by side."""
    budget, tau = exact(epsilon), weight_of_variance(records)
    prior, domain = _coarse(prior, domain)
    bins = RROnBins.optimal(prior, budget)
    return [
        _judged("rr-on-bins", bins, "bins", prior, tau, "the paper: least error of the labels"),
        _judged(
            "rr-on-bins, debiased", bins, "debiased", prior, tau, "the same message, corrected for its bias by bins"
        ),
        _judged("unbiased", Unbiased.optimal(prior, budget, domain=domain), "bins", prior, tau, "no bias at any label"),
        _judged(
            "bias-variance",
            BiasVariance.optimal(prior, budget, tau, domain=domain),
            "bins",
            prior,
            tau,
            "bias at every label weighed against variance",
        ),
        choose(prior, budget, records, domain=domain),
    ]


def label_share(mechanism: FiniteMechanism, values: Floats, prior: Prior | None = None) -> float:
    """The share of a true label that a private value tells about a mean: corr(value, label)² under the prior.

    n private values are worth n·share true labels. The prior is the mechanism's own unless given; without any, 1.
    """
    prior = prior or mechanism.prior
    if prior is None:
        return 1.0
    means, variances = mechanism.conditional_moments(prior.values, values)
    spread = float(prior.masses @ (variances + means**2)) - float(prior.masses @ means) ** 2
    shared = float(prior.masses @ (means * (prior.values - prior.mean)))
    if spread <= 0 or prior.variance <= 0:
        return 0.0
    return min(1.0, shared**2 / (spread * prior.variance))


def boosting_settings(records: int, share: float = 1.0) -> dict[str, Any]:
    """Parameters of scikit-learn's `HistGradientBoostingRegressor` for `records` values, each worth `share` of a true label.

    A leaf should hold about twenty true labels' worth of records, and the trees stay small and few while there are few
    of those; with many the defaults come back. Give categories as ordinary codes, not as `categorical_features`: sorting
    categories by their noisy means fits the noise (docs/beyond-the-paper.md has the figures).
    """
    effective = records * share
    return {
        "max_leaf_nodes": int(min(31, 3 + effective // 1500)),
        "max_iter": int(min(100, max(15, effective / 5), 60 + effective // 500)),
        "min_samples_leaf": int(max(1, min(20 / max(share, 1e-9), records / 4))),
        "early_stopping": False,
    }


def network_settings(records: int, share: float = 1.0, batch_size: int = 8192) -> dict[str, int]:
    """Parameters of `labeldp.learn.network.NetworkRegressor` for `records` values, each worth `share` of a true label.

    The network learns what many records share in few steps, then single records by heart. 3·∛(true labels' worth) steps
    stop it between the two, whole epochs and at least one of them.
    """
    steps = 3 * max(records * share, 1.0) ** (1 / 3)
    return {"epochs": math.ceil(steps / math.ceil(max(records, 1) / batch_size))}


def _coarse(prior: Prior, domain: Domain | tuple[float, float] | None) -> tuple[Prior, Domain | None]:
    """Prior and domain as they are, or on 1,001 cells where they have more labels than a design can tell apart.

    Rounding to a thousandth of the range is far below the noise of any ε that protects.
    """
    frame = Domain.of(domain) if domain is not None else None
    cells = 0 if frame is None or frame.cells is None else frame.cells
    if max(prior.values.size, cells) <= MOST_LABELS:
        return prior, frame
    ends = (frame.lower, frame.upper) if frame is not None else (float(prior.values[0]), float(prior.values[-1]))
    coarse = Domain(*ends, COARSE)
    masses = np.bincount(coarse.cell(prior.values), prior.masses, minlength=COARSE)
    return Prior(coarse.grid, masses, prior.epsilon_exact), coarse


def weight_of_variance(records: int) -> float:
    """τ = CAPACITY / n, at most 1."""
    if records < 1:
        raise InvalidInput(f"the number of records must be at least 1, got {records}")
    return min(1.0, CAPACITY / records)


def _judged(name: str, mechanism: FiniteMechanism, decoder: str, prior: Prior, tau: float, why: str) -> Choice:
    excess = expected_excess(mechanism, code_values(mechanism, decoder), prior, visible=VISIBLE)
    held = prior.masses > 0
    labels, masses = prior.values[held] - prior.mean, prior.masses[held]
    joint = visible_part(masses, VISIBLE)
    floor = float(masses @ np.square(labels) - labels @ joint @ labels)
    return Choice(name, mechanism, decoder, excess, excess.test_error(tau, floor), why)
