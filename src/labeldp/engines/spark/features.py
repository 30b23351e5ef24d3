"""For the features party: the feature rows of a message's records, found on the cluster."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it that
from pyspark.sql.types import IntegralType, StringType

from labeldp.engines.spark.cluster import check_kind
from labeldp.engines.spark.columns import numbered, place_of
from labeldp.engines.spark.held_ids import held_ids
from labeldp.errors import InvalidInput
from labeldp.message.reader import Message

_SHARES = 1 << 32


def records_of(features: DataFrame, message: Message, id_name: str, rows: int | None) -> DataFrame:
    """The rows of `features` whose ids the message has; with `rows`, about so many records of them, chosen by their ids."""
    check_kind(features)
    place = place_of(features, id_name, "the frame of features")
    kind = features.schema[place].dataType
    found = "int" if isinstance(kind, IntegralType) else "str" if isinstance(kind, StringType) else kind.simpleString()
    if found != message.header.id_type:  # Spark would convert one of them, and "007" would be 7
        raise InvalidInput(
            f"the message's ids are {message.header.id_type} and those in {id_name!r} are {found}: they would not be the same "
            "records. Convert the column first"
        )
    known = held_ids(features.sparkSession, message)
    if rows is not None and rows < message.records:
        share = F.pmod(F.xxhash64(known["id"]), F.lit(_SHARES))
        known = known.where(share < F.lit(rows * _SHARES // message.records))
    rows_by_place = numbered(features)
    ids = F.col(str(place)).cast("string" if found == "str" else "bigint")  # text without a collation: a is not A
    return rows_by_place.join(known, ids == known["id"], "left_semi").toDF(*features.columns)
