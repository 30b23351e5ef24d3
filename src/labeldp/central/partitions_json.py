"""Partitions as JSON and back: what is read must fit together, since a file may hold anything."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.arrays import Floats
from labeldp.central.partitions import MOST_COLUMNS, Partitions
from labeldp.errors import InvalidInput
from labeldp.features.columns import ColumnEncoder
from labeldp.features.vocabulary import Vocabulary
from labeldp.json_text import expect_fields

_FIELDS = {"columns", "empty", "numeric", "categorical"}
_NUMERIC = {"name", "cuts", "missing", "centres"}
_CATEGORICAL = {"name", "categories", "counts"}
_WHAT = "the cells of columns"
MOST_CELLS = 1 << 15
"""More cells of one column than any partition has."""


def partitions_to_record(partitions: Partitions) -> dict[str, Any]:
    """Partitions as JSON can hold them. Floats are written so that they come back to the last bit."""
    encoder = partitions.encoder
    numeric = zip(encoder.numeric, partitions.cuts, partitions.missing, partitions.centres, strict=True)
    return {
        "columns": list(encoder.columns),
        "empty": sorted(encoder.empty),
        "numeric": [
            {"name": name, "cuts": cuts.tolist(), "missing": missing, "centres": centres.tolist()}
            for name, cuts, missing, centres in numeric
        ],
        "categorical": [
            {"name": one.name, "categories": one.items.to_pylist(), "counts": np.asarray(one.counts).tolist()}
            for one in encoder.categorical
        ],
    }


def partitions_from_record(record: Any) -> Partitions:
    """What `partitions_to_record` gave; anything else is refused."""
    expect_fields(_object(record), _FIELDS, _WHAT)
    numeric = [_numeric(one) for one in _list(record["numeric"])]
    categorical = tuple(_vocabulary(one) for one in _list(record["categorical"]))
    columns, empty = _texts(record["columns"]), _texts(record["empty"])
    used = [*(name for name, *_ in numeric), *(one.name for one in categorical)]
    if len(set(columns)) != len(columns) or len(set(used)) != len(used) or not 1 <= len(used) <= MOST_COLUMNS:
        raise InvalidInput(f"{_WHAT} have a column twice, or too many or none of them")
    if not set(used) <= set(columns) or not set(empty) <= {name for name, *_ in numeric}:
        raise InvalidInput(f"{_WHAT} name a column that is not among them")
    encoder = ColumnEncoder(columns, tuple(name for name, *_ in numeric), categorical, frozenset(empty))
    return Partitions(
        encoder,
        tuple(cuts for _, cuts, _, _ in numeric),
        tuple(missing for *_, missing, _ in numeric),
        tuple(centres for *_, centres in numeric),
    )


def _numeric(record: Any) -> tuple[str, Floats, bool, Floats]:
    expect_fields(_object(record), _NUMERIC, _WHAT)
    (name,) = _texts([record["name"]])
    cuts, centres = _floats(record["cuts"]), _floats(record["centres"])
    if (np.diff(cuts) <= 0).any() or cuts.size >= MOST_CELLS:
        raise InvalidInput(f"the cut points of {name!r:.60} do not rise, or are too many")
    if (np.diff(centres) <= 0).any() or centres.size != cuts.size + 1:
        raise InvalidInput(f"the middles of the cells of {name!r:.60} do not rise, or do not fit its cut points")
    if type(record["missing"]) is not bool:
        raise InvalidInput(f"{name!r:.60} must say true or false whether numbers are missing")
    return name, cuts, record["missing"], centres


def _vocabulary(record: Any) -> Vocabulary:
    expect_fields(_object(record), _CATEGORICAL, _WHAT)
    (name,) = _texts([record["name"]])
    kept, counts = _list(record["categories"]), _list(record["counts"])
    _texts([one for one in kept if one is not None])
    whole = all(type(count) is int and 0 <= count < 2**53 for count in counts)
    if not whole or len(counts) != len(kept) + 1 or len(set(kept)) != len(kept) or len(kept) >= MOST_CELLS:
        raise InvalidInput(f"the categories of {name!r:.60} do not fit their counts")
    return Vocabulary(name, pa.array(kept, pa.large_string()), np.array(counts, np.int64))


def _object(record: Any) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise InvalidInput(f"{_WHAT} must be an object")
    return record


def _list(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise InvalidInput(f"{_WHAT} hold something else in place of a list")
    return values


def _texts(values: Any) -> tuple[str, ...]:
    if not all(isinstance(value, str) for value in _list(values)):
        raise InvalidInput(f"{_WHAT} hold something else in place of a name")
    return tuple(values)


def _floats(values: Any) -> Floats:
    if not all(type(value) is float and math.isfinite(value) for value in _list(values)):
        raise InvalidInput(f"{_WHAT} hold something else in place of a number")
    return np.array(values, np.float64)
