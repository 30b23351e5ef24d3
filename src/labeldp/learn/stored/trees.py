"""What the trees of a model file must satisfy. scikit-learn's compiled code follows their indices without looking.

A node that points outside its tree, to itself or to a column that does not exist would read foreign memory or never end
(scikit-learn pull request 34558). So every index is checked when a model is loaded.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE, X_BITSET_INNER_DTYPE

from labeldp.errors import InvalidInput
from labeldp.learn.record_checks import is_a
from labeldp.learn.stored.codec import NotStorable, State, add_on_demand

TREE_NODES = np.dtype(PREDICTOR_RECORD_DTYPE)
"""The type of a tree's nodes."""
TEXT_PARAMETER = re.compile(r"[a-z0-9_:]{1,40}")
"""The name of an objective or a method. Paths and lists of settings do not match."""
THREADS = frozenset({"num_threads", "num_thread", "nthread", "nthreads"})
"""Other names of `n_jobs`. A process ends where it cannot start the threads that a file asks for."""
MOST_LEVELS = 4096
MOST_CATEGORIES = 256
"""A category is a number below this. scikit-learn itself allows 255 categories in a column."""


def check_boosting(model: Any) -> None:
    """Refuse a fitted `HistGradientBoostingRegressor` whose prediction could leave its own arrays."""
    if not hasattr(model, "_predictors"):
        return  # not fitted
    if getattr(model, "_in_fit", False):  # scikit-learn would predict without a look at the features
        raise InvalidInput("its training has not ended")
    columns = model.n_features_in_
    mapper = model._bin_mapper  # noqa: SLF001
    if type(columns) is not int or columns < 1 or model._n_features != columns:  # noqa: SLF001
        raise InvalidInput("the number of columns is damaged")
    if len(mapper.bin_thresholds_) != columns or mapper.n_bins_non_missing_.shape != (columns,):
        raise InvalidInput("the bins do not fit the columns")
    categorical = _categorical(model, columns)
    if model.n_trees_per_iteration_ != 1:
        raise InvalidInput("a regressor has one tree for each step")
    for step in model._predictors:  # noqa: SLF001
        if len(step) != 1:
            raise InvalidInput("a regressor has one tree for each step")
        tree = step[0]
        for bitsets in (tree.raw_left_cat_bitsets, tree.binned_left_cat_bitsets):
            check_bitsets(bitsets)
        check_nodes(tree.nodes, columns, categorical, len(tree.raw_left_cat_bitsets))


def _categorical(model: Any, columns: int) -> int:
    """Return the number of categorical columns. Their encoder puts them before all others."""
    mapper, given = model._bin_mapper, model.is_categorical_  # noqa: SLF001
    count = 0
    if given is not None:
        if not isinstance(given, np.ndarray) or given.dtype != np.bool_ or given.shape != (columns,):
            raise InvalidInput("the list of categorical columns is damaged")
        count = int(given.sum())
    if (given is None) != (model._preprocessor is None):  # noqa: SLF001
        raise InvalidInput("the encoder of its categorical columns is missing, or there are no such columns")
    flags = mapper.is_categorical_
    if not isinstance(flags, np.ndarray) or not np.array_equal(flags, np.arange(columns) < count):
        raise InvalidInput("the list of categorical columns does not fit the bins")
    for codes in mapper.bin_thresholds_[:count]:
        if not isinstance(codes, np.ndarray) or codes.ndim != 1 or not np.isin(codes, np.arange(MOST_CATEGORIES)).all():
            raise InvalidInput("the categories of a column are damaged")
    return count


def check_nodes(nodes: Any, columns: int, categorical: int = 0, bitsets: int = 0) -> None:
    """Raise `InvalidInput` unless the nodes are a binary tree, numbered from the root, on this number of columns.

    The first `categorical` columns may be split by sets of categories. The tree has `bitsets` such sets.
    """
    if not isinstance(nodes, np.ndarray) or nodes.dtype != TREE_NODES or nodes.ndim != 1 or not nodes.size:
        raise InvalidInput("a tree lacks nodes")
    places = np.flatnonzero(nodes["is_leaf"] == 0)
    inner = nodes[places]
    by_set = inner["is_categorical"] != 0
    children = np.concatenate([inner["left"], inner["right"]]).astype(np.int64)
    sound = (
        (children > np.concatenate([places, places])).all()
        and (children < nodes.size).all()
        and np.unique(children).size == children.size
        and ((inner["feature_idx"] >= 0) & (inner["feature_idx"] < columns)).all()
        and (inner["feature_idx"][by_set] < categorical).all()
        and (inner["bitset_idx"][by_set] < bitsets).all()
    )
    if not sound:
        raise InvalidInput(
            "a tree is damaged: a node points outside of it, back, or to a column or a set of categories that does not exist"
        )


def check_bitsets(array: Any) -> None:
    """Raise `InvalidInput` unless these are sets of categories, of 256 bits each."""
    if not isinstance(array, np.ndarray) or array.dtype != X_BITSET_INNER_DTYPE or array.shape[1:] != (8,):
        raise InvalidInput("the categories of a tree's splits are damaged")


def check_children(left: NDArray[np.int64], right: NDArray[np.int64], leaves: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Raise `InvalidInput` unless nodes 0 to n − 1 with these children form a binary tree with root 0; return which nodes it has.

    Every node that is not a leaf has two children. LightGBM and XGBoost follow them without a check, and LightGBM by recursion, so
    the depth is limited too.
    """
    reached = np.zeros(leaves.size, np.bool_)
    level = np.zeros(1, np.int64)
    for _ in range(MOST_LEVELS):
        reached[level] = True
        inner = level[~leaves[level]]
        level = np.concatenate([left[inner], right[inner]])
        if not level.size:
            return reached
        if level.min() < 0 or level.max() >= leaves.size or reached[level].any() or np.unique(level).size < level.size:
            raise InvalidInput("a tree is damaged: a node points outside of it, or back")
    raise InvalidInput(f"a tree has more than {MOST_LEVELS:,} levels")


def plain_parameters(model: Any) -> State:
    """Return the parameters of an estimator of another package, which must be numbers, yes or no, or names such as "poisson"."""
    found = {}
    own = _constructor_names(type(model))
    for name, value in model.get_params(deep=False).items():
        plain = value.item() if isinstance(value, np.generic) else value
        if not is_plain_parameter(name, plain, own):
            raise NotStorable(
                f"the parameter {name} of {type(model).__name__} is a {type(value).__name__} that cannot be stored: use a number, "
                "True or False, or one of the names that the package documents"
            )
        found[name] = plain
    return found


def is_plain_parameter(name: str, value: object, own: Collection[str]) -> bool:
    """Return whether a parameter may be stored. Text is allowed only for the parameters that the constructor names (`own`)."""
    if isinstance(value, str):
        return name in own and TEXT_PARAMETER.fullmatch(value) is not None
    return TEXT_PARAMETER.fullmatch(name) is not None and (value is None or isinstance(value, (bool, int, float)))


def with_parameters(kind: type, state: object) -> Any:
    """Return an estimator of another package with parameters from a file. Its default number of threads is allowed."""
    own = _constructor_names(kind)
    parameters = is_a(state, dict, what="the parameters")
    for name, value in parameters.items():
        hides = name not in own and (name.startswith("_") or hasattr(kind, name))  # a method, or what fitting found
        if hides or not is_plain_parameter(name, value, own) or name in THREADS:
            raise InvalidInput(f"the parameter {name!r:.60} has a value that it cannot have")
    return kind(**{**parameters, "n_jobs": None})


def _constructor_names(kind: type) -> frozenset[str]:
    """Return the parameters that the constructors of a class and its base classes name."""
    made = [vars(base)["__init__"] for base in kind.__mro__ if "__init__" in vars(base)]
    return frozenset(name for function in made for name in inspect.signature(function).parameters)


add_on_demand("LGBMRegressor", "lightgbm", partial(import_module, "labeldp.learn.stored.lightgbm_text"))
add_on_demand("XGBRegressor", "xgboost", partial(import_module, "labeldp.learn.stored.xgboost_json"))
