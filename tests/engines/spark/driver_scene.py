"""A folder with labels, a ledger and a key, and its release on Spark: in this process, or in a driver that can be killed.

As a program it is such a driver: python driver_scene.py FOLDER [--task … --kind …] [--fresh] [--die NAME] [--conf K=V …]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from observed import Fault, committed, observed, seen, two_labels
from spark_session import local_session

import labeldp.spark
from labeldp import Ledger, Message

BOUNDS = (0, 400)
EPSILON = 1
BATCH = 200
"""Records in a batch of Arrow, so that partitions have several."""
MOST_SECONDS = 300


@dataclass(frozen=True)
class Scene:
    """One dataset and its release."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, *, rows: int = 4000, files: int = 2) -> Scene:
        """New labels. Each file is a partition of the frame, so that no shuffle comes before pass two."""
        random = np.random.default_rng(rows)
        scene = cls(folder)
        for place in (scene.input, scene.noted):
            place.mkdir(parents=True)
        for number, ids in enumerate(np.split(random.permutation(rows), files)):
            table = pa.table({"order": ids, "amount": random.uniform(*BOUNDS, ids.size)})
            pq.write_table(table, scene.input / f"{number}.parquet")
        Ledger.create(folder / "ledger.db").add_dataset("data", 2 * EPSILON)
        return scene

    @property
    def input(self) -> Path:
        return self.folder / "input"

    @property
    def noted(self) -> Path:
        """Where `observed` writes."""
        return self.folder / "noted"

    @property
    def message(self) -> Path:
        return self.folder / "message"

    @property
    def spent(self):
        return Ledger(self.folder / "ledger.db").datasets()[0].spent

    def release(
        self, spark, fault: Fault | None = None, *, fresh: bool = False, allow_unencrypted: bool = False
    ) -> Message:
        """The whole release, watched."""
        frame = spark.read.parquet(str(self.input))
        with small_batches(spark), observed(self.noted, fault, fresh=fresh):
            return labeldp.spark.privatize(
                frame,
                label="amount",
                id="order",
                epsilon=EPSILON,
                domain=BOUNDS,
                out=self.message,
                ledger=Ledger(self.folder / "ledger.db"),
                dataset="data",
                key_file=self.folder / "key",
                mechanism="randomized-response",
                allow_unencrypted=allow_unencrypted,
            )

    def two_labels(self) -> int:
        """How many ids got more than one private label, in any attempt or in the message."""
        found = [seen(self.noted)]
        if self.message.exists():
            found.append(committed(Message.open(self.message)))
        return two_labels(*found)

    @contextmanager
    def driver(self, *arguments: str, environment: dict[str, str] | None = None, program: str = __file__):
        """A driver that makes the release. At the end of the block it is killed with all that it started on this machine."""
        (self.folder / "driver").mkdir(exist_ok=True)
        paths = os.pathsep.join(path for path in sys.path if path)
        with (self.folder / "driver" / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, program, str(self.folder), *arguments],
                env=(os.environ if environment is None else environment) | {"PYTHONPATH": paths},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def wait_for(self, process, done) -> None:
        """Until `done` says so. A driver that ends before that is an error."""
        end = time.monotonic() + MOST_SECONDS
        while not done():
            if process.poll() is not None or time.monotonic() > end:
                text = (self.folder / "driver" / "log").read_text(errors="replace")
                raise AssertionError(f"the driver ended or hangs: {text[-3000:]}")
            time.sleep(0.05)

    def has_fired(self) -> bool:
        marker = self.noted / "fired"
        return marker.exists() and marker.read_text().endswith("\n")


@contextmanager
def small_batches(spark):
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(name, BATCH)
    try:
        yield
    finally:
        spark.conf.unset(name)


def _die(*_, **__):
    os.killpg(0, signal.SIGKILL)


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--task")
    parser.add_argument("--kind")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--die", help="a function of labeldp at whose call the driver and its Java are killed")
    parser.add_argument("--master", default="local[2,2]")
    parser.add_argument("--allow-unencrypted", action="store_true")
    parser.add_argument("--conf", action="append", default=[])
    options = parser.parse_args()
    settings = dict(one.split("=", 1) for one in options.conf)
    spark = local_session(options.folder / "driver", options.master, **settings)
    fault = Fault(options.task, options.kind) if options.task else None
    scene = Scene(options.folder)
    with mock.patch(options.die, _die) if options.die else nullcontext():
        scene.release(spark, fault, fresh=options.fresh, allow_unencrypted=options.allow_unencrypted)
    spark.stop()


if __name__ == "__main__":
    _main()
