"""
What the error of a model is made of
====================================

The floor is the error that the features cannot explain. Bias stays in the model for any number of records, and noise is averaged. `alternatives` predicts all
three parts from the prior alone, here for few and for many records. With few records, it is worth accepting some bias for less noise.
"""

from labeldp import Domain, plots
from labeldp.mechanisms import alternatives
from labeldp.paper.data import criteo_prior

names = {
    "rr-on-bins": "the paper's bins",
    "rr-on-bins, debiased": "same, debiased",
    "unbiased": "unbiased",
    "auto": "auto",
}
picture = plots.new_figure(5.2, 5.6)
for axes, records in zip(picture.subplots(2, sharex=True), (2_000, 50_000), strict=True):
    choices = alternatives(criteo_prior(), 1, records, domain=Domain.integers(0, 400))
    choices = [choice for choice in choices if choice.name in names]
    predictions = [choice.prediction for choice in choices]
    plots.error_parts(
        [names[choice.name] for choice in choices],
        [prediction.floor for prediction in predictions],
        [prediction.bias for prediction in predictions],
        [prediction.noise for prediction in predictions],
        xlabel="" if records < 50_000 else "predicted test error (mean squared)",
        title=f"{records:,} records, ε = 1",
        legend=records == 50_000,
        ax=axes,
    )
