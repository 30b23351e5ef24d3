"""Warns about likely mistakes: an index of pandas, ids or the label itself among the features, or most records without a partner."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.learn.feature_tables import is_text

NEARLY_ALL = 0.95
"""A column is near-unique if it has at least this share of different values among its values."""

LEAST_ROWS = 100
"""Among fewer rows, distinct values do not indicate an id."""

ALIKE, LEAST_LETTERS, MOST_MORE = 0.8, 5, 4
"""Two names of `LEAST_LETTERS` letters or more are nearly equal if difflib's ratio is at least `ALIKE`, or if one is the other with at most
`MOST_MORE` letters added."""


class FeatureWarning(UserWarning):
    """Warns about a likely mistake in the features, and what to do about it.

    A column is probably not a feature but an index, an id, or the label itself. Or most records are not in the message.

    Examples
    --------
    >>> import warnings
    >>> from labeldp import FeatureWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", FeatureWarning)  # every column is a feature, I am sure

    """


def warn_of_suspects(
    table: pa.Table,
    *,
    index: Sequence[str],
    label_column: str | None,
    rows: NDArray[np.int64] | None = None,
    numeric: Collection[str | int] = (),
    stacklevel: int = 1,
) -> None:
    """Issue a `FeatureWarning` for each kind of suspect among the columns of a table.

    Parameters
    ----------
    table : pyarrow.Table
        The columns to learn from.
    index : sequence of str
        The index columns of pandas that were left out.
    label_column : str or None
        The name of the labels, if the message has it.
    rows : array of int64, optional
        The row of each record in the user's file. By default the table has all rows of the file.
    numeric : collection of str or int
        Columns that the user named as numbers. They are not questioned.
    stacklevel : int
        The frame that the warnings point at, as for `warnings.warn` in the caller.
    """
    rows = np.arange(table.num_rows) if rows is None else rows
    for text in _suspicions(table, rows, index, label_column, numeric):
        warnings.warn(text, FeatureWarning, stacklevel=stacklevel + 1)


def warn_of_lost_records(paired: int, without_label: int, without_features: int, *, stacklevel: int = 1) -> None:
    """Issue a `FeatureWarning` if more than half of the features and more than half of the labels are unmatched.

    If only one side has unmatched records, it is a larger table. If both lose most records, the ids may be of different
    kinds and agree by chance.
    """
    if min(without_label, without_features) > paired:
        warnings.warn(
            f"only {paired:,} of {paired + without_label:,} rows of features have a private label, and only {paired:,} of "
            f"{paired + without_features:,} private labels have features. Ids that agree by chance pair different records: "
            "check that the id column is the right one (--id) and that both files are about the same records.",
            FeatureWarning,
            stacklevel=stacklevel + 1,
        )


def is_index_name(name: str) -> bool:
    """Return whether pandas gives this name to an unnamed index column (in Parquet and in CSV)."""
    return re.fullmatch(r"|Unnamed: 0(\.\d+)*|__index_level_\d+__", name) is not None


def is_near_unique(column: Any) -> bool:
    """Return whether a column of text or categories has a distinct value in nearly every row, like ids.

    Numbers are not checked, because measurements such as an income or an area in square metres are as distinct as ids.
    """
    coded = pa.types.is_dictionary(column.type)
    count = len(column) - column.null_count
    if count < LEAST_ROWS or not (coded or is_text(column.type)):
        return False
    if coded:
        column = pa.chunked_array([chunk.indices for chunk in column.unify_dictionaries().chunks])
    return bool(pc.count_distinct(column, mode="only_valid").as_py() >= NEARLY_ALL * count)


def counts_rows(column: Any, rows: NDArray[np.int64]) -> bool:
    """Return whether an integer column numbers the rows of the file in their order, from any start."""
    if len(column) < LEAST_ROWS or column.null_count or not pa.types.is_integer(column.type):
        return False
    offsets = np.asarray(column).astype(np.int64) - rows
    return bool((offsets == offsets[0]).all())


def nearly_equal(name: str, other: str) -> bool:
    """Return whether two names differ only in case, signs, digits at the end, a plural or a few letters, or a short word more."""
    one, two = _letters(name), _letters(other)
    if one == two:
        return True
    if min(len(one), len(two)) < LEAST_LETTERS:
        return False
    within = (one in two or two in one) and abs(len(one) - len(two)) <= MOST_MORE
    return within or SequenceMatcher(None, one, two).ratio() >= ALIKE


def _suspicions(
    table: pa.Table,
    rows: NDArray[np.int64],
    index: Sequence[str],
    label_column: str | None,
    numeric: Collection[str | int],
) -> Iterator[str]:
    if "" in index:
        yield "the column without a name is left out, since pandas writes its index so. To train on it, give it a name."
    if named := [name for name in index if name]:
        it = "it" if len(named) == 1 else "them"
        yield (
            f"{_named(named)} left out, since pandas wrote {it} as an index. To train on {it}, name {it} in --numeric or "
            "--categorical (in Python numeric=[…] or categorical=[…])."
        )
    checked = [(name, table.column(name)) for name in table.schema.names if name not in numeric]
    ids = [name for name, column in checked if is_near_unique(column)]
    if ids:
        yield (
            f"{_named(ids)} probably not a feature: nearly every row has a different text there, as with ids, and a model cannot "
            f"learn from a category that occurs once. {_leave_out(ids)} If the text is numbers, convert it to numbers."
        )
    counted = [name for name, column in checked if counts_rows(column, rows)]
    if counted:
        yield (
            f"{_named(counted)} probably not a feature: it numbers the rows of the file. {_leave_out(counted)} If the order of "
            f"the rows means something, name it in --numeric (in Python numeric={counted!r})."
        )
    same = [n for n in table.schema.names if label_column is not None and nearly_equal(n, label_column)]
    if same:
        yield (
            f"{_named(same)} perhaps the label: the labels are called {label_column!r}. A model that sees the true label "
            f"learns to repeat it and is worth nothing where labels are unknown. {_leave_out(same)}"
        )


def _letters(name: str) -> str:
    kept = "".join(letter for letter in name.casefold() if letter.isalnum())
    return kept.rstrip("0123456789").rstrip("s") or kept


def _named(names: Sequence[str]) -> str:
    """Return the subject of a sentence with its verb."""
    shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"the column {shown} is" if len(names) == 1 else f"the columns {shown} are"


def _leave_out(names: Sequence[str]) -> str:
    it = "it" if len(names) == 1 else "them"
    return f"Leave {it} out with --exclude {','.join(names)} (in Python exclude={list(names)!r})."
