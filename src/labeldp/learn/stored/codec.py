"""The types that a model file may contain, and how each becomes plain data and back.

A name in a file selects one of these entries and nothing else. Every value is built by its own constructor or checked here: a file may
contain anything. The entries of estimators are in `estimators`.

scikit-learn, LightGBM and XGBoost follow the indices in trees without looking. A node that points outside its tree, to itself or to a column
that does not exist would read foreign memory or never end (scikit-learn pull request 34558). So every index is checked when a model is loaded.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE, X_BITSET_INNER_DTYPE

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, MissingExtra
from labeldp.json_text import parse_json
from labeldp.learn.feature_columns import ColumnEncoder
from labeldp.learn.method import Method
from labeldp.learn.record_checks import all_are, exactly, finite_float, finite_floats, is_a
from labeldp.learn.score_model import ScoreModel
from labeldp.learn.sums.classes_model import ClassesModel
from labeldp.learn.sums.inference import Link
from labeldp.learn.sums.partitions import Partitions
from labeldp.learn.sums.sums_model import Pair, SumsModel
from labeldp.losses import LOSSES, Loss
from labeldp.mechanisms import FiniteMechanism
from labeldp.mechanisms.bias_variance import NormalScores
from labeldp.priors import NoisyCounts, Prior
from labeldp.release.label_range import LabelRange
from labeldp.release.private_sums import PrivateSums

State = dict[str, Any]


class NotStorable(InvalidInput):
    """A model contains something that the safe format cannot hold."""


@dataclass(frozen=True)
class StoredType:
    """How objects of one type become plain data and back.

    Parameters
    ----------
    name : str
        Its name in files.
    type : type
        The type. Subclasses are other types, unless `subclasses` is set.
    state : callable
        Returns the state of an object: a dict of values that can be stored in turn.
    build : callable
        Returns the object of a state. It checks the state, because a file can contain any: `InvalidInput` or `ValueError` if it is wrong.
    subclasses : bool
        Whether the entry is for subclasses as well.
    """

    name: str
    type: type
    state: Callable[[Any], State]
    build: Callable[[State], Any]
    subclasses: bool = False


_TYPES: dict[str, StoredType] = {}
_ON_DEMAND: dict[str, tuple[str, Callable[[], object]]] = {}


def add(*kinds: StoredType) -> None:
    """Enter types. A second entry of the same name is a `ValueError`."""
    for kind in kinds:
        if kind.name in _TYPES:
            raise ValueError(f"there are two entries for {kind.name!r}")
        _TYPES[kind.name] = kind


def add_on_demand(name: str, package: str, load: Callable[[], object]) -> None:
    """Name a type that is entered by `load()` when it is first needed, because its package may be missing or slow to import."""
    _ON_DEMAND[name] = package, load


def type_named(name: object) -> StoredType | None:
    """Return the entry of that name, or None."""
    if not isinstance(name, str):
        return None
    if name in _ON_DEMAND:
        package, load = _ON_DEMAND[name]
        if find_spec(package) is None:
            raise MissingExtra(f"the model is a {name}, which needs the package {package}: pip install {package}")
        load()  # an import: the second call does nothing
    return _TYPES.get(name)


def type_of(value: object) -> StoredType | None:
    """Return the entry for a value's type, or None."""
    name = type(value).__name__
    if name in _ON_DEMAND and type(value).__module__.partition(".")[0] == _ON_DEMAND[name][0]:
        type_named(name)
    for kind in _TYPES.values():
        if type(value) is kind.type or (kind.subclasses and isinstance(value, kind.type)):
            return kind
    return None


def _with_json(
    name: str, kind: type, write: Callable[[Any], str], read: Callable[[str], Any], *, subclasses: bool = False
) -> StoredType:
    """Return the entry of a type that has its own JSON. Its reader checks the text, and proves ε where there is one."""

    def build(state: State) -> Any:
        (text,) = exactly(state, "json", what=name)
        return read(is_a(text, str, what="json"))

    return StoredType(name, kind, lambda value: {"json": write(value)}, build, subclasses)


def _with_record(kind: Any) -> StoredType:
    """Return the entry of a type with `to_record` and `from_record`."""
    return _with_json(
        kind.__name__,
        kind,
        lambda value: json.dumps(value.to_record(), ensure_ascii=False),
        lambda text: kind.from_record(parse_json(text, kind.__name__)),
    )


def _state(value: Any) -> State:
    """Return the fields of a dataclass, with NumPy's numbers as Python's."""
    state = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: part.item() if isinstance(part, np.generic) else part for name, part in state.items()}


def _scores(state: State) -> NormalScores:
    labels, borders = (finite_floats(part, "scores") for part in exactly(state, "labels", "borders"))
    return NormalScores(labels, borders)


def _loss_state(loss: Loss) -> State:
    for entry in LOSSES:
        if entry.make is type(loss):
            return {"name": entry.name, **_state(loss)}
    raise NotStorable(f"the loss {loss.name} is a function of your own")


def _loss(state: State) -> Loss:
    entry = LOSSES[is_a(state.pop("name", None), str, what="name")]
    numbers = {name: is_a(value, int, float, what=name) for name, value in state.items()}
    return is_a(entry.make(**numbers), Loss, what="the loss")  # type: ignore[no-any-return]


def _fraction(state: State) -> Fraction:
    parts = exactly(state, "numerator", "denominator")
    return Fraction(*(is_a(part, int, what="a fraction's part") for part in parts))


def _prior_state(prior: Prior) -> State:
    counts = None if prior.counts is None else prior.counts.to_json()
    return {"values": prior.values, "masses": prior.masses, "epsilon": prior.epsilon_exact, "counts": counts}


def _prior(state: State) -> Prior:
    values, masses, epsilon, counts = exactly(state, "values", "masses", "epsilon", "counts")
    return Prior(
        is_a(values, np.ndarray, what="values"),
        is_a(masses, np.ndarray, what="masses"),
        is_a(epsilon, Fraction, what="epsilon"),
        None if counts is None else NoisyCounts.from_json(counts),
    )


def _domain(state: State) -> Domain:
    (values,) = exactly(state, "fields")
    return Domain(*is_a(values, list, what="fields"))


def _method(state: State) -> Method:
    return Method(*(is_a(text, str, what="a method's words") for text in exactly(state, "name", "why")))


def _pair(state: State) -> Pair:
    columns, maps = exactly(state, "columns", "maps")
    one, other = all_are(columns, int, "columns")
    first, second = all_are(maps, np.ndarray, "maps")
    if one == other or any(cells.dtype != np.uint16 or cells.ndim != 1 or not cells.size for cells in (first, second)):
        raise InvalidInput("a pair is two columns, and the coarse cell of each of their cells")
    return Pair((one, other), (first, second))


def _range(state: State) -> LabelRange:
    clip, *numbers = exactly(state, "clip", "lower", "mean", "variance", "factor", "shift")
    low, high = all_are(clip, int, "clip")
    return LabelRange((low, high), *(finite_float(number, "a number of the model") for number in numbers))


def _sums_model_state(model: SumsModel) -> State:
    return {**_state(model), "bounds": tuple(float(end) for end in model.bounds)}


def _sums_model(state: State) -> SumsModel:
    """Build a model from sums. Every index that prediction follows must lie inside the array that it points into."""
    names = [field.name for field in fields(SumsModel)]
    parts: dict[str, Any] = dict(zip(names, exactly(state, *names), strict=True))
    partitions = is_a(parts["partitions"], Partitions, what="partitions")
    pairs = all_are(parts["pairs"], Pair, "pairs")
    sizes = [*partitions.sizes, *(_cells_of(pair, partitions) for pair in pairs)]
    effects, weights = (_arrays(parts[name], sizes, name) for name in ("effects", "weights"))
    spread = finite_floats(is_a(parts["spread"], np.ndarray, what="spread"), "spread")
    if spread.ndim != 2 or len(spread) != 1 + sum(sizes):
        raise InvalidInput("the spread does not fit the effects")
    lower, upper = (finite_float(end, "a bound") for end in all_are(parts["bounds"], float, "bounds"))
    if lower > upper:
        raise InvalidInput("the bounds are not in order")
    found = is_a(parts["range"], LabelRange, what="range")
    mean, rest = (finite_float(parts[name], name) for name in ("mean", "rest"))
    link = is_a(parts["link"], Link, what="link")
    return SumsModel(partitions, pairs, mean, effects, weights, spread, rest, found, (lower, upper), link)


def _classes_model(state: State) -> ClassesModel:
    models, classes = exactly(state, "models", "classes")
    models, classes = all_are(models, SumsModel, "models"), all_are(classes, str, "classes")
    if (
        len(models) != len(classes)
        or len(set(classes)) < 3
        or any(model.link.name != "logit" or model.partitions.names != models[0].partitions.names for model in models)
    ):
        raise InvalidInput("a model of classes has a model of each class, of the same columns")
    return ClassesModel(models, classes)


def _score_model(state: State) -> ScoreModel:
    first, scores, loss, spread = exactly(state, "first", "scores", "loss", "spread")
    return ScoreModel(
        is_a(first, SumsModel, what="first"),
        is_a(scores, NormalScores, what="scores"),
        is_a(loss, Loss, what="loss"),
        finite_float(spread, "the spread"),
    )


def _link(state: State) -> Link:
    name, lower, width, classes = exactly(state, "name", "lower", "width", "classes")
    if name not in ("identity", "log", "logit"):
        raise InvalidInput(f"unknown link {name!r:.60}")
    return Link(
        name,
        finite_float(lower, "the lower end"),
        finite_float(width, "the width"),
        is_a(classes, bool, what="classes"),
    )


def _cells_of(pair: Pair, partitions: Partitions) -> int:
    """Return the number of cells of a pair, if it fits its columns."""
    sizes = partitions.sizes
    for column, coarse in zip(pair.columns, pair.maps, strict=True):
        if not 0 <= column < len(sizes) or coarse.size != sizes[column]:
            raise InvalidInput("a pair does not fit its columns")
    rows, columns = pair.sizes
    return rows * columns


def _arrays(values: Any, sizes: list[int], what: str) -> tuple[Floats, ...]:
    arrays = tuple(finite_floats(one, what) for one in all_are(values, np.ndarray, what))
    if [one.shape for one in arrays] != [(size,) for size in sizes]:
        raise InvalidInput(f"the {what} do not fit the cells")
    return arrays


add(
    _with_record(ColumnEncoder),
    _with_record(Partitions),
    _with_json("Mechanism", FiniteMechanism, lambda made: made.to_json(), FiniteMechanism.from_json, subclasses=True),
    _with_json("PrivateSums", PrivateSums, PrivateSums.to_json, PrivateSums.from_json),
    StoredType("NormalScores", NormalScores, _state, _scores),
    StoredType("Loss", Loss, _loss_state, _loss, subclasses=True),
    StoredType("Domain", Domain, lambda domain: {"fields": domain.to_json()}, _domain),
    StoredType("Prior", Prior, _prior_state, _prior),
    StoredType("Method", Method, _state, _method),
    StoredType("Pair", Pair, _state, _pair),
    StoredType("LabelRange", LabelRange, _state, _range),
    StoredType("Link", Link, _state, _link),
    StoredType("SumsModel", SumsModel, _sums_model_state, _sums_model),
    StoredType("ClassesModel", ClassesModel, _state, _classes_model),
    StoredType("ScoreModel", ScoreModel, _state, _score_model),
    StoredType(
        "Fraction",
        Fraction,
        lambda amount: {"numerator": amount.numerator, "denominator": amount.denominator},
        _fraction,
    ),
)


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
