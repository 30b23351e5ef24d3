"""Starts Spark for tests and benchmarks: on this machine's loopback only, with this Python, and quiet."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession


def local_session(folder, master="local[2]", **settings):
    """A session whose temporary files lie in `folder`. Settings have underscores for dots."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    fixed = {
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "2g",
    }
    builder = SparkSession.builder.master(master).appName("labeldp")
    for name, value in (fixed | {key.replace("_", "."): value for key, value in settings.items()}).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
