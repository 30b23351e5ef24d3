"""Priors: distributions of labels, either public or estimated by a private histogram, and the post-processing of such histograms."""

from labeldp.priors.prior import NoisyCounts, Prior
from labeldp.priors.private_histogram import (
    BudgetSplit,
    BudgetWarning,
    check_histogram,
    histogram,
    noisy_counts,
    prior_from_counts,
    private_prior,
    project_counts,
    split_budget,
    unimodal_masses,
)

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
