"""
Bias and spread of a private label
==================================

The upper panel shows the mean reported value of each label. On the diagonal, there is no bias; from a flat line, a model learns nothing. The lower panel shows the standard
deviation of the reported value. A model averages this spread over its records, but keeps the bias.
"""

from labeldp import plots
from labeldp.mechanisms import MECHANISMS, RROnBins, Unbiased, choose
from labeldp.paper.data import criteo_prior

prior, epsilon = criteo_prior(), 1
mechanisms = {
    "the paper's bins": RROnBins.optimal(prior, epsilon),
    "auto, for 1,000 records": choose(prior, epsilon, records=1_000).mechanism,
    "auto, for 100,000 records": choose(prior, epsilon, records=100_000).mechanism,
    "Unbiased": Unbiased.optimal(prior, epsilon),
}
names = ("rr-on-bins", "bias-variance", "auto", "unbiased")  # few records: bias-variance's colour, a lighter auto
colours = {title: MECHANISMS[name].colour for title, name in zip(mechanisms, names, strict=True)}
labels = prior.values
means = {name: labels + mechanism.bias(labels) for name, mechanism in mechanisms.items()}

picture = plots.new_figure(5.2, 6.4)
above, below = picture.subplots(2, sharex=True, height_ratios=(3, 2))
plots.mean_values(labels, means, colours=colours, ax=above)
above.set_xlabel("")
above.get_legend().remove()
for number, (name, mechanism) in enumerate(mechanisms.items()):
    look = {"color": colours[name], "marker": plots.marker(number), "lw": 2, "ms": 5, "label": name}
    below.plot(labels, mechanism.variance(labels) ** 0.5, markevery=(20 * number, 70), **look)
below.set(xlabel="true label", ylabel="standard deviation", ylim=0)
plots.tidy(below)
plots.legend_below(below, others=[above], columns=1)
