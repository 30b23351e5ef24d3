"""The types that a model file may contain, and how each becomes plain data and back.

A name in a file selects one of these entries and nothing else. Every value is built by its own constructor or checked here: a file may
contain anything. The entries of estimators are in `estimators`, the checks of trees in `trees`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, MissingExtra
from labeldp.json_text import parse_json
from labeldp.learn.feature_columns import ColumnEncoder
from labeldp.learn.method import Method
from labeldp.learn.record_checks import all_are, exactly, finite_float, finite_floats, is_a
from labeldp.learn.score_model import ScoreModel
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
    sorted_ = labels.ndim == borders.ndim == 1 and not ((np.diff(labels) < 0).any() or (np.diff(borders) < 0).any())
    if not sorted_ or labels.size != borders.size + 1:
        raise InvalidInput("scores and labels must increase together")
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
    StoredType("ScoreModel", ScoreModel, _state, _score_model),
    StoredType(
        "Fraction",
        Fraction,
        lambda amount: {"numerator": amount.numerator, "denominator": amount.denominator},
        _fraction,
    ),
)
