"""What the trees of a model file must satisfy. scikit-learn's compiled code follows their indices without looking.

A node that points outside its tree, to itself or to a column that is not there would read foreign memory or never end
(scikit-learn pull request 34558). So every index is checked when a model is loaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE, X_BITSET_INNER_DTYPE

from labeldp.errors import InvalidInput

TREE_NODES = np.dtype(PREDICTOR_RECORD_DTYPE)
"""The type of a tree's nodes."""


def check_boosting(model: Any) -> None:
    """Refuse a fitted `HistGradientBoostingRegressor` whose prediction could leave its own arrays."""
    if not hasattr(model, "_predictors"):
        return  # not fitted
    if getattr(model, "_in_fit", False):  # scikit-learn would predict without a look at the features
        raise InvalidInput("its training has not ended")
    columns = model.n_features_in_
    mapper = model._bin_mapper  # noqa: SLF001
    flags = mapper.is_categorical_
    if type(columns) is not int or columns < 1 or model._n_features != columns:  # noqa: SLF001
        raise InvalidInput("the number of columns is damaged")
    if not isinstance(flags, np.ndarray) or flags.shape != (columns,) or flags.any():
        raise InvalidInput("its trees have categorical splits, or the columns are damaged")
    if len(mapper.bin_thresholds_) != columns or mapper.n_bins_non_missing_.shape != (columns,):
        raise InvalidInput("the bins do not fit the columns")
    if model.n_trees_per_iteration_ != 1 or model._preprocessor is not None:  # noqa: SLF001
        raise InvalidInput("a regressor has one tree for each step")
    for step in model._predictors:  # noqa: SLF001
        if len(step) != 1:
            raise InvalidInput("a regressor has one tree for each step")
        check_nodes(step[0].nodes, columns)


def check_nodes(nodes: Any, columns: int) -> None:
    """Refuse nodes that are no binary tree, numbered from the root, on so many columns."""
    if not isinstance(nodes, np.ndarray) or nodes.dtype != TREE_NODES or nodes.ndim != 1 or not nodes.size:
        raise InvalidInput("a tree has no nodes")
    places = np.flatnonzero(nodes["is_leaf"] == 0)
    inner = nodes[places]
    children = np.concatenate([inner["left"], inner["right"]]).astype(np.int64)
    sound = (
        (children > np.concatenate([places, places])).all()
        and (children < nodes.size).all()
        and np.unique(children).size == children.size
        and ((inner["feature_idx"] >= 0) & (inner["feature_idx"] < columns)).all()
        and not nodes["is_categorical"].any()
    )
    if not sound:
        raise InvalidInput("a tree is damaged: a node points outside of it, back, or to a column that is not there")


def check_bitsets(array: Any) -> None:
    """Refuse sets of categories of another type or shape, and any at all: trees of the format have no categorical splits."""
    if not isinstance(array, np.ndarray) or array.dtype != X_BITSET_INNER_DTYPE or array.shape != (0, 8):
        raise InvalidInput("a tree has categorical splits, or is damaged")
