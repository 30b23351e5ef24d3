"""Tables from JSON: nothing is believed, everything is checked again."""

from __future__ import annotations

from typing import Any

from labeldp.errors import InvalidInput
from labeldp.sampling.anchored import AnchoredTable
from labeldp.sampling.response import ResponseTable
from labeldp.sampling.shift import ShiftTable
from labeldp.sampling.table import Table
from labeldp.sampling.weights import WeightTable

_KINDS: dict[str, Any] = {
    "response": ResponseTable,
    "weights": WeightTable,
    "shift": ShiftTable,
    "anchored": AnchoredTable,
}


def table_from_json(data: object) -> Table:
    """The table that `to_json` described; sums, signs and ranges are checked, its ε is for `audit.verify` to say."""
    if not isinstance(data, dict):
        raise InvalidInput(f"a table is described by a JSON object, got {type(data).__name__}")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidInput(f"unknown kind of table {kind!r:.40}: it must be one of {', '.join(_KINDS)}")
    table: Table = _KINDS[kind].from_json(data)
    return table
