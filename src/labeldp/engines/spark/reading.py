"""Reads the input of the command line as a frame: Parquet, ORC, CSV and TSV, on any file system that Spark knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from labeldp.engines.spark.cluster import is_local
from labeldp.engines.spark.places import file_pattern, file_uri
from labeldp.engines.spark.text import read_text
from labeldp.errors import InvalidInput
from labeldp.tables.csv_text import TEXT_SUFFIXES, file_format
from labeldp.tables.files import require_columns

FORMATS = {".parquet": "parquet", ".pq": "parquet", ".parq": "parquet", ".orc": "orc"}
TABLES = {"_delta_log": "Delta", ".hoodie": "Hudi", "metadata": "Iceberg"}
"""Folders inside tables that are more than their Parquet files: some of these hold rows that were deleted."""
_IN_PYTHON = (
    "read it with Spark in Python (spark.read.format(…).load(…), with the format's package and settings) and call "
    "labeldp.spark.privatize or labeldp.spark.apply"
)


class Records(NamedTuple):
    """A frame, and what its ids are to become ("int" or "str") if its types do not say it."""

    frame: DataFrame
    id_type: str | None


def read_records(
    spark: SparkSession, source: str, label: str, ids: str, id_type: str | None, delimiter: str | None
) -> Records:
    """The records at a path or URI, in the format that its name says. A folder is Parquet unless its name says otherwise."""
    here = "://" not in source and is_local(str(spark.sparkContext.master))
    path, pattern = (file_uri(source), file_pattern(source)) if here else (source, source)
    suffix = file_format(Path(source))
    with _readable(source):
        if suffix in TEXT_SUFFIXES:
            several = not _is_file(spark, path)  # a folder or a pattern
            return Records(*read_text(spark, pattern, source, label, ids, id_type, delimiter, several=several))
        if delimiter is not None:
            raise InvalidInput(f"--delimiter is for CSV and TSV files, and {source} is not one: leave it out")
        frame = spark.read.format(_format(spark, path, source, suffix)).load(pattern)
    require_columns([label, ids], frame.columns, source)
    return Records(frame, id_type)


def _format(spark: SparkSession, path: str, source: str, suffix: str) -> str:
    for name, table in TABLES.items():
        if _is_folder(spark, f"{path}/{name}"):
            raise InvalidInput(f"{source} is a table of {table}, not of plain files: {_IN_PYTHON}")
    if suffix not in FORMATS and _is_file(spark, path):
        raise InvalidInput(
            f"cannot tell the format of {source}: name it .parquet, .orc, .csv or .tsv (these two also with .gz). Another format: "
            f"{_IN_PYTHON}"
        )
    return FORMATS.get(suffix, "parquet")


def _is_folder(spark: SparkSession, path: str) -> bool:
    files, found = _file_system(spark, path)
    return bool(files.exists(found) and files.getFileStatus(found).isDirectory())


def _is_file(spark: SparkSession, path: str) -> bool:
    files, found = _file_system(spark, path)
    return bool(files.exists(found) and files.getFileStatus(found).isFile())


def _file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Hadoop's file system for a path or URI, and the path there."""
    java: Any = spark.sparkContext
    found = java._jvm.org.apache.hadoop.fs.Path(path)  # noqa: SLF001 - the only way to Hadoop's file systems
    return found.getFileSystem(java._jsc.hadoopConfiguration()), found  # noqa: SLF001


@contextmanager
def _readable(source: str) -> Iterator[None]:
    """Turns Spark's errors into ours, without their texts, which may quote the file."""
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
        return "it holds no data files of that format"
    if "No FileSystem for scheme" in str(error) or "fs.s3a.S3AFileSystem not found" in str(error):
        return (
            "Spark does not know this kind of file system: add its package, for s3a:// with --conf "
            "spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION, where VERSION is that of Spark's Hadoop"
        )
    if isinstance(error, Py4JJavaError):
        condition = str(error.java_exception.getClass().getSimpleName())
    return f"Spark cannot reach or read it ({condition or type(error).__name__}). Is it whole, of that format, and open to you?"
