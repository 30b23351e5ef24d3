"""`auto`: the mechanism and the training values for a model, from n, ε and the private prior alone.

The rule. A model trained on n private values keeps the bias that is visible to its features and averages the rest:

    test error ≈ floor + E[(E[bias | x])²] + (CAPACITY / n)·E[Var(value | x)]

`choose` takes the ε-DP mechanism with the least such error, `BiasVariance.optimal` with τ = CAPACITY / n and visible =
VISIBLE; its own outputs are the values to train on. For a loss other than squared the error is measured on a scale of
the labels where equal errors have equal loss (`Loss.stretched`): roots for Poisson, logarithms for gamma, normal scores
for quantiles. `labeldp.learn.conditional` then trains a model for that loss.

CAPACITY and VISIBLE describe models and data and are unknown before training. They were fitted once, on generated data
(docs/concepts/beyond-the-paper.md): the error of gradient boosting follows the formula with 30 degrees of freedom, and
assuming that features explain 0.7 of the label is a cautious guess. Being wrong about either by a factor of two costs a
few percent. The choice is a function of public numbers and costs no privacy. The predicted error of a model comes from
`labeldp.mechanisms.prediction`; the formula here is a convex simplification of it.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.formatting import ReprMixin
from labeldp.losses import LossLike, Squared, get_loss
from labeldp.mechanisms.bias_variance import VISIBLE, BiasVariance, Unbiased, weight_of_variance
from labeldp.mechanisms.decoding import code_values, training_decoder
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.label_cells import DESIGN_CELLS, MOST_LABELS, coarse_prior
from labeldp.mechanisms.prediction import ModelErrors, Prediction, epsilon_for_prior
from labeldp.mechanisms.randomized_response import RROnBins
from labeldp.mechanisms.registry import MECHANISMS, Entry, Request, check_loss, few_records_advice
from labeldp.priors import BudgetSplit, NoisyCounts, Prior, check_histogram, noisy_counts, unimodal_masses

PRIOR_WITH_FEW = 4
"""With few records n, the prior gets this number divided by √n: the noise scale of its counts is then √n/2, like their sampling error."""
FEW_RECORDS = 3000
"""Up to this n·min(ε, 1)², private values are so strongly shrunk towards the mean of the prior that the prior needs
more of ε. A larger ε does not help the prior, which only gets a small part of it."""
FEWEST_CELLS = 20
"""Fewer cells than this cause a warning for a loss other than squared."""


@dataclass(frozen=True, eq=False, repr=False)
class Choice(ReprMixin):
    """A mechanism, the training values of its codes, and the predicted error of a model.

    Attributes
    ----------
    name : str
        The name of the choice: "auto" or an alternative.
    mechanism : FiniteMechanism
        The mechanism that randomizes the labels.
    decoder : str
        The decoder of its training values, a name for `code_values`.
    prior : Prior
        The distribution of the labels.
    records : int
        The number of labels that the model is trained on.
    why : str
        The reason in words.

    Examples
    --------
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms import choose
    >>> choice = choose(Prior([0, 10, 50], [2, 1, 1]), epsilon=1, records=10_000)
    >>> choice.name, choice.decoder, choice.values.size == choice.mechanism.outputs.size
    ('auto', 'bins', True)
    """

    name: str
    mechanism: FiniteMechanism
    decoder: str
    prior: Prior
    records: int
    why: str

    @property
    def values(self) -> Floats:
        """A number to train on for each code."""
        return code_values(self.mechanism, self.decoder)

    @cached_property
    def prediction(self) -> Prediction:
        """The predicted test error of a model on these values, for features that explain half of the labels' variance."""
        return ModelErrors(self.prior).of(self.mechanism, self.records, self.values)

    @property
    def predicted_error(self) -> float:
        """The mean squared error of `prediction`."""
        return self.prediction.mse

    def _facts(self) -> dict[str, str]:
        return {
            "name": self.name,
            "mechanism": repr(self.mechanism),
            "decoder": self.decoder,
            "predicted_error": f"{self.predicted_error:.4g}",
        }


def choose(
    prior: Prior,
    epsilon: Epsilon,
    records: int,
    loss: LossLike = "squared",
    *,
    domain: Domain | tuple[float, float] | None = None,
) -> Choice:
    """Choose the mechanism and the decoder for training a model.

    Parameters
    ----------
    prior : Prior
        The distribution of the labels.
    epsilon : float, str, Decimal or Fraction
        The privacy budget of each label.
    records : int
        The number of labels that the model will be trained on.
    loss : str, Loss or callable
        The loss of the model.
    domain : Domain or (lower, upper), optional
        The public bounds of the labels.

    Returns
    -------
    Choice

    Examples
    --------
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms import choose
    >>> choose(Prior([0, 10, 50], [2, 1, 1]), epsilon=1, records=10_000).mechanism.kind
    'bias-variance'
    """
    measure = get_loss(loss)
    tau = weight_of_variance(records)
    prior, domain = coarse_prior(prior, domain)
    try:
        mechanism = BiasVariance.optimal(prior, epsilon, tau, visible=VISIBLE, loss=measure, domain=domain)
    except InvalidInput:
        raise
    except LabelDPError:  # the solver failed on this noisy prior, and drawing another one would use the labels twice
        bins = RROnBins.optimal(prior, epsilon, measure, domain=domain)
        why = "RR-on-Bins: the program had no solution"
        return Choice("auto", bins, training_decoder(bins), prior, records, why)
    why = (
        f"least expected error of a model for {measure.name} loss on {records:,} records: visible bias² + {tau:.3g} × "
        f"variance, if features explain {VISIBLE:g} of the label"
    )
    return Choice("auto", mechanism, "bins", prior, records, why)


def split_for_training(request: Request) -> BudgetSplit:
    """Return the split of ε: `epsilon_for_prior` for the prior and the rest for the labels, since a design needs only a rough prior.

    The paper's √(cells/records) is too large for many cells and too small for few: knowing whether a tail is real or
    noise is worth more than the 4 % that the labels lose. At large ε the labels' variance grows with e^ε₁, for any ε,
    which is the reason for the limit.

    With few records the prior gets more, up to half of ε. Private values are then shrunk towards the mean of the prior.
    A model averages the noise of the labels, but it keeps the error of that mean.
    """
    total, records = exact_epsilon(request.epsilon), request.known_records
    check_histogram(request.domain.count, records)
    few = PRIOR_WITH_FEW / math.sqrt(records) * min(1.0, FEW_RECORDS / (records * min(float(total), 1.0) ** 2))
    most = min(total / 2, max(epsilon_for_prior(total), Fraction(few)))
    return BudgetSplit.spending(most, total, few_records_advice(request) or coarse_advice(request))


def coarse_advice(request: Request) -> str | None:
    """Return a warning if the grid is coarse for a loss that depends on single labels, else None."""
    loss, cells = get_loss(request.loss), request.domain.count
    if cells >= FEWEST_CELLS or isinstance(loss, Squared) or request.domain.whole:
        return None
    return (
        f"with {request.known_records:,} records at epsilon = {float(exact_epsilon(request.epsilon)):g} labels are rounded to {cells} cells "
        f"only, which is coarse for {loss.name} loss. Narrower bounds, more records or a larger epsilon help; so do cells "
        "(--cells) if most labels lie in few of them."
    )


def prior_for_training(counts: NDArray[np.int64], scale: float, request: Request) -> Prior:
    """Return the private prior of `auto` from exact counts on the request's grid.

    Privacy: 2/scale, for replacing one label. Cells that a design cannot distinguish are counted together; then integer
    Laplace noise is added once. `unimodal_masses` only post-processes the noisy counts.
    """
    domain, exact_cells = request.domain, True
    if domain.count > MOST_LABELS:
        # Labels between whole numbers may be counted in the cell next to the one where they are randomized.
        exact_cells = domain.whole
        domain = domain.with_cells(DESIGN_CELLS)
        counts = np.bincount(domain.cell(request.domain.grid), counts, DESIGN_CELLS).astype(np.int64)
    return prior_of_counts(noisy_counts(counts, scale), scale, domain, request.known_records, published=exact_cells)


def prior_of_counts(
    noisy: NDArray[np.int64], scale: float, domain: Domain, records: int, *, published: bool = True
) -> Prior:
    """Return the prior from noisy counts on a grid. With `published` it includes them."""
    counts = NoisyCounts(noisy, scale, records) if published else None
    return Prior(domain.grid, unimodal_masses(noisy, records, scale), 2 / Fraction(scale), counts)


MECHANISMS.add(
    Entry(
        "auto",
        title="auto",
        help="designed for the smallest error of a model trained on the labels",
        make=lambda r: choose(r.known_prior, r.epsilon, r.known_records, r.loss, domain=r.domain).mechanism,
        needs_prior=True,
        needs_records=True,
        for_training=True,
        colour="#b162af",
        split=split_for_training,
        fit_prior=prior_for_training,
        check=check_loss,
        rank=0,
    )
)


def alternatives(
    prior: Prior, epsilon: Epsilon, records: int, *, domain: Domain | tuple[float, float] | None = None
) -> list[Choice]:
    """Return the alternatives to `choose` and, last, its own choice.

    Parameters
    ----------
    prior : Prior
        The distribution of the labels.
    epsilon : float, str, Decimal or Fraction
        The privacy budget of each label.
    records : int
        The number of labels that the model will be trained on.
    domain : Domain or (lower, upper), optional
        The public bounds of the labels.

    Returns
    -------
    list of Choice
        For comparing bias, variance and predicted error.

    Examples
    --------
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms import alternatives
    >>> [choice.name for choice in alternatives(Prior([0, 10, 50], [2, 1, 1]), 1, 10_000)]
    ['rr-on-bins', 'rr-on-bins, debiased', 'unbiased', 'bias-variance', 'auto']
    """
    budget, tau = exact_epsilon(epsilon), weight_of_variance(records)
    prior, domain = coarse_prior(prior, domain)
    bins = RROnBins.optimal(prior, budget)
    unbiased = Unbiased.optimal(prior, budget, domain=domain)
    pointwise = BiasVariance.optimal(prior, budget, tau, domain=domain)
    return [
        Choice("rr-on-bins", bins, "bins", prior, records, "the paper: least error of the labels"),
        Choice(
            "rr-on-bins, debiased", bins, "debiased", prior, records, "the same message, its bias corrected by bins"
        ),
        Choice("unbiased", unbiased, "bins", prior, records, "no bias at any label"),
        Choice("bias-variance", pointwise, "bins", prior, records, "bias at every label weighed against variance"),
        choose(prior, budget, records, domain=domain),
    ]
