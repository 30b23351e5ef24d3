"""
The best bins for a distribution of labels
==========================================

Randomized response on bins keeps the bin of a label more often than any other. `RROnBins.optimal` finds the bins of least error: few and close to the
middle where ε is small, many where ε is large.

The grey area is the distribution of purchase values, which the bins are made for. The lines are the reported values, with heights in proportion to their frequency.
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
