"""
A private histogram becomes a prior
===================================

A small part of ε buys a noisy histogram of the labels, for which the mechanism is designed. The noise matters less if there are many labels. With the same
ε = 0.1, the histogram of 1,000 labels is mostly noise, and that of 100,000 labels is nearly exact.
"""

import numpy as np

from labeldp import Domain, plots
from labeldp.paper.data import criteo_like_labels
from labeldp.priors import private_prior

domain = Domain(0, 400, cells=41)
picture = plots.new_figure(5.2, 6.2)
panels = picture.subplots(3, sharex=True)
in_words = "True histograms of labels and private priors over them. Half the sum of the absolute differences is"
for axes, records in zip(panels, (1_000, 10_000, 100_000), strict=True):
    labels = criteo_like_labels(records, seed=0)
    true = np.bincount(np.rint(np.clip(labels, 0, 400) / 10).astype(int), minlength=41) / records
    prior = private_prior(labels, domain, epsilon=0.1)
    in_words += f" {np.abs(true - prior.masses).sum() / 2:.2f} for {records:,} labels,"
    axes.bar(prior.values, true, 8, color=plots.QUIET, alpha=0.4, label="true histogram")
    axes.step(prior.values, prior.masses, where="mid", color=plots.CURVES[0], lw=2, label="private prior, ε = 0.1")
    axes.set_title(f"{records:,} labels", fontsize=10)
    plots.tidy(axes)
panels[-1].set_xlabel("label")
picture.supylabel("share of the labels", fontsize=10)
plots.legend_below(panels[-1], columns=2)
