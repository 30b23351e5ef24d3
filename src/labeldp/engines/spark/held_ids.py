"""The ids of a message as a frame."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it that

from labeldp.engines.spark.columns import numbered
from labeldp.engines.spark.places import file_pattern
from labeldp.message.reader import Message


def held_ids(spark: SparkSession, message: Message) -> DataFrame:
    """One column `id`, read by the workers, who must see the message's folder."""
    reader = spark.read.options(ignoreMissingFiles=False, ignoreCorruptFiles=False, mergeSchema=False)
    rows = reader.parquet(*(file_pattern(file.path) for file in message.files))
    return numbered(rows).select(F.col("0").alias("id"))  # the id comes first
