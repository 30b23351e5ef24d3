"""Takes the parts that Spark's own writer and committer left, and puts them into a message's folder.

Each part is moved where the driver sees the folder that the workers wrote to, or fetched from another file system.
"""

from __future__ import annotations

import re
import shutil
import uuid
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from labeldp.engines.spark.jobs import SparkFailed
from labeldp.engines.spark.places import file_uri
from labeldp.errors import InvalidInput
from labeldp.message.manifest import part_path

_PART = re.compile(r"part-(\d+)-.*\.parquet")


def write_parts(rows: DataFrame, place: str) -> None:
    """Writes each partition as one Parquet file below `place`, a new folder on any file system that Spark knows."""
    fixed: dict[str, str | int] = {"compression": "snappy", "maxRecordsPerFile": 0, "mapreduce.output.basename": "part"}
    rows.write.options(**fixed).parquet(place)


class Scratch:
    """The folder that Spark writes to: in the working folder, or on a file system that all machines share.

    Parameters
    ----------
    spark : SparkSession
        The session.
    work : Path
        The working folder of the release.
    uri : str or None
        Where all machines can write, if the working folder is not such a place.
    name : str
        The name of the new folder there. Others should not be able to guess it.
    """

    def __init__(self, spark: SparkSession, work: Path, uri: str | None, name: str) -> None:
        self._java: Any = spark.sparkContext._jvm  # noqa: SLF001 - the only way to Hadoop's file systems
        self._settings: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        self._work = work
        self.local = work / "spark" / "parts" if uri is None else None
        self._own = file_uri(work / "spark") if uri is None else f"{uri.rstrip('/')}/{name}"
        self.place = f"{self._own}/parts"

    def make(self) -> None:
        """Makes a folder of our own, which others can neither read nor write where the file system has rights, for Spark's folder."""
        path = self._path(self._own)
        rights = self._java.org.apache.hadoop.fs.permission.FsPermission("700")
        if not path.getFileSystem(self._settings).mkdirs(path, rights):
            raise SparkFailed(f"cannot make {self._own}")

    def remove(self) -> None:
        """Removes both, which a killed run may have left."""
        path = self._path(self._own)
        path.getFileSystem(self._settings).delete(path, True)

    def files(self) -> dict[int, Path]:
        """The files that were committed, by the number of their partition, on a disk of this machine."""
        names = sorted(self._names())
        found = {int(match[1]): name for name in names if (match := _PART.fullmatch(name))}
        if len(found) != sum(bool(_PART.fullmatch(name)) for name in names):
            raise SparkFailed("Spark wrote a partition more than once")
        return {number: self._fetched(name) for number, name in found.items()}

    def _names(self) -> list[str]:
        path = self._path(self.place)
        return [status.getPath().getName() for status in path.getFileSystem(self._settings).listStatus(path)]

    def _fetched(self, name: str) -> Path:
        if self.local is not None:
            return self.local / name
        source, target = self._path(f"{self.place}/{name}"), self._work / name
        source.getFileSystem(self._settings).copyToLocalFile(False, source, self._path(file_uri(target)), True)
        return target

    def _path(self, uri: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(uri)


def check_scratch(spark: SparkSession, uri: str) -> None:
    """Refuses a scratch folder that the driver cannot write to, before anything is charged. What it writes is removed."""
    probe = Scratch(spark, Path(), uri, f"labeldp-{uuid.uuid4()}")
    try:
        probe.make()
        probe.remove()
    except (PySparkException, Py4JError, SparkFailed):
        raise InvalidInput(
            f"Spark cannot write to the scratch folder {uri}. Give one on a file system that all machines share, such as "
            "hdfs:///tmp, and that Spark has the libraries and rights for"
        ) from None


def place_parts(files: dict[int, Path], labels: Path) -> int:
    """Moves the parts, in the order of their partitions, into the folder of a batch; returns their number of rows.

    Partitions without rows leave no part.
    """
    labels.mkdir()
    total = part = 0
    for number in sorted(files):
        rows = int(pq.read_metadata(files[number]).num_rows)
        if rows:
            shutil.move(files[number], part_path(labels, part))
            part, total = part + 1, total + rows
    return total
