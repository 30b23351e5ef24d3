"""CSV and TSV files as frames, by the rules of one machine: no type is guessed, and what is not understood is refused.

Spark would make a missing label of what it cannot read, and quote it in its logs where it is told to be strict. So all columns are
read as text, and the driver learns counts only.
"""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it that
from pyspark.sql.types import StringType, StructField, StructType

from labeldp.engines.spark.columns import column
from labeldp.engines.spark.jobs import SparkFailed, job
from labeldp.errors import InvalidInput
from labeldp.shown import count_of
from labeldp.tables.csv_text import TEXT_SUFFIXES, checked_delimiter, file_format, refuse_missing_header
from labeldp.tables.files import require_columns

NUMBER = r"(?i)\A-?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?\z"
INTEGER = r"\A(0|-?[1-9][0-9]{0,18})\z"
"""What is a number or an integer on one machine (`engines/arrow/text.py`, `engines/columns.py`), as Java writes patterns."""
_MALFORMED = "labeldp malformed"


def read_text(
    spark: SparkSession,
    place: str,
    shown: str,
    label: str,
    ids: str,
    id_type: str | None,
    delimiter: str | None,
    *,
    several: bool,
) -> tuple[DataFrame, str]:
    """The two columns, labels as numbers, and what the ids are. One more pass over the file checks both.

    A line may end inside quotation marks, so a file is read by one task. The files of a folder (`several`) must have equal header
    lines.
    """
    options: dict[str, bool | str] = {
        "header": True,
        "sep": checked_delimiter(delimiter) or TEXT_SUFFIXES[file_format(Path(shown))],
        "escape": '"',  # a quotation mark is doubled
        "multiLine": True,
        "enforceSchema": not several,
        "columnPruning": False,  # else a line with too many columns would not be noticed
        "columnNameOfCorruptRecord": _MALFORMED,
    }
    _refuse_blanks_after_quotes(spark, place, shown, str(options["sep"]))
    names = spark.read.options(**options).csv(place).columns
    refuse_missing_header(shown, [label, ids], names)
    require_columns([label, ids], names, shown)
    schema = StructType([StructField(name, StringType()) for name in (*names, _MALFORMED)])
    rows = spark.read.options(**options).schema(schema).csv(place)
    id_text, label_text = column(ids), F.btrim(column(label), F.lit(" \t"))
    number = F.when(label_text.rlike(NUMBER), label_text.try_cast("double"))
    kind = _checked(rows, shown, label, ids, id_type, label_text.isNotNull() & number.isNull(), id_text)
    return rows.select(id_text.alias(ids), number.alias(label)), kind


def _refuse_blanks_after_quotes(spark: SparkSession, place: str, shown: str, separator: str) -> None:
    """Refuses `"r1" ,5`: one machine reads the blank as a part of the id and Spark does not, so that a record would have two ids."""
    after = rf'"[ \t]+({re.escape(separator)}|\r?$)'
    with job(spark, 0, None):
        found = spark.read.text(place).where(F.col("value").rlike(after)).count()
    if found:
        raise InvalidInput(
            f"{shown}: {count_of(found, 'line')} {'has' if found == 1 else 'have'} blanks after a closing quotation mark, which programs read differently. "
            "Remove the blanks"
        )


def _checked(
    rows: DataFrame, shown: str, label: str, ids: str, id_type: str | None, not_number: Column, id_text: Column
) -> str:
    """What the ids are. Refuses lines, labels and ids that one machine would refuse, by their number."""
    integer = id_text.rlike(INTEGER) & id_text.try_cast("bigint").isNotNull()
    counted = {
        "malformed": column(_MALFORMED).isNotNull(),
        "not_numbers": not_number,
        "not_text": id_text.contains("\ufffd"),  # what Spark makes of bytes that are not UTF-8
        "not_integers": ~integer,
    }
    try:
        with job(rows.sparkSession, 0, None):
            found = rows.agg(*(F.count_if(fault).alias(name) for name, fault in counted.items())).first()
    except SparkFailed as error:
        raise InvalidInput(f"{shown}: {error}. If these are several files, do all have the same header line?") from None
    assert found is not None, "an aggregate has one row"
    records = {name: count_of(found[name], "record") for name in counted}
    if found["malformed"]:
        raise InvalidInput(
            f"{shown}: {records['malformed']} {_has(found['malformed'])} more or fewer columns than the header line. A decimal comma splits a number "
            "in two; what separates the columns is given with --delimiter"
        )
    if found["not_numbers"]:
        raise InvalidInput(
            f"{shown}: the label column {label!r} must hold numbers only, with a point for decimals, and {records['not_numbers']} "
            f"{_has(found['not_numbers'])} something else"
        )
    if found["not_text"]:
        raise InvalidInput(f"{shown}: the ids in {ids!r} must be UTF-8 text: save the file as UTF-8")
    return id_type or ("str" if found["not_integers"] else "int")


def _has(number: int) -> str:
    return "has" if number == 1 else "have"
