"""An `XGBRegressor` as data: its parameters, and its trees in XGBoost's own JSON format.

XGBoost trusts the indices in its trees. So the JSON is checked here first: every part must be one that XGBoost writes, and every index
must lie inside its array. Models before XGBoost 3.1 do not contain the names of their categories and are not accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xgboost import XGBRegressor
from xgboost.core import XGBoostError

from labeldp.errors import InvalidInput
from labeldp.learn.record_checks import exactly, is_a
from labeldp.learn.stored.codec import (
    NotStorable,
    State,
    StoredType,
    add,
    check_children,
    plain_parameters,
    with_parameters,
)

OLDEST = (3, 1)
MOST_COLUMNS = 1_000_000
MOST_CATEGORY_BITS = 1 << 29
"""XGBoost reserves a bit for each category up to the largest one of a split. All splits together may have this number."""
OBJECTIVES = re.compile(
    r"reg:(squarederror|squaredlogerror|pseudohubererror|absoluteerror|gamma|tweedie)|count:poisson"
)
FLOATS = ("base_weights", "loss_changes", "split_conditions", "sum_hessian")
WHOLE = ("default_left", "left_children", "right_children", "parents", "split_indices", "split_type")
SETS = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
ROOT_PARENT = 2**31 - 1


def check_model(model: Any) -> None:
    """Raise `InvalidInput` unless this is the JSON of a regressor with trees, as XGBoost writes it."""
    learner, version = _parts(model, "learner", "version")
    if _whole(version, 3)[:2].tolist() < [*OLDEST]:
        raise InvalidInput(f"its trees are older than XGBoost {'.'.join(map(str, OLDEST))}: train the model again")
    attributes, names, types, booster, settings, objective = _parts(
        learner, "attributes", "feature_names", "feature_types", "gradient_booster", "learner_model_param", "objective"
    )
    columns = _number(settings, "num_feature")
    if not 1 <= columns <= MOST_COLUMNS or _number(settings, "num_target") != 1 or _number(settings, "num_class") != 0:
        raise InvalidInput("it has too many columns, or predicts more than one number")
    is_a(objective, dict, what="the objective")
    for texts in (attributes, settings, *(part for part in objective.values() if isinstance(part, dict))):
        _check_texts(texts)
    if not OBJECTIVES.fullmatch(str(objective.get("name"))):
        raise InvalidInput("its objective cannot be stored")
    for listed in (names, types):
        if listed and (len(listed) != columns or not all(isinstance(text, str) for text in listed)):
            raise InvalidInput("the names or types of its columns do not fit their number")
    if is_a(booster, dict, what="gradient_booster").get("name") != "gbtree":
        raise InvalidInput("its booster is not gbtree")
    _check_trees(_parts(booster, "name", "model")[1], columns)


def _check_trees(model: Any, columns: int) -> None:
    names, settings, ends, classes, trees = _parts(
        model, "cats", "gbtree_model_param", "iteration_indptr", "tree_info", "trees"
    )
    _check_texts(settings)
    count = len(is_a(trees, list, what="trees"))
    steps = _whole(ends)
    if (
        _number(settings, "num_trees") != count
        or _whole(classes, count).any()
        or (steps.size == 0 or steps[0] != 0 or steps[-1] != count or (np.diff(steps) < 0).any())
    ):
        raise InvalidInput("the numbers of its trees do not fit each other")
    _check_names(names, columns)
    bits = sum(_check_tree(tree, place, columns) for place, tree in enumerate(trees))
    if bits > MOST_CATEGORY_BITS:
        raise InvalidInput("the categories of its splits have too large numbers")


def _check_tree(tree: Any, place: int, columns: int) -> int:
    """Check one tree, and return how many bits its sets of categories take."""
    _parts(tree, *FLOATS, *WHOLE, *SETS, "id", "tree_param")
    settings = tree["tree_param"]
    _check_texts(settings)
    nodes = _number(settings, "num_nodes")
    if not nodes >= 1 or _number(settings, "num_feature") != columns or _number(settings, "size_leaf_vector") > 1:
        raise InvalidInput("a tree is damaged: its sizes do not fit the model")
    if tree["id"] != place:
        raise InvalidInput("its trees are not numbered from 0")
    for name in FLOATS:
        numbers = np.asarray(is_a(tree[name], list, what=name), np.float64)
        if numbers.shape != (nodes,) or not np.isfinite(numbers).all():
            raise InvalidInput("a tree is damaged: it has too few or too many numbers, or some that are not finite")
    default, left, right, parents, column, kind = (_whole(tree[name], nodes) for name in WHOLE)
    leaves = left == -1
    reached = check_children(left, right, leaves)
    inner = np.flatnonzero(reached & ~leaves)
    if (
        _number(settings, "num_deleted") != nodes - reached.sum()
        or parents[0] != ROOT_PARENT
        or not ((parents[1:] >= 0) & (parents[1:] < nodes)).all()
        or (parents[left[inner]] != inner).any()
        or (parents[right[inner]] != inner).any()
        or (right[leaves] != -1).any()
        or not ((column[inner] >= 0) & (column[inner] < columns)).all()
        or not np.isin(kind, (0, 1)).all()
        or not np.isin(default, (0, 1)).all()
    ):
        raise InvalidInput("a tree is damaged: a node points outside of it, back, or to a column that does not exist")
    return _check_sets(tree, np.flatnonzero(kind), leaves)


def _check_sets(tree: Any, by_set: NDArray[np.int64], leaves: NDArray[np.bool_]) -> int:
    values, nodes = (_whole(tree[name]) for name in ("categories", "categories_nodes"))
    starts, sizes = (_whole(tree[name], nodes.size) for name in ("categories_segments", "categories_sizes"))
    if (
        not np.array_equal(nodes, by_set)
        or leaves[by_set].any()
        or (values < 0).any()
        or (sizes < 1).any()
        or not np.array_equal(starts, np.cumsum(sizes) - sizes)
        or sizes.sum() != values.size
    ):
        raise InvalidInput("a tree is damaged: the categories of a split do not exist")
    return int(sum(values[start : start + size].max() + 1 for start, size in zip(starts, sizes, strict=True)))


def _check_names(names: Any, columns: int) -> None:
    """Check the names of the categories of each column, as bytes of text with the end of each name."""
    columns_of, ends, order = _parts(names, "enc", "feature_segments", "sorted_idx")
    limits, places, counts = _whole(ends), _whole(order), []
    for column in is_a(columns_of, list, what="the categories"):
        if set(is_a(column, dict, what="the categories of a column")) != {"offsets", "values"}:
            raise InvalidInput("the categories of a column are not text: convert them to text before training")
        offsets, values = _whole(column["offsets"]), _whole(column["values"])
        given = offsets if offsets.size else np.zeros(1, np.int64)
        if given[0] != 0 or (np.diff(given) < 0).any() or given[-1] != values.size or (np.abs(values) > 255).any():
            raise InvalidInput("the categories of a column are damaged")
        counts.append(given.size - 1)
    if not counts and not limits.size and not places.size:
        return
    own = [np.sort(places[start : start + count]) for start, count in zip(limits, counts, strict=False)]
    if (
        len(counts) != columns
        or not np.array_equal(limits, np.cumsum([0, *counts]))
        or places.size != sum(counts)
        or not all(np.array_equal(found, np.arange(found.size)) for found in own)
    ):
        raise InvalidInput("the categories of the columns do not fit their number")


def _parts(part: Any, *names: str) -> list[Any]:
    """Return the values of an object with these names and no others."""
    return exactly(is_a(part, dict, what="a part of the trees"), *names)


def _check_texts(part: Any) -> None:
    """Raise `InvalidInput` unless this is an object of short texts, as XGBoost writes its settings."""
    for value in is_a(part, dict, what="settings of the trees").values():
        if len(is_a(value, str, what="a setting of the trees")) > 100:
            raise InvalidInput("a setting of the trees is too long")


def _number(settings: Any, name: str) -> int:
    text = is_a(is_a(settings, dict, what="settings of the trees").get(name), str, what=name)
    if not re.fullmatch(r"\d{1,9}", text):
        raise InvalidInput(f"{name} of the trees is not a number")
    return int(text)


def _whole(values: Any, count: int | None = None) -> NDArray[np.int64]:
    given: Collection[Any] = is_a(values, list, what="a list of the trees")
    if not all(type(value) is int and abs(value) < 1 << 32 for value in given) or count not in (None, len(given)):
        raise InvalidInput("a list of the trees has too few or too many entries, or some that are not whole numbers")
    return np.array(values, np.int64)


def _state(model: Any) -> State:
    if not model.__sklearn_is_fitted__():
        return {"parameters": plain_parameters(model), "trees": None}
    record = json.loads(model.get_booster().save_raw("json"))
    try:
        check_model(record)
    except InvalidInput as error:
        raise NotStorable(f"a XGBRegressor cannot be stored: {error}") from error
    return {"parameters": plain_parameters(model), "trees": json.dumps(record)}


def _build(state: State) -> Any:
    parameters, text = exactly(state, "parameters", "trees")
    model = with_parameters(XGBRegressor, parameters)
    if text is None:
        return model
    record = json.loads(is_a(text, str, what="the trees"))
    check_model(record)
    try:
        model.load_model(bytearray(json.dumps(record).encode()))
    except XGBoostError as error:
        raise InvalidInput(f"XGBoost cannot read the trees: {str(error).splitlines()[0]:.200}") from None
    for name, value in is_a(parameters, dict, what="the parameters").items():
        setattr(model, name, value)  # XGBoost replaces some by what it read
    model.n_jobs = None
    return model


add(StoredType("XGBRegressor", XGBRegressor, _state, _build))
