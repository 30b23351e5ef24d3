"""Models from noisy sums as data. Every index that prediction follows is checked against the array that it points into."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import numpy as np

from labeldp.arrays import Floats
from labeldp.central.cells_plan import CellsPlan
from labeldp.central.inference import LabelRange
from labeldp.central.partitions import Partitions
from labeldp.central.private_sums import PrivateSums
from labeldp.central.sums_model import Pair, SumsModel
from labeldp.errors import InvalidInput
from labeldp.json_text import parse_json
from labeldp.training.stored.estimators import estimator
from labeldp.training.stored.kinds import Kind, State, add, all_are, exactly, is_a
from labeldp.training.sums_regressor import SumsRegressor


def _partitions(state: State) -> Partitions:
    (text,) = exactly(state, "json")
    return Partitions.from_record(parse_json(is_a(text, str, what="json"), "the cells of columns"))


def _plan(state: State) -> CellsPlan:
    (text,) = exactly(state, "json")
    return CellsPlan.from_json(is_a(text, str, what="json"))


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
    return LabelRange((low, high), *(_finite(number) for number in numbers))


def _model(state: State) -> SumsModel:
    names = tuple(field.name for field in fields(SumsModel))
    parts: dict[str, Any] = dict(zip(names, exactly(state, *names), strict=True))
    partitions = is_a(parts["partitions"], Partitions, what="partitions")
    pairs = all_are(parts["pairs"], Pair, "pairs")
    sizes = [*partitions.sizes, *(_cells_of(pair, partitions) for pair in pairs)]
    effects, weights = (_arrays(parts[name], sizes, name) for name in ("effects", "weights"))
    spread = _floats(parts["spread"], "spread")
    if spread.ndim != 2 or len(spread) != 1 + sum(sizes):
        raise InvalidInput("the spread does not fit the effects")
    lower, upper = (_finite(end) for end in all_are(parts["bounds"], float, "bounds"))
    if lower > upper:
        raise InvalidInput("the bounds are not in order")
    found = is_a(parts["range"], LabelRange, what="range")
    mean, rest = _finite(parts["mean"]), _finite(parts["rest"])
    return SumsModel(partitions, pairs, mean, effects, weights, spread, rest, found, (lower, upper))


def _cells_of(pair: Pair, partitions: Partitions) -> int:
    """The number of cells of a pair, if it fits its columns."""
    sizes = partitions.sizes
    for column, coarse in zip(pair.columns, pair.maps, strict=True):
        if not 0 <= column < len(sizes) or coarse.size != sizes[column]:
            raise InvalidInput("a pair does not fit its columns")
    rows, columns = pair.sizes
    return rows * columns


def _arrays(values: Any, sizes: list[int], what: str) -> tuple[Floats, ...]:
    arrays = tuple(_floats(one, what) for one in all_are(values, np.ndarray, what))
    if [one.shape for one in arrays] != [(size,) for size in sizes]:
        raise InvalidInput(f"the {what} do not fit the cells")
    return arrays


def _floats(values: Any, what: str) -> Floats:
    array: Floats = is_a(values, np.ndarray, what=what)
    if array.dtype != np.float64 or not np.isfinite(array).all():
        raise InvalidInput(f"the {what} must be finite numbers")
    return array


def _finite(number: Any) -> float:
    value = float(is_a(number, float, what="a number of the model"))
    if not np.isfinite(value):
        raise InvalidInput("a number of the model is not finite")
    return value


def _plain(value: Any) -> State:
    """The fields of a value, with NumPy's numbers as Python's."""
    state = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: part.item() if isinstance(part, np.generic) else part for name, part in state.items()}


def _model_state(model: SumsModel) -> State:
    return {**_plain(model), "bounds": tuple(float(end) for end in model.bounds)}


def _partitions_state(partitions: Partitions) -> State:
    return {"json": json.dumps(partitions.to_record(), ensure_ascii=False)}


for entry in (
    Kind("Partitions", Partitions, _partitions_state, _partitions),
    Kind("CellsPlan", CellsPlan, lambda plan: {"json": plan.to_json()}, _plan),
    Kind("Pair", Pair, _plain, _pair),
    Kind("LabelRange", LabelRange, _plain, _range),
    Kind("SumsModel", SumsModel, _model_state, _model),
    estimator(SumsRegressor, {"plan": (CellsPlan,), "sums": (PrivateSums,), "model_": (SumsModel,)}),
):
    add(entry)
