"""Whatever fails, is repeated or is read again on the cluster: no record ever gets two private labels.

Each test notes what every attempt of every task gives out, and shows that its fault fired. Its control, with the same fault and
fresh noise, shows that it would notice.
"""

from __future__ import annotations

import json
import os
import signal

import pytest
from driver_scene import BOUNDS, EPSILON, MOST_SECONDS, Scene, small_batches
from observed import CHECKING, DRAWING, FAIL, HANG, ORDERING, Fault, attempts, fired, observed, seen

from labeldp import Domain, Message
from labeldp.engines.spark.shuffle import NOTE_CODES
from labeldp.engines.spark.worker import RecordReader
from labeldp.engines.spark.writing import Draw, message_rows
from labeldp.mechanisms import RandomizedResponse
from labeldp.sampling import KeyedRandomness
from labeldp.sampling.multiset import MultisetHash
from spark_cluster import spark_cluster

ROWS = 4000


@pytest.fixture
def scene(java, tmp_path):
    return Scene.make(tmp_path / "scene", rows=ROWS)


def test_a_task_that_fails_half_way_is_tried_again_with_the_same_labels(spark, scene):
    message = scene.release(spark, Fault(DRAWING, FAIL))
    assert attempts(scene.noted, DRAWING)[fired(scene.noted).partition] == 2
    assert (message.records, scene.two_labels()) == (ROWS, 0)


def test_fresh_noise_in_a_task_that_fails_half_way_is_noticed(spark, scene):
    scene.release(spark, Fault(DRAWING, FAIL), fresh=True)
    assert attempts(scene.noted, DRAWING)[fired(scene.noted).partition] == 2
    assert scene.two_labels() > 0


def test_a_task_that_fails_half_way_after_the_shuffle_is_tried_again_with_the_same_labels(spark, scene):
    message = scene.release(spark, Fault(ORDERING, FAIL))
    assert attempts(scene.noted, ORDERING)[fired(scene.noted).partition] == 2
    assert (message.records, scene.two_labels()) == (ROWS, 0)


@pytest.fixture
def lazy(spark, scene):
    """The rows of a release that nobody has read yet, as privatize asks Spark for them."""

    def rows(*, fresh):
        domain = Domain.of(BOUNDS)
        mechanism = RandomizedResponse(domain, EPSILON)
        randomness = KeyedRandomness.generate().bound(mechanism.digest_bytes)
        draw = Draw(RecordReader("int", None), mechanism, domain, randomness, MultisetHash.subkeys(bytes(32)))
        frame = spark.read.parquet(str(scene.input)).toDF("id", "label")
        with observed(scene.noted, fresh=fresh):
            return message_rows(frame, draw, spark.sparkContext.broadcast(mechanism), "order", 1, None)

    with small_batches(spark):
        yield rows


def read_twice(frame):
    """Reads a lazy frame by two actions. The second has a plan of its own, so Spark does not use shuffle files of the first."""
    return len(frame.collect()), len(frame.select("*").collect())


def read_after_unpersist(frame):
    """Reads a cached frame, and again when the cache is gone."""
    cached = frame.cache()
    first = len(cached.collect())
    cached.unpersist(blocking=True)
    return first, len(cached.select("*").collect())


@pytest.mark.parametrize("read", [read_twice, read_after_unpersist])
def test_rows_that_are_read_again_are_the_same(lazy, scene, read):
    first, second = read(lazy(fresh=False))
    assert sum(attempts(scene.noted, DRAWING).values()) == 4, "both partitions were drawn twice"
    assert first == second == ROWS + len(NOTE_CODES)
    assert scene.two_labels() == 0


@pytest.mark.parametrize("read", [read_twice, read_after_unpersist])
def test_fresh_noise_in_rows_that_are_read_again_is_noticed(lazy, scene, read):
    read(lazy(fresh=True))
    assert scene.two_labels() > 0


def test_a_driver_killed_while_labels_are_drawn_resumes_with_the_same_labels(spark, scene):
    with scene.driver("--task", DRAWING, "--kind", HANG) as process:
        scene.wait_for(process, scene.has_fired)
    drawn = seen(scene.noted).size
    assert drawn > 0
    assert not scene.message.exists()
    assert scene.spent == EPSILON
    message = scene.release(spark)
    assert (message.records, scene.two_labels(), scene.spent) == (ROWS, 0, EPSILON)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("place", "charged"),
    [
        (["--task", CHECKING, "--kind", HANG], False),
        (["--task", ORDERING, "--kind", HANG], True),
        (["--die", "labeldp.engines.spark.writing.place_parts"], True),
        (["--die", "labeldp.release.flow.publish"], True),
    ],
    ids=["pass one", "after the shuffle", "after Spark's commit", "before the message appears"],
)
def test_a_driver_killed_anywhere_resumes_with_the_same_labels(spark, scene, place, charged):
    with scene.driver(*place) as process:
        if "--die" in place:
            assert process.wait(MOST_SECONDS) == -signal.SIGKILL
        else:
            scene.wait_for(process, scene.has_fired)
    assert not scene.message.exists()
    assert scene.spent == (EPSILON if charged else 0)
    assert bool(attempts(scene.noted, DRAWING)) == charged
    message = scene.release(spark)
    assert (message.records, scene.two_labels(), scene.spent) == (ROWS, 0, EPSILON)


@pytest.mark.soak
def test_fresh_noise_after_a_driver_was_killed_is_noticed(spark, scene):
    with scene.driver("--task", DRAWING, "--kind", HANG, "--fresh") as process:
        scene.wait_for(process, scene.has_fired)
    scene.release(spark, fresh=True)
    assert scene.two_labels() > 0


@pytest.fixture(scope="module")
def cluster(java, tmp_path_factory):
    """Two workers that talk and write encrypted."""
    with spark_cluster(tmp_path_factory.mktemp("cluster") / "cluster", encrypted=True) as running:
        yield running


def on_cluster(cluster, scene, fault, *, fresh, settings=()):
    """A driver on the cluster that makes the release under a fault."""
    events = scene.folder / "events"
    events.mkdir()
    given = {
        "spark.executor.memory": "512m",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        **dict(settings),
    }
    options = ["--task", fault.task, "--kind", fault.kind, "--master", cluster.master]
    for name, value in given.items():
        options += ["--conf", f"{name}={value}"]
    return scene.driver(*options, *(["--fresh"] if fresh else []), environment=cluster.environment())


def events_of(scene):
    lines = [line for file in (scene.folder / "events").iterdir() for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


@pytest.mark.soak
@pytest.mark.parametrize("fresh", [False, True], ids=["keyed", "fresh noise"])
@pytest.mark.parametrize("task", [DRAWING, ORDERING])
def test_an_executor_killed_while_it_runs(cluster, scene, task, fresh):
    """After the shuffle, the killed executor takes drawn rows with it, and they are drawn again.

    With fresh noise, Spark may see by their checksums that they are others, and give up. They were drawn twice by then.
    """
    with on_cluster(cluster, scene, Fault(task, HANG), fresh=fresh) as process:
        scene.wait_for(process, scene.has_fired)
        os.kill(fired(scene.noted).executor, signal.SIGKILL)
        assert process.wait(MOST_SECONDS) == 0 or fresh
    assert any(event["Event"] == "SparkListenerExecutorRemoved" for event in events_of(scene))
    assert sum(attempts(scene.noted, DRAWING).values()) > 2
    assert fresh or Message.open(scene.message).records == ROWS
    assert (scene.two_labels() > 0) == fresh


@pytest.mark.soak
@pytest.mark.parametrize("fresh", [False, True], ids=["keyed", "fresh noise"])
def test_a_speculative_copy_of_a_slow_task(cluster, scene, fresh):
    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    with on_cluster(cluster, scene, Fault(DRAWING, HANG), fresh=fresh, settings=settings) as process:
        assert process.wait(MOST_SECONDS) == 0
    ended = [event["Task Info"] for event in events_of(scene) if event["Event"] == "SparkListenerTaskEnd"]
    assert any(info["Speculative"] for info in ended)
    assert attempts(scene.noted, DRAWING)[fired(scene.noted).partition] > 1
    assert Message.open(scene.message).records == ROWS
    assert (scene.two_labels() > 0) == fresh
