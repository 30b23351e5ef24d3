"""
The reported values of one label
================================

A customer spent 80 euros. Which value is reported? Each mechanism has different values and probabilities, and each costs ε = 2.

The paper's bins stay close to the usual amounts. Unbiased values lie far outside of the range, so that they are right on average. The default, ``auto``, lies
between the two. Clipped Laplace noise often gives one of the bounds.
"""

import numpy as np

from labeldp import Domain, plots
from labeldp.mechanisms import MECHANISMS, DiscreteLaplace, RROnBins, Unbiased, choose
from labeldp.paper.data import criteo_prior

prior, domain, epsilon, label = criteo_prior(), Domain.integers(0, 400), 2, 80
mechanisms = {
    "the paper's bins": RROnBins.optimal(prior, epsilon),
    "auto, for 10,000 records": choose(prior, epsilon, records=10_000).mechanism,
    "Unbiased": Unbiased.optimal(prior, epsilon),
    "Laplace noise in whole cells, clipped": DiscreteLaplace(domain, epsilon),
}

picture = plots.new_figure(5.2, 6.4)
panels = picture.subplots(len(mechanisms), sharex=True)
colours = [MECHANISMS[name].colour for name in ("rr-on-bins", "auto", "unbiased", "discrete-laplace")]
for axes, (name, mechanism), colour in zip(panels, mechanisms.items(), colours, strict=True):
    chances = mechanism.matrix([label])[0]
    shown = chances > 1e-4
    axes.vlines(mechanism.outputs[shown], 0, chances[shown], color=colour, lw=2.4 if shown.sum() < 60 else 0.8)
    axes.axvline(label, color=plots.QUIET, ls="--", lw=1)
    mean = chances @ mechanism.outputs
    axes.set_title(f"{name}: {mean:,.0f} on average", loc="left", fontsize=10)
    axes.set_ylim(0)
    plots.tidy(axes)
axes.set_xlabel("reported value; the dashed line is the true one")
picture.supylabel("chance", fontsize=10)
in_words = "Four panels of what a label of 80 is reported as at ε = 2, and how often. " + " ".join(
    f"{name}: {np.count_nonzero(mechanism.matrix([label])[0] > 1e-4)} values,"
    f" {mechanism.matrix([label])[0] @ mechanism.outputs:,.0f} on average."
    for name, mechanism in mechanisms.items()
)
