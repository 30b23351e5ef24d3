"""
How much ε does a model need?
=============================

The picture shows six distributions of labels, each with 20,000 records and features that explain at most 60 % of the variance. The lines are the predicted R² of
models. `advise` computes them from public numbers alone, before anything is released.
"""

import numpy as np

from labeldp import Domain, Prior, advise, plots
from labeldp.mechanisms import MECHANISMS
from labeldp.paper.data import criteo_prior

values = np.linspace(0, 100, 51)
bell = np.exp(-(((values - 50) / 12) ** 2) / 2)
distributions = {
    "uniform": np.ones_like(values),
    "a bell": bell,
    "two bells": np.exp(-(((values - 20) / 6) ** 2) / 2) + np.exp(-(((values - 75) / 9) ** 2) / 2),
    "exponential": np.exp(-values / 12),
    "half are zero": np.exp(-values / 40) + 25 * (values == 0),
}
priors = {name: Prior(values, masses) for name, masses in distributions.items()}
purchases = criteo_prior()
whole = np.rint(purchases.values / 8)
priors["purchases"] = Prior(values, np.bincount(whole.astype(int), purchases.masses, 51))

epsilons = (0.25, 0.5, 1, 2, 4)
colours = (plots.CURVES[3], MECHANISMS["auto"].colour, MECHANISMS["rr-on-bins"].colour)
picture = plots.new_figure(5.2, 7.2)
panels = picture.subplots(3, 2, sharex=True, sharey=True).ravel()
in_words = "Six panels of predicted R² against ε, at best 0.6. Private labels reach, at ε = 1:"
for axes, (name, prior) in zip(panels, priors.items(), strict=True):
    advice = advise(Domain(0, 100, cells=51), 20_000, explained=0.6, epsilons=epsilons, prior=prior)
    shares = {
        "noisy sums (one team)": [outlook.sums.r2 for outlook in advice.outlooks],
        "private labels (auto)": [outlook.labels.r2 for outlook in advice.outlooks],
        "the paper's bins": [outlook.paper.r2 for outlook in advice.outlooks],
    }
    for number, (way, reached) in enumerate(shares.items()):
        look = {"color": colours[number], "marker": plots.marker(number), "lw": 2, "ms": 4, "label": way}
        axes.plot(epsilons, reached, **look)
    in_words += f" {advice.outlooks[2].labels.r2:.2f} for {name};"
    axes.axhline(advice.not_private.r2, color=plots.QUIET, ls="--", lw=1, label="no privacy")
    small = axes.inset_axes((0.62, 0.06, 0.34, 0.2))
    small.fill_between(prior.values, prior.masses, step="mid", color=plots.QUIET, alpha=0.6, lw=0)
    small.set_axis_off()
    plots.epsilon_axis(axes, epsilons)
    axes.set_title(name, fontsize=10)
    axes.set_ylim(-0.05, 0.7)
    axes.set_xlabel("")
    plots.tidy(axes)
for axes in panels[-2:]:
    axes.set_xlabel("ε")
picture.supylabel("predicted R²", fontsize=10)
picture.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
