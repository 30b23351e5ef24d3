"""Columns by their names, whatever characters these have."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it that


def column(name: str) -> Column:
    """The column of that name."""
    return F.col(quoted(name))


def quoted(name: str) -> str:
    """The name as Spark reads it, dots and backticks included."""
    return f"`{name.replace('`', '``')}`"
