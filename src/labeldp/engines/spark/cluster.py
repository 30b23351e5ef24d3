"""Whether a session may carry a release: what it must be, and what must be encrypted where others can look."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from labeldp.errors import InvalidInput, PrivacyRefused

ENCRYPTED = {
    "disks": ("spark.io.encryption.enabled",),
    "network": ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled"),
}
"""What must be on: one setting of each row."""
SUBKEYS = "subkeys that undo the noise of this release"


def is_local(master: str) -> bool:
    """Whether everything runs inside the driver, on one machine."""
    return master.split("[", maxsplit=1)[0] == "local"


def check_kind(frame: Any) -> None:
    """Refuses what is not a frame."""
    if not isinstance(frame, DataFrame):
        kind = f"{type(frame).__module__}.{type(frame).__name__}"
        raise InvalidInput(f"frame must be a Spark DataFrame, got {kind}: make one with spark.read.parquet(…)")
    if isinstance(frame, ClassicFrame) and frame.sparkSession.sparkContext._jsc is None:  # noqa: SLF001 - None once it is stopped
        raise InvalidInput("the Spark session of this frame was stopped: start one, and read the frame again")


def check_frame(frame: Any) -> None:
    """Refuses what is not a frame of a classic session that can be read more than once."""
    check_kind(frame)
    if not isinstance(frame, ClassicFrame):
        raise PrivacyRefused(
            "this frame belongs to a Spark Connect session, which sends the release's subkeys inside its plan: use a classic "
            "session, made with SparkSession.builder.master(…)"
        )
    if frame.isStreaming:
        raise InvalidInput("this frame is a stream, and a release reads its input twice: save a batch of it first")
    if not frame._jdf.queryExecution().analyzed().deterministic():  # noqa: SLF001 - Spark says it only there
        raise InvalidInput(
            "this frame gives other rows each time it is read: something in it is random or depends on the partitioning, such "
            "as rand(), uuid() or monotonically_increasing_id(). Save it first, and read it back"
        )


def check_encryption(spark: SparkSession, *, allow_unencrypted: bool, secret: str = SUBKEYS) -> None:
    """Refuses a cluster that writes or sends a secret in plain text, unless told otherwise. `secret` says what workers get.

    Spark may keep what it sends them in temporary folders of driver and executors, where it stays if a process is killed.
    """
    context = spark.sparkContext
    if allow_unencrypted or is_local(str(context.master)):
        return
    settings = context.getConf()
    missing = [names[0] for names in ENCRYPTED.values() if not any(_is_on(settings.get(name)) for name in names)]
    if missing:
        raise PrivacyRefused(
            f"the workers of this cluster get {secret}, and Spark would keep or send this in plain text. Set "
            f"{' and '.join(f'{name}=true' for name in missing)} when the session starts (network encryption needs "
            "spark.authenticate=true too). If disks and network are encrypted otherwise, say allow_unencrypted=True "
            "(--allow-unencrypted)"
        )


def _is_on(value: str | None) -> bool:
    """Whether Spark takes the text of a setting for yes: in capitals and between spaces too."""
    return value is not None and value.strip().lower() == "true"
