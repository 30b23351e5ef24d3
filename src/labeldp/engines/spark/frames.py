"""Frames from files: the input of the command line (Parquet, ORC, CSV and TSV on any file system of Spark), ids of a message, matching features.

CSV files follow the rules of one machine: types are not guessed, and anything invalid is an error. Spark would turn an
unreadable label into a missing one, or quote it in its logs in strict mode. So all columns are read as text, and the
driver gets only counts. Columns are selected by index, because Spark does not distinguish the names `Id` and `id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, PySparkTypeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import IntegralType, StringType, StructField, StructType

from labeldp.artifact.reader import Message
from labeldp.engines.spark.jobs import SparkFailed, job
from labeldp.engines.spark.session import check_is_frame, file_pattern, file_uri, is_local
from labeldp.errors import InvalidInput
from labeldp.formatting import count_of
from labeldp.tables.csv_text import TEXT_SUFFIXES, checked_delimiter, file_format, refuse_missing_header
from labeldp.tables.files import PARQUET_SUFFIXES, require_columns

NUMBER = r"(?i)\A-?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?\z"
INTEGER = r"\A(0|-?[1-9][0-9]{0,18})\z"
"""The patterns of numbers and integers on one machine (`tables/csv_text.py`, `engines/batches.py`), in Java syntax."""
_MALFORMED = "labeldp malformed"
FORMATS = dict.fromkeys(PARQUET_SUFFIXES, "parquet") | {".orc": "orc"}
TABLES = {"_delta_log": "Delta", ".hoodie": "Hudi", "metadata": "Iceberg"}
"""Folders that mark tables with more than Parquet files: some of their files contain deleted rows."""
_IN_PYTHON = (
    "read it with Spark in Python (spark.read.format(…).load(…), with the format's package and settings) and call "
    "labeldp.spark.privatize or labeldp.spark.apply"
)
_SHARES = 1 << 32


def column_index(frame: DataFrame, name: str, what: str) -> int:
    """Return the index of the column with exactly this name. `what` is the name of the frame in errors."""
    names = frame.columns
    if names.count(name) != 1:
        found = "more than one column" if name in names else "no column"
        raise InvalidInput(f"{what} has {found} {name!r}. It has: {', '.join(names[:20])}")
    return names.index(name)


def arrow_type(frame: DataFrame, name: str, what: str) -> pa.DataType:
    """Return the Arrow type of a column, as workers read it."""
    kind = frame.schema[name].dataType
    try:
        return to_arrow_type(kind)
    except PySparkTypeError:
        raise InvalidInput(
            f"{what}: the column {name!r} contains {kind.simpleString()}, which a release cannot use. Convert it first"
        ) from None


def by_index(frame: DataFrame) -> DataFrame:
    """Return the frame with columns named by their index: "0", "1" and so on."""
    return frame.toDF(*map(str, range(len(frame.columns))))


def quoted_column(name: str) -> Column:
    """Return the column of that name, which may contain dots and backticks."""
    return F.col(f"`{name.replace('`', '``')}`")


def held_ids(spark: SparkSession, message: Message) -> DataFrame:
    """Return the ids of a message as one column `id`, read by the workers, which must have access to the message's folder."""
    reader = spark.read.options(ignoreMissingFiles=False, ignoreCorruptFiles=False, mergeSchema=False)
    rows = reader.parquet(*(file_pattern(file.path) for file in message.files))
    return by_index(rows).select(F.col("0").alias("id"))  # the id comes first


def read_text(
    spark: SparkSession,
    place: str,
    shown: str,
    label: str,
    ids: str,
    id_type: str | None,
    delimiter: str | None,
    person: str | None = None,
    *,
    several: bool,
    classes: bool = False,
) -> tuple[DataFrame, str]:
    """Return the columns, with labels as numbers (`classes` as text) and persons as integers if all are written as such, and the kind of the ids.

    They are checked in one more pass over the file.

    A line may end inside quotation marks, so a file is read by one task. The files of a folder (`several`) must have equal header
    lines.
    """
    options: dict[str, bool | str] = {
        "header": True,
        "sep": checked_delimiter(delimiter) or TEXT_SUFFIXES[file_format(Path(shown))],
        "escape": '"',  # a quotation mark is doubled
        "multiLine": True,
        "enforceSchema": not several,
        "columnPruning": False,  # otherwise a line with too many columns would go unnoticed
        "columnNameOfCorruptRecord": _MALFORMED,
    }
    _refuse_blanks_after_quotes(spark, place, shown, str(options["sep"]))
    names = spark.read.options(**options).csv(place).columns
    wanted = list(dict.fromkeys([label, ids, *([] if person is None else [person])]))
    refuse_missing_header(shown, wanted, names)
    require_columns(wanted, names, shown)
    schema = StructType([StructField(name, StringType()) for name in (*names, _MALFORMED)])
    rows = spark.read.options(**options).schema(schema).csv(place)
    id_text, label_text = quoted_column(ids), F.btrim(quoted_column(label), F.lit(" \t"))
    number = F.when(label_text.rlike(NUMBER), label_text.try_cast("double"))
    found, unreadable = quoted_column(label) if classes else number, label_text.isNotNull() & number.isNull()
    owner = quoted_column(wanted[-1])
    kind, owner_kind = _checked(
        rows, shown, label, ids, id_type, F.lit(False) if classes else unreadable, id_text, owner
    )
    columns = [id_text.alias(ids), found.alias(label)]
    if len(wanted) > 2:
        columns.append((owner.try_cast("bigint") if owner_kind == "int" else owner).alias(wanted[-1]))
    return rows.select(*columns), kind


def _refuse_blanks_after_quotes(spark: SparkSession, place: str, shown: str, separator: str) -> None:
    """Raise `InvalidInput` for `"r1" ,5`: one machine treats the blank as a part of the id and Spark does not."""
    after = rf'"[ \t]+({re.escape(separator)}|\r?$)'
    with job(spark, 0, None):
        found = spark.read.text(place).where(F.col("value").rlike(after)).count()
    if found:
        raise InvalidInput(
            f"{shown}: {count_of(found, 'line')} {_has(found)} blanks after a closing quotation mark, which programs read differently. "
            "Remove the blanks"
        )


def _checked(
    rows: DataFrame,
    shown: str,
    label: str,
    ids: str,
    id_type: str | None,
    not_number: Column,
    id_text: Column,
    owner: Column,
) -> tuple[str, str]:
    """Return the kinds of the ids and of persons. Raise `InvalidInput` for lines, labels and ids that are invalid on one machine."""
    counted = {
        "malformed": quoted_column(_MALFORMED).isNotNull(),
        "not_numbers": not_number,
        "not_text": id_text.contains("\ufffd"),  # Spark's replacement for bytes that are not UTF-8
        "not_integers": ~_is_integer(id_text),
        "owners_not_integers": ~_is_integer(owner),
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
            "in two; use --delimiter to set the column separator"
        )
    if found["not_numbers"]:
        raise InvalidInput(
            f"{shown}: the label column {label!r} must contain only numbers, with a point for decimals, and {records['not_numbers']} "
            f"{_has(found['not_numbers'])} something else"
        )
    if found["not_text"]:
        raise InvalidInput(f"{shown}: the ids in {ids!r} must be UTF-8 text: save the file as UTF-8")
    kinds = ["str" if found[name] else "int" for name in ("not_integers", "owners_not_integers")]
    return id_type or kinds[0], kinds[1]


def _is_integer(text: Column) -> Column:
    return text.rlike(INTEGER) & text.try_cast("bigint").isNotNull()


def _has(number: int) -> str:
    return "has" if number == 1 else "have"


def read_records(
    spark: SparkSession,
    source: str,
    label: str,
    ids: str,
    id_type: str | None,
    delimiter: str | None,
    person: str | None = None,
    *,
    classes: bool = False,
) -> tuple[DataFrame, str | None]:
    """Return the records at a path or URI, and the kind of their ids ("int" or "str") if their types do not determine it.

    The name determines the format. A folder without a suffix is Parquet.
    """
    here = "://" not in source and is_local(str(spark.sparkContext.master))
    path, pattern = (file_uri(source), file_pattern(source)) if here else (source, source)
    suffix = file_format(Path(source))
    with _readable(source):
        if suffix in TEXT_SUFFIXES:
            several = not _is_file(spark, path)  # a folder or a pattern
            return read_text(
                spark, pattern, source, label, ids, id_type, delimiter, person, several=several, classes=classes
            )
        if delimiter is not None:
            raise InvalidInput(f"--delimiter is for CSV and TSV files, and {source} is not one: leave it out")
        frame = spark.read.format(_format(spark, path, source, suffix)).load(pattern)
    require_columns([label, ids, *([] if person is None else [person])], frame.columns, source)
    return frame, id_type


def _format(spark: SparkSession, path: str, source: str, suffix: str) -> str:
    for name, table in TABLES.items():
        if (found := _status(spark, f"{path}/{name}")) is not None and found.isDirectory():
            raise InvalidInput(f"{source} is a table of {table}, not of plain files: {_IN_PYTHON}")
    if suffix not in FORMATS and _is_file(spark, path):
        raise InvalidInput(
            f"cannot tell the format of {source}: name it .parquet, .orc, .csv or .tsv (these two also with .gz). Another format: "
            f"{_IN_PYTHON}"
        )
    return FORMATS.get(suffix, "parquet")


def _is_file(spark: SparkSession, path: str) -> bool:
    found = _status(spark, path)
    return found is not None and bool(found.isFile())


def _status(spark: SparkSession, path: str) -> Any:
    """Return Hadoop's status of a file or folder, or None if it does not exist."""
    java: Any = spark.sparkContext
    found = java._jvm.org.apache.hadoop.fs.Path(path)  # noqa: SLF001 - the only way to Hadoop's file systems
    files = found.getFileSystem(java._jsc.hadoopConfiguration())  # noqa: SLF001
    return files.getFileStatus(found) if files.exists(found) else None


@contextmanager
def _readable(source: str) -> Iterator[None]:
    """Turn Spark's errors into ours, without their messages, which may quote the file."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        reason = _reason(error)
    else:
        return
    raise InvalidInput(f"{source}: {reason}")


def _reason(error: PySparkException | Py4JError) -> str:
    condition = (error.getCondition() if isinstance(error, PySparkException) else None) or ""
    if condition == "PATH_NOT_FOUND":
        return "there is no such file or folder. Spark looked for it on its own file system"
    if condition.startswith("UNABLE_TO_INFER_SCHEMA"):
        return "it contains no data files of that format"
    if "No FileSystem for scheme" in str(error) or "fs.s3a.S3AFileSystem not found" in str(error):
        return (
            "Spark does not know this kind of file system: add its package, for s3a:// with --conf "
            "spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION, where VERSION is that of Spark's Hadoop"
        )
    if isinstance(error, Py4JJavaError):
        condition = str(error.java_exception.getClass().getSimpleName())
    return f"Spark cannot reach or read it ({condition or type(error).__name__}). Is it complete, in that format, and readable for you?"


def matching_rows(features: DataFrame, message: Message, id_name: str, rows: int | None) -> DataFrame:
    """Return the rows of `features` whose ids are in the message; with `rows`, about that number of records, chosen by their ids."""
    check_is_frame(features)
    place = column_index(features, id_name, "the frame of features")
    kind = features.schema[place].dataType
    found = "int" if isinstance(kind, IntegralType) else "str" if isinstance(kind, StringType) else kind.simpleString()
    if found != message.header.id_type:  # Spark would convert one of them, so "007" would equal 7
        raise InvalidInput(
            f"the message's ids are {message.header.id_type} and the ids in {id_name!r} are {found}: they would not be the same "
            "records. Convert the column first"
        )
    known = held_ids(features.sparkSession, message)
    if rows is not None and rows < message.records:
        share = F.pmod(F.xxhash64(known["id"]), F.lit(_SHARES))
        known = known.where(share < F.lit(rows * _SHARES // message.records))
    rows_by_place = by_index(features)
    ids = F.col(str(place)).cast("string" if found == "str" else "bigint")  # text without a collation: a is not A
    return rows_by_place.join(known, ids == known["id"], "left_semi").toDF(*features.columns)
