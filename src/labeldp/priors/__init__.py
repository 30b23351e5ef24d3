"""Priors: distributions of labels, either public or estimated by a private histogram, and the post-processing of such histograms.

May import the base (`domain`, `budget`, `arrays`, `errors`, `shown`), `losses` and `sampling`, which draws its noise. It knows nothing of mechanisms.
"""

from labeldp.priors.budget_split import BudgetSplit, BudgetWarning, check_histogram, split_budget
from labeldp.priors.prior import Prior
from labeldp.priors.private_histogram import histogram, noisy_counts, prior_from_counts, private_prior
from labeldp.priors.projection import project_counts
from labeldp.priors.published_counts import NoisyCounts
from labeldp.priors.unimodal import unimodal_masses

__all__ = [
    "BudgetSplit",
    "BudgetWarning",
    "NoisyCounts",
    "Prior",
    "check_histogram",
    "histogram",
    "noisy_counts",
    "prior_from_counts",
    "private_prior",
    "project_counts",
    "split_budget",
    "unimodal_masses",
]
