"""
What a private model has learned
================================

`LabelDPRegressor` learns from noisy sums if they are better than noisy labels. For such a model you can see how much each column adds to a prediction.
The size of the added noise is known exactly, and the bands show it.

Here the labels are minutes of delay. They depend on the hour, the weekday and the weather, but not on the fourth column.
"""

import numpy as np
import pandas as pd

from labeldp import LabelDPRegressor

generator = np.random.default_rng(0)
trips = pd.DataFrame(
    {
        "hour": generator.uniform(5, 24, 10_000),
        "weekday": generator.choice(["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"], 10_000),
        "rain": generator.exponential(2, 10_000),
        "seat": generator.integers(1, 80, 10_000),
    }
)
rush = 12 * np.exp(-((trips["hour"] - 8) ** 2) / 3) + 9 * np.exp(-((trips["hour"] - 17.5) ** 2) / 5)
busy = trips["weekday"].map({"Fr": 5, "Mo": 2, "Sa": -3, "Su": -4}).fillna(0)
delays = np.clip(6 + rush + busy + 2 * np.sqrt(trips["rain"]) + generator.exponential(4, 10_000), 0, 60)

model = LabelDPRegressor(epsilon=1, domain=(0, 60), method="sums").fit(trips, delays)
picture = model.plot_effects()
