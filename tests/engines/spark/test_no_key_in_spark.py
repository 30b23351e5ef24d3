"""The key, the subkeys and true labels are in no file, log, plan or setting of Spark that others may see.

A driver of its own makes a release, adds a batch and fails with a label in the text of an error, all with Spark's logs at DEBUG
and its files uncompressed. Meanwhile a thread reads everything that is written, and what processes show of themselves. The
driver also gives a control secret and a control label away, which must be found.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import secrets
import signal
import struct
import traceback
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import secret_driver
from driver_scene import BOUNDS, Scene
from secret_search import Search, Watch, descendants, forms

from labeldp import Domain
from labeldp.engines.spark.shuffle import DrawTask
from labeldp.engines.spark.worker import CHANGED, FAILED, CheckTask, RecordReader, WorkerError, without_error_texts
from labeldp.engines.spark.writing import Draw
from labeldp.mechanisms import RandomizedResponse
from labeldp.sampling import BoundRandomness
from spark_cluster import spark_cluster

ROWS = 2000
CONTROLS = {"control secret", "control label"}
SHOWN = 5
"""So many true labels of each file are looked for, from its beginning: where errors and texts begin too."""
VARIABLES = "spark.sql.execution.pyspark.udf.tracebackWithLocals.enabled"
TALKATIVE = {
    VARIABLES: "true",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.pyspark.jvmStacktrace.enabled": "true",
    "spark.sql.pyspark.worker.logging.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.task.reaper.enabled": "true",
    "spark.sql.planChangeLog.level": "warn",
    "spark.sql.debug.maxToStringFields": "10000",
    "spark.logConf": "true",
}
"""Settings with which Spark says more than usual."""
UNCOMPRESSED = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.broadcast.compress": "false",
    "spark.rdd.compress": "false",
    "spark.sql.maxMetadataStringLength": "100000",
    "spark.sql.maxPlanStringLength": "10000000",
}

DEBUG = """
rootLogger.level = debug
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c: %m%n%ex
"""


@pytest.fixture
def scene(java, tmp_path):
    """A dataset whose key is known, and room for what the driver tells."""
    scene = Scene.make(tmp_path / "scene", rows=ROWS)
    for name in ("later", "told", "texts", "events", "temporary", "driver"):
        (scene.folder / name).mkdir()
    table = pa.table({"order": np.arange(ROWS, ROWS + 500), "amount": np.random.default_rng(7).uniform(*BOUNDS, 500)})
    pq.write_table(table, scene.folder / "later" / "0.parquet")
    key = {"format": "labeldp-key", "format_version": 1, "warning": "", "key": secrets.token_hex(32), "releases": []}
    (scene.folder / "key").touch(mode=0o600)
    (scene.folder / "key").write_text(json.dumps(key))
    (scene.folder / "told" / "control").write_bytes(secrets.token_bytes(32) + struct.pack("<d", 123.45678901234567))
    return scene


@pytest.fixture
def search(scene):
    search = Search()
    search.secret("key", bytes.fromhex(json.loads((scene.folder / "key").read_text())["key"]))
    control = (scene.folder / "told" / "control").read_bytes()
    search.secret("control secret", control[:32])
    search.label("control label", *struct.unpack("<d", control[32:]))
    for file in (*scene.input.iterdir(), *(scene.folder / "later").iterdir()):
        for label in pq.read_table(file)["amount"].to_pylist()[:SHOWN]:
            search.label("label", label)
    return search


def learn(scene, search):
    """Adds the secrets that the driver has made by now."""
    told = scene.folder / "told" / "secrets"
    if told.exists():
        for line in told.read_text().splitlines():
            name, secret = line.split(" ")
            search.secret(name, bytes.fromhex(secret))


def run(scene, search, *options, environment=os.environ, folders=(), done=lambda process: process.poll() == 0):
    """A run of the driver, watched until it is done. Then it is killed, if it still runs, and all that is left is read."""
    temporary = scene.folder / "temporary"
    settings = (
        UNCOMPRESSED
        | TALKATIVE
        | {
            "spark.eventLog.dir": (scene.folder / "events").as_uri(),
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={temporary}",
        }
    )
    options += tuple(word for name, value in settings.items() for word in ("--conf", f"{name}={value}"))
    environment = dict(environment) | {"TMPDIR": str(temporary)}
    names = ("driver", "events", "temporary", "texts", "message", ".message.labeldp-partial")
    with (
        scene.driver(*options, environment=environment, program=secret_driver.__file__) as process,
        Watch(
            search, [*(scene.folder / name for name in names), *folders], process.pid, lambda: learn(scene, search)
        ) as watch,
    ):
        scene.wait_for(process, lambda: done(process))
    watch.look_at_all()
    return watch


def files_with(watch, name):
    """The kinds of files in which something was found."""
    return {kind_of(place) for place, names in watch.found.items() if name in names}


def kind_of(place):
    """What a file is for Spark."""
    kinds = {
        "/events/": "event log",
        "/pyspark-": "broadcast files",
        "/broadcast_": "broadcast files",
        "/blockmgr-": "shuffle and block files",
        "/log": "logs",
        "/stderr": "logs",
        "/stdout": "logs",
    }
    return next((kind for part, kind in kinds.items() if part in place), place)


def assert_the_search_is_whole(watch, scene, search):
    """All that must be found nowhere is known, our shuffle files were read, and the failures with labels were logged."""
    assert search.names >= {"key", "label", "fingerprint", "randomness", "repeats", "result_key"}
    assert any(path.name.startswith("shuffle_") for path in watch.looked_at)
    log = "".join(path.read_text() for path in (scene.folder / "events").iterdir())
    assert "labeldp: a task failed with ArrowInvalid" in log
    assert "labeldp: the input is not the one that was checked" in log
    known = f"'key': '{VARIABLES}'" in (scene.folder / "texts" / "settings").read_text()  # PySpark 4.1 cannot do it yet
    assert ("task = Chain(first=DrawTask(" in log) == known, "with the variables of functions"


def found_beside_controls(watch):
    """What was found and should not have been."""
    return {place: names - CONTROLS for place, names in watch.found.items() if names - CONTROLS}


def test_keys_and_labels_are_nowhere(scene, search):
    watch = run(scene, search)
    assert_the_search_is_whole(watch, scene, search)
    assert found_beside_controls(watch) == {}
    assert files_with(watch, "control secret") >= {"event log", "broadcast files"}
    assert files_with(watch, "control label") >= {"event log", "shuffle and block files", "logs"}


@contextmanager
def logging_cluster(folder, *, encrypted):
    """A cluster whose processes log at DEBUG and keep all temporary files below its folder."""
    for name in ("conf", "temporary", "numba"):
        (folder / name).mkdir(parents=True)
    (folder / "conf" / "log4j2.properties").write_text(DEBUG)
    settings = {
        "spark.executor.extraJavaOptions": f"-Djava.io.tmpdir={folder / 'temporary'}",
        "spark.executor.memory": "512m",
    }
    with (
        mock.patch.dict(os.environ, NUMBA_CACHE_DIR=str(folder / "numba"), TMPDIR=str(folder / "temporary")),
        spark_cluster(folder, encrypted=encrypted, settings=settings) as cluster,
    ):
        yield cluster


@pytest.mark.soak
@pytest.mark.parametrize("encrypted", [True, False], ids=["encrypted", "plain"])
def test_keys_and_labels_are_nowhere_on_a_cluster(scene, search, tmp_path, encrypted):
    with logging_cluster(tmp_path / "cluster", encrypted=encrypted) as cluster:
        options = ["--master", cluster.master, *([] if encrypted else ["--allow-unencrypted"])]
        watch = run(scene, search, *options, environment=cluster.environment(), folders=[cluster.folder])
    assert_the_search_is_whole(watch, scene, search)
    assert found_beside_controls(watch) == {}
    given_away = files_with(watch, "control secret") | files_with(watch, "control label")
    assert given_away >= {"event log", "logs"}
    assert ("broadcast files" in given_away) == ("shuffle and block files" in given_away) == (not encrypted)


@pytest.mark.soak
@pytest.mark.parametrize("encrypted", [True, False], ids=["encrypted", "plain"])
def test_nothing_is_left_when_driver_and_executors_are_killed(scene, search, tmp_path, encrypted):
    with logging_cluster(tmp_path / "cluster", encrypted=encrypted) as cluster:
        options = ["--hang", "--master", cluster.master, *([] if encrypted else ["--allow-unencrypted"])]

        def kill_executors(process):
            if not scene.has_fired():
                return False
            for number in executors(cluster):
                os.kill(number, signal.SIGKILL)
            return True

        watch = run(
            scene, search, *options, environment=cluster.environment(), folders=[cluster.folder], done=kill_executors
        )
    assert search.names >= {"key", "label", "fingerprint", "randomness"}
    assert watch.found == {}


def executors(cluster):
    """The Java processes that the workers started."""
    children = [number for process in cluster.processes for number in descendants(process.pid)]
    return [n for n in children if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{n}/cmdline").read_bytes()]


@pytest.mark.parametrize("failure", [ValueError, lambda label: WorkerError(CHANGED)], ids=["any error", "our error"])
def test_what_leaves_a_guarded_task_shows_no_label(failure):
    """Also if Spark shows the variables of functions."""

    def task(batches):
        label = 123.456789
        for batch in batches:
            raise failure(label)
            yield batch, label

    with pytest.raises(WorkerError) as caught:
        list(without_error_texts(task)(iter([0])))
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert "batches = " in shown
    assert "123.45" not in shown
    assert (FAILED in shown) == (failure is ValueError)


def test_tasks_do_not_show_their_secrets():
    search, mechanism = Search(), RandomizedResponse(BOUNDS, 1)
    own = {name: secrets.token_bytes(96) for name in ("fingerprint", "repeats", "result_key")} | {
        "subkeys": secrets.token_bytes(64)
    }
    for name, value in own.items():
        search.secret(name, value)
    reader, domain = RecordReader("int", None), Domain.of(BOUNDS)
    randomness = BoundRandomness(mechanism.digest_bytes, own["subkeys"])
    check = CheckTask(reader, domain, own["fingerprint"], None, own["repeats"], result_key=own["result_key"])
    draw = Draw(reader, mechanism, domain, randomness, own["fingerprint"])
    task = DrawTask(reader, mechanism, domain, randomness, own["fingerprint"], pa.schema([]))
    assert [search.names_in(repr(one).encode()) for one in (check, draw, task)] == [set()] * 3


@pytest.mark.parametrize("form", sorted(forms(bytes(range(100, 132)))))
def test_every_form_of_a_secret_is_found(form):
    search = Search()
    search.secret("secret", bytes(range(100, 132)))
    assert search.names_in(b"before" + form + b"after") == {"secret"}


def test_a_secret_in_longer_texts_is_found():
    search, secret = Search(), secrets.token_bytes(32)
    search.secret("secret", secret)
    for start in range(3):
        long = bytes(range(start + 7)) + secret + b"more"
        for text in (
            base64.b64encode(long),
            long.hex().encode(),
            repr(long).encode(),
            repr(list(long)).encode(),
            pickle.dumps(long),
        ):
            assert search.names_in(text) == {"secret"}
    assert search.names_in(secrets.token_bytes(10_000)) == set()
