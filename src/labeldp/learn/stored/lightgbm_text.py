"""A `LGBMRegressor` as data: its parameters, and its trees in LightGBM's own text format.

LightGBM's parser trusts its input: it follows sizes and indices in the text, and can end the process. So the text is read here first.
Every line must be one that LightGBM writes, and every index must lie inside its array. What LightGBM does not need for predictions
(its table of sizes, its settings and importances) is neither stored nor accepted.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from lightgbm import Booster, LGBMRegressor
from lightgbm.basic import LightGBMError
from numpy.typing import NDArray

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

MOST_LEAVES = 131_072
"""LightGBM's own limit on the leaves of a tree."""
NUMBER = r"-?\d{1,30}(?:\.\d{0,40})?(?:[eE][+-]?\d{1,3})?"
HEADER = {
    "version": r"v4",
    "num_class": "1",
    "num_tree_per_iteration": "1",
    "average_output": "",
    "label_index": r"\d{1,6}",
    "max_feature_idx": r"\d{1,9}",
    "objective": rf"(?:regression|regression_l1|huber|fair|poisson|quantile|mape|gamma|tweedie)(?: sqrt| [a-z_]{{1,40}}:{NUMBER})*",
    "feature_names": r"[^\x00-\x20\x7f]+(?: [^\x00-\x20\x7f]+)*",
    "feature_infos": rf"(?:none|\[{NUMBER}:{NUMBER}\]|-?\d{{1,10}}(?::-?\d{{1,10}})*)(?: (?:none|\[{NUMBER}:{NUMBER}\]|-?\d{{1,10}}(?::-?\d{{1,10}})*))*",
}
"""The lines of the header that are kept, and what each may say."""
NEEDED = frozenset(HEADER) - {"objective", "average_output"}
PER_SPLIT = ("split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child")
PER_SPLIT_COUNTS = ("internal_value", "internal_weight", "internal_count")
PER_LEAF = ("leaf_value", "leaf_weight", "leaf_count")
TREE = frozenset(
    {*PER_SPLIT, *PER_SPLIT_COUNTS, *PER_LEAF, "num_leaves", "num_cat", "cat_boundaries", "cat_threshold", "is_linear"}
    | {"shrinkage"}
)
CATEGORICAL, MISSING = 1, 12
"""Bits of a decision type: whether a set of categories splits, and the kind of missing values (0, 4 or 8)."""
NUMBERS = re.compile(rf"(?:{NUMBER}(?: {NUMBER})*)?")
CATEGORIES = "pandas_categorical:"


def checked_text(text: str) -> str:
    """Return the text of a model, checked and without what predictions do not need; `InvalidInput` if LightGBM could not have written it."""
    blocks = [block.strip("\n").split("\n") for block in re.split(r"\n{2,}", text)]
    header = _header(blocks[0])
    columns = int(header["max_feature_idx"]) + 1
    kept = ["tree", *(f"{name}={value}" if value else name for name, value in header.items()), ""]
    for number, block in enumerate(blocks[1:]):
        if block == ["end of trees"]:
            break
        if block[0] != f"Tree={number}":
            raise InvalidInput("the trees are not numbered from 0")
        _check_tree(_pairs(block[1:]), columns)
        kept += [*block, "", ""]
    else:
        raise InvalidInput("the text of the trees is incomplete")
    categories = [block[0] for block in blocks if block[0].startswith(CATEGORIES)]
    if len(categories) != 1:
        raise InvalidInput("the text of the trees does not list the categories once")
    return "\n".join([*kept, "end of trees", "", CATEGORIES + _categories(categories[0]), ""])


def _header(lines: list[str]) -> dict[str, str]:
    if lines[0] != "tree":
        raise InvalidInput("the text of the trees lacks a header")
    found = {name: value for name, value in _pairs(lines[1:]).items() if name in HEADER}
    for name, value in found.items():
        if not re.fullmatch(HEADER[name], value):
            raise InvalidInput(f"{name} of the trees has a value that cannot be stored")
    if missing := sorted(NEEDED - set(found)):
        raise InvalidInput(f"{missing[0]} of the trees is missing")
    columns = int(found["max_feature_idx"]) + 1
    if any(len(found[name].split(" ")) != columns for name in ("feature_names", "feature_infos")):
        raise InvalidInput("the names of the columns do not fit their number")
    return found


def _pairs(lines: list[str]) -> dict[str, str]:
    """Return lines of names and values. Each name must occur once."""
    found = dict(line.partition("=")[::2] for line in lines)
    if len(found) != len(lines):
        raise InvalidInput("a line of the trees occurs twice")
    return found


def _check_tree(lines: dict[str, str], columns: int) -> None:
    if not set(lines) <= TREE or not all(map(NUMBERS.fullmatch, lines.values())):
        raise InvalidInput("a tree has a line that LightGBM does not write, or linear models in its leaves")
    (leaves,), (sets,), (linear,) = (_whole(lines.get(name, "0"), 1) for name in ("num_leaves", "num_cat", "is_linear"))
    if not 1 <= leaves <= MOST_LEAVES or not 0 <= sets < leaves or linear:
        raise InvalidInput("a tree has too many leaves or categories, or linear models in its leaves")
    for names, count in ((PER_LEAF, leaves), (PER_SPLIT_COUNTS, leaves - 1)):
        for name in names:
            if name == "leaf_value" or lines.get(name):
                _numbers(lines.get(name, ""), count)
    if not np.isfinite(_numbers(lines.get("shrinkage", "1"), 1)).all():
        raise InvalidInput("a tree has a number that is not finite")
    if leaves == 1:
        if any(lines.get(name) for name in PER_SPLIT):
            raise InvalidInput("a tree of one leaf has splits")
        return
    column, kind, left, right = (
        _whole(lines.get(name, ""), leaves - 1)
        for name in ("split_feature", "decision_type", "left_child", "right_child")
    )
    _numbers(lines.get("split_gain", ""), leaves - 1)
    threshold = _numbers(lines.get("threshold", ""), leaves - 1)
    # Leaf i is −1 − i in the text. Here all nodes are numbered: first the splits, then the leaves.
    left, right = (np.where(child < 0, leaves - 2 - child, child) for child in (left, right))
    nodes = 2 * leaves - 1
    none = np.zeros(leaves, np.int64)
    reached = check_children(
        np.concatenate([left, none]), np.concatenate([right, none]), np.arange(nodes) >= leaves - 1
    )
    by_set = threshold[(kind & CATEGORICAL) != 0]
    if (
        not reached.all()
        or not ((column >= 0) & (column < columns)).all()
        or not ((kind >= 0) & (kind < MISSING)).all()
        or not np.isin(by_set, np.arange(sets)).all()
    ):
        raise InvalidInput("a tree is damaged: a split has a column or a set of categories that does not exist")
    if sets:
        ends = _whole(lines.get("cat_boundaries", ""), sets + 1)
        words = _whole(lines.get("cat_threshold", ""), int(ends[-1]))
        if ends[0] != 0 or (np.diff(ends) < 1).any() or not ((words >= 0) & (words < 1 << 32)).all():
            raise InvalidInput("a tree is damaged: the categories of a split do not exist")
    elif lines.get("cat_boundaries") or lines.get("cat_threshold"):
        raise InvalidInput("a tree has categories, but no split by them")


def _numbers(text: str, count: int) -> NDArray[np.float64]:
    numbers = np.array(text.split(" ") if text else [], np.float64)
    if numbers.size != count or not np.isfinite(numbers).all():
        raise InvalidInput("a tree is damaged: it has too few or too many numbers, or some that are not finite")
    return numbers


def _whole(text: str, count: int) -> NDArray[np.int64]:
    numbers = _numbers(text, count)
    if (np.abs(numbers) > 1 << 40).any() or (numbers != np.trunc(numbers)).any() or "." in text or "e" in text.lower():
        raise InvalidInput("a tree is damaged: a number must be whole")
    return numbers.astype(np.int64)


def _categories(line: str) -> str:
    """Return the categories of columns of pandas, written again: None, or a list of values for each column."""
    found = json.loads(line.removeprefix(CATEGORIES))
    lists = [] if found is None else is_a(found, list, what="the categories")
    plain = all(
        isinstance(items, list) and all(isinstance(item, (str, int, float)) for item in items) for items in lists
    )
    if not plain:
        raise InvalidInput("the categories of a column are neither text nor numbers")
    return json.dumps(found)


def _state(model: Any) -> State:
    if not getattr(model, "fitted_", False):
        return {"parameters": plain_parameters(model), "trees": None, "named": False}
    try:
        text = checked_text(model.booster_.model_to_string())
    except InvalidInput as error:
        raise NotStorable(f"a LGBMRegressor cannot be stored: {error}") from error
    named = bool(getattr(model, "_fitted_with_feature_names", True))
    return {"parameters": plain_parameters(model), "trees": text, "named": named}


def _build(state: State) -> Any:
    parameters, text, named = exactly(state, "parameters", "trees", "named")
    model = with_parameters(LGBMRegressor, parameters)
    if text is None:
        return model
    if checked_text(is_a(text, str, what="the text of the trees")) != text:
        raise InvalidInput("the text of the trees has lines that are not stored")
    try:
        booster = Booster(model_str=text)
    except LightGBMError as error:
        raise InvalidInput(f"LightGBM cannot read the trees: {error!s:.200}") from None
    fitted = {
        "_Booster": booster,
        "_objective": model.objective or "regression",
        "_n_features": booster.num_feature(),
        "_n_features_in": booster.num_feature(),
        "_fitted_with_feature_names": is_a(named, bool, what="named"),
        "_best_iteration": 0,
        "fitted_": True,
    }
    for name, value in fitted.items():
        setattr(model, name, value)
    return model


add(StoredType("LGBMRegressor", LGBMRegressor, _state, _build))
