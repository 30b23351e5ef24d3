"""
A curve through noise
=====================

Each grey point is one private label, and a single one reveals little. A model that is trained on all of them finds the curve. For comparison, the same learner is
trained on true labels, which only the labels party could do.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from labeldp import LabelRandomizer, plots
from labeldp.learn import boosting_settings
from labeldp.mechanisms import label_share

generator = np.random.default_rng(0)
hour = generator.uniform(0, 24, 30_000)
truth = 180 + 90 * np.sin(hour * np.pi / 12 - 2) + 60 * (hour > 18)
labels = np.clip(truth + generator.normal(0, 30, hour.size), 0, 400)

private = LabelRandomizer(epsilon=0.5, domain=(0, 400)).randomize(labels)
settings = boosting_settings(hour.size, label_share(private.mechanism, private.mechanism.outputs))
grid = np.linspace(0, 24, 400)
picture = plots.new_axes(5.2, 4.2)
few = generator.choice(hour.size, 1_500, replace=False)
picture.scatter(
    hour[few], private.values()[few], s=5, color=plots.QUIET, alpha=0.35, lw=0, label="private labels, ε = 0.5"
)
for name, values, colour in (
    ("model on private labels", private.values(), plots.CURVES[0]),
    ("model on true labels", labels, plots.CURVES[1]),
):
    model = HistGradientBoostingRegressor(**settings).fit(hour[:, None], values)
    picture.plot(grid, model.predict(grid[:, None]), color=colour, lw=2.4, label=name)
picture.set(xlabel="hour of the day", ylabel="label", xticks=range(0, 25, 6))
plots.tidy(picture, legend=True)
