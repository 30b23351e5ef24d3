"""
The best bins for a distribution of labels
==========================================

Randomized response on bins most often reports the bin of the label. `RROnBins.optimal` finds the bins with the least error: few bins close to the
middle if ε is small, and many bins if ε is large.

The grey area is the distribution of purchase values for which the bins were designed. Each line is a reported value; its height is proportional to its frequency.
"""

from labeldp import plots
from labeldp.mechanisms import RROnBins
from labeldp.paper.data import criteo_prior

prior = criteo_prior()
picture = plots.new_figure(5.2, 7.6)
in_words = "The distribution of purchase values, and the outputs of the best bins:"

for axes, epsilon in zip(picture.subplots(3, sharex=True), (0.5, 2, 4), strict=True):
    mechanism = RROnBins.optimal(prior, epsilon)
    mechanism.plot(ax=axes)
    in_words += f" at ε = {epsilon} they are " + ", ".join(f"{output:.0f}" for output in mechanism.outputs) + ";"
    axes.set_title(f"ε = {epsilon}: {mechanism.outputs.size} bins", pad=18)
    axes.set_xlabel("")
    if epsilon < 4:
        axes.get_legend().remove()
