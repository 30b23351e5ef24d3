"""Columns by their places, since their names need not be told apart: Spark takes `Id` and `id` for the same."""

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it that
from pyspark.sql.pandas.types import to_arrow_type

from labeldp.errors import InvalidInput


def place_of(frame: DataFrame, name: str, what: str) -> int:
    """Which column has exactly this name. `what` says what the frame is, for an error."""
    names = frame.columns
    if names.count(name) != 1:
        found = "more than one column" if name in names else "no column"
        raise InvalidInput(f"{what} has {found} {name!r}. It has: {', '.join(names[:20])}")
    return names.index(name)


def arrow_type(frame: DataFrame, name: str, what: str) -> pa.DataType:
    """The Arrow type of a column, as workers read it."""
    kind = frame.schema[name].dataType
    try:
        return to_arrow_type(kind)
    except PySparkTypeError:
        raise InvalidInput(
            f"{what}: the column {name!r} holds {kind.simpleString()}, which no release can use. Convert it first"
        ) from None


def numbered(frame: DataFrame) -> DataFrame:
    """The frame, whose columns are called by their places: "0", "1" and so on."""
    return frame.toDF(*map(str, range(len(frame.columns))))


def column(name: str) -> Column:
    """The column of that name, dots and backticks included, where no other name is like it."""
    return F.col(f"`{name.replace('`', '``')}`")
