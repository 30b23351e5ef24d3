"""The ids of a message as a frame."""

from pyspark.sql import DataFrame, SparkSession

from labeldp.engines.spark.columns import column
from labeldp.engines.spark.paths import pattern
from labeldp.message.reader import Message


def held_ids(spark: SparkSession, message: Message) -> DataFrame:
    """One column `id`, read by the workers, who must see the message's folder."""
    files = [pattern(file.path) for file in message.files]
    return spark.read.parquet(*files).select(column(message.header.id_column).alias("id"))
