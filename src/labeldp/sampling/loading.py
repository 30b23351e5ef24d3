"""Tables from JSON. Nothing in the file is trusted; everything is checked again."""

from typing import Any

from labeldp.errors import InvalidInput
from labeldp.sampling.anchored import AnchoredTable
from labeldp.sampling.response import ResponseTable
from labeldp.sampling.shift import ShiftTable
from labeldp.sampling.table import Table
from labeldp.sampling.weights import WeightTable
from labeldp.sampling.window import WindowTable

_KINDS: dict[str, Any] = {
    "response": ResponseTable,
    "weights": WeightTable,
    "shift": ShiftTable,
    "anchored": AnchoredTable,
    "window": WindowTable,
}


def table_from_json(data: object) -> Table:
    """The table that a JSON object describes.

    Parameters
    ----------
    data : object
        What `Table.to_json` returned, perhaps read from a file.

    Returns
    -------
    Table
        A valid table. Its ε is not checked here; `labeldp.verify` does that.

    Raises
    ------
    InvalidInput
        If it is not a table, or its weights do not add up.

    Examples
    --------
    >>> from labeldp.sampling import ResponseTable, table_from_json
    >>> table = ResponseTable(outputs=3, epsilon=1)
    >>> table_from_json(table.to_json()) == table
    True
    """
    if not isinstance(data, dict):
        raise InvalidInput(f"a table is described by a JSON object, got {type(data).__name__}")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidInput(f"unknown kind of table {kind!r:.40}: it must be one of {', '.join(_KINDS)}")
    table: Table = _KINDS[kind].from_json(data)
    return table
