"""
The best bins for one distribution of labels
============================================

placeholder
"""

from labeldp import RROnBins
from labeldp.paper.data import criteo_prior

prior = criteo_prior()
figure = RROnBins.optimal(prior, epsilon=2).plot()
