"""A driver that makes a release and adds a batch, says which secrets it sent to workers, and then gives a control secret away.

python secret_driver.py FOLDER [--hang] [--master M] [--conf K=V …]

It reads `told/control` and appends to `told/secrets`, which the test reads. Plans and settings go to `texts`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import struct
from contextlib import ExitStack
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from unittest import mock

import pyarrow as pa
from driver_scene import BOUNDS, EPSILON, Scene
from observed import DRAWING, HANG, Fault
from pyspark.errors import PySparkException
from spark_session import local_session

import labeldp.spark
from labeldp import LabelDPError
from labeldp.engines.spark import jobs, writing
from labeldp.engines.spark.worker import Faults, RecordReader
from labeldp.sampling import BoundRandomness

MODES = ("extended", "codegen", "cost", "formatted")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hang", action="store_true", help="stop half way through pass two")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--conf", action="append", default=[])
    parser.add_argument("--level", default="DEBUG")
    parser.add_argument("--allow-unencrypted", action="store_true")
    options = parser.parse_args()
    folder = options.folder
    spark = local_session(folder / "driver", options.master, **dict(one.split("=", 1) for one in options.conf))
    spark.sparkContext.setLogLevel(options.level)
    scene = Scene(folder)
    with ExitStack() as stack:
        for module in (jobs, writing):
            stack.enter_context(mock.patch.object(module, "mapped", telling(module.mapped, folder)))
        if options.hang:
            scene.release(spark, Fault(DRAWING, HANG), allow_unencrypted=options.allow_unencrypted)
        make_messages(spark, folder, allow_unencrypted=options.allow_unencrypted)
    (folder / "texts" / "settings").write_text(settings(spark))
    secret, label = (folder / "told" / "control").read_bytes()[:32], (folder / "told" / "control").read_bytes()[32:]
    give_away(spark, secret, *struct.unpack("<d", label))
    spark.stop()


def make_messages(spark, folder: Path, *, allow_unencrypted: bool) -> None:
    """A release with a prior, a later batch, and releases whose tasks fail with labels in texts and variables."""
    first, later = (spark.read.parquet(str(folder / name)) for name in ("input", "later"))
    given = {"key_file": folder / "key", "allow_unencrypted": allow_unencrypted}
    asked = {"label": "amount", "id": "order", "epsilon": EPSILON, "domain": BOUNDS}
    labeldp.spark.privatize(first, out=folder / "message", **asked, **given)
    labeldp.spark.apply(later, folder / "message", **given)
    draw = writing.DrawTask
    for kind in (Stumbling, Changed):

        def failing(*arguments, kind=kind):
            task = draw(*arguments)
            return replace(task, reader=kind(task.reader.id_kind, task.reader.unit))

        with mock.patch.object(writing, "DrawTask", failing), contextlib.suppress(LabelDPError):
            labeldp.spark.privatize(first, out=folder / "refused", **asked, **given)
        assert not (folder / "refused").exists()


class Stumbling(RecordReader):
    """Does what a library may do with a label that it does not like."""

    def read(self, batch):
        label = batch.column("label")[0].as_py()
        raise pa.ArrowInvalid(f"cannot convert {label!r}") from ValueError(
            f"{label!r} and {struct.pack('<d', label)!r}"
        )


class Changed(RecordReader):
    """Finds a fault, so that the task ends while its variables hold labels."""

    def read(self, batch):
        ids, labels, _ = super().read(batch)
        return ids, labels, Faults(not_finite=1)


def telling(mapped, folder: Path):
    """`mapped`, which tells the test what it sends, and how Spark shows the plan."""

    def tell(frame, task, schema):
        with (folder / "told" / "secrets").open("a") as file:
            for name, secret in secrets_of(task):
                file.write(f"{name} {secret.hex()}\n")
        made = mapped(frame, task, schema)
        plan = made._jdf.queryExecution()
        tools = made.sparkSession._jvm.PythonSQLUtils
        texts = [plan.toString(), plan.analyzed().toJSON(), *(tools.explainString(plan, mode) for mode in MODES)]
        with (folder / "texts" / "plans").open("a") as file:
            file.write("\n".join(texts))
        return made

    return tell


def secrets_of(task):
    """What is secret in a task: all its bytes."""
    for field in fields(task) if is_dataclass(task) else ():
        value = getattr(task, field.name)
        if isinstance(value, bytes):
            yield field.name, value
        elif isinstance(value, BoundRandomness):
            yield field.name, value._subkeys
        elif is_dataclass(value):
            yield from secrets_of(value)


def settings(spark) -> str:
    """All settings that Spark or Java can show."""
    context, java = spark.sparkContext, spark.sparkContext._jvm.java.lang.System
    return "\n".join(
        map(
            str,
            [
                context.getConf().getAll(),
                spark.conf.getAll,
                context._jsc.hadoopConfiguration().toString(),
                [row.asDict() for row in spark.sql("SET -v").collect()],
                java.getProperties().toString(),
                java.getenv().toString(),
                dict(os.environ),
                context._jsc.sc().getLocalProperties().toString(),
            ],
        )
    )


def give_away(spark, secret: bytes, label: float) -> None:
    """Puts the control secret and the control label into all places where the test must see them."""
    context = spark.sparkContext
    broadcast = context.broadcast(secret)
    context.setLocalProperty("control", secret.hex())
    frame = spark.createDataFrame([(number, label) for number in range(1000)], "id bigint, label double")
    spark.createDataFrame([(label,)], "label double").repartition(2).toArrow()

    def fail(batches):
        for batch in batches:
            raise ValueError(repr(batch.column("label")[0].as_py()), len(broadcast.value))
            yield batch

    with contextlib.suppress(PySparkException):
        frame.mapInArrow(fail, "id bigint").collect()


if __name__ == "__main__":
    main()
