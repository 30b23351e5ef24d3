"""The paper's network: embeddings of the categories and dense layers, trained on the CPU with torch.

`network_regressor` is the scikit-learn estimator, `trainer` the training loop, `weights` the trained network as plain arrays. torch is
imported only when a network is trained.
"""

from labeldp.paper.network.network_regressor import NetworkRegressor

__all__ = ["NetworkRegressor"]
