"""Scores on a cluster: the exact sums are those of one machine, faults are found before the charge, and labels stay on the workers."""

from __future__ import annotations

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_log import differences, logged, shown
from pyspark import cloudpickle
from pyspark.sql import functions as F  # noqa: N812

import labeldp.spark
from labeldp import Domain, InvalidInput, LabelDPError, LabelSource, Ledger, PrivacyRefused, score
from labeldp.engines.spark import spark_sums
from labeldp.evaluate import Score
from labeldp.release import group_sums

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not have this file

ROWS = 600
GENERATOR = np.random.default_rng(5)
TRUE = GENERATOR.gamma(2, 40, ROWS)
TABLE = pa.table({"order": np.arange(ROWS), "amount": np.minimum(TRUE * GENERATOR.exponential(1, ROWS), 420)})
SENT = pa.table(
    {
        "order": GENERATOR.permutation(ROWS)[:500],
        "first": np.clip(GENERATOR.normal(80, 60, 500), -5, 405),
        "second": np.full(500, 70.0),
        "region": GENERATOR.choice(["north", "south", "west"], 500, p=[0.6, 0.385, 0.015]),
    }
)
pytestmark = pytest.mark.filterwarnings("ignore::labeldp.ClippingWarning")


@pytest.fixture
def noiseless(monkeypatch):
    monkeypatch.setattr(group_sums, "cube_noise", lambda count, scale, sides=(): np.zeros(count, np.int64))


@pytest.fixture
def sent(tmp_path):
    pq.write_table(SENT, tmp_path / "predictions.parquet")
    pq.write_table(TABLE, tmp_path / "labels.parquet")
    return tmp_path / "predictions.parquet"


def scored(frame, sent, out="spark", **options):
    given = {"label": "amount", "id": "order", "epsilon": 1, "domain": (0, 400), "out": sent.parent / out} | options
    return labeldp.spark.score(frame, sent, **given)


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize(("partitions", "by"), [(1, None), (5, "region")])
def test_the_score_is_that_of_one_machine_whatever_the_partitioning(spark, sent, partitions, by):
    frame = spark.createDataFrame(TABLE).repartition(partitions)
    found = scored(frame, sent, by=by)
    labels = LabelSource(sent.parent / "labels.parquet", "amount", "order")
    other = score(labels, sent, sent.parent / "arrow", 1, (0, 400), by=by)
    assert json.loads(found.score.to_json()) == json.loads(other.score.to_json())
    for name in (
        "without_label",
        "without_prediction",
        "moved_predictions",
        "merged_groups",
        "outside_groups",
        "clipped",
    ):
        assert getattr(found, name) == getattr(other, name), name
    assert Score.open(found.answer).proof().holds
    assert (found.answer / "figures.csv").read_text() == (other.answer / "figures.csv").read_text()
    assert {one.name for one in found.answer.iterdir()} == {one.name for one in other.answer.iterdir()}


def test_text_ids_and_a_ledger(spark, sent):
    frame = spark.createDataFrame(TABLE).withColumn("order", F.col("order").cast("string"))
    ledger = Ledger.create(sent.parent / "ledger.db")
    ledger.add_dataset("sales", 1)
    with pytest.raises(InvalidInput, match=r"whole numbers .* text"):
        scored(frame, sent, ledger=ledger, dataset="sales", epsilon="0.5")
    found = scored(frame, sent, ledger=ledger, dataset="sales", epsilon="0.5", id_type="int")
    assert ledger.remaining("sales") == 0.5
    assert found.score.records == 500


def faulty(frame, change):
    return frame.withColumn("amount", F.when(F.col("order") == 17, F.lit(change)).otherwise(F.col("amount")))


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda frame: faulty(frame, None), {}, "missing in 1 record"),
        (lambda frame: faulty(frame, float("nan")), {}, "NaN or infinity"),
        (lambda frame: frame.union(frame.limit(40)), {}, "same id"),
        (lambda frame: frame.where("order < 100"), {}, "no label"),
        (lambda frame: frame, {"out_of_range": "error"}, "must lie from 0 to 400"),
        (lambda frame: frame, {"domain": Domain.of_classes(["no", "yes"])}, "does not score classes yet"),
        (lambda frame: frame, {"domain": (0, 30)}, "outside"),
        (lambda frame: frame, {"by": "first"}, "no group of 'first'|groups"),
        (lambda frame: frame, {"models": ["third"]}, "third"),
        (lambda frame: frame, {"id": "nothing"}, "nothing"),
    ],
)
def test_faults_are_found_before_the_charge(spark, sent, change, options, words):
    ledger = Ledger.create(sent.parent / "ledger.db")
    ledger.add_dataset("sales", 1)
    with pytest.raises(InvalidInput, match=words):
        scored(change(spark.createDataFrame(TABLE)), sent, ledger=ledger, dataset="sales", **options)
    assert ledger.remaining("sales") == 1
    assert not (sent.parent / "spark").exists()


def test_persons_are_refused(spark):
    source = labeldp.spark._input(spark.createDataFrame(TABLE), "amount", "order", None, None, allow_unencrypted=False)
    from dataclasses import replace

    with pytest.raises(InvalidInput, match="does not score persons yet"):
        spark_sums.SparkLabels(replace(source, frame=source.frame.withColumn("who", F.lit(1)), person_column="who"))


def test_a_frame_with_other_records_in_the_next_pass_releases_nothing(spark, sent, monkeypatch):
    run = spark_sums.SparkLabels._run

    def repeated(self, public, task):
        totals, rows, sums = run(self, public, task)
        return totals, np.append(rows, rows[-1:]) if task.exact is not None else rows, sums

    monkeypatch.setattr(spark_sums.SparkLabels, "_run", repeated)
    with pytest.raises(LabelDPError, match="other records when it was read again"):
        scored(spark.createDataFrame(TABLE), sent)
    assert not (sent.parent / "spark").exists()


def test_a_cluster_that_does_not_encrypt_is_refused(spark, sent, monkeypatch):
    def refuse(session, *, allow_unencrypted, secret):
        raise PrivacyRefused(secret)

    monkeypatch.setattr(spark_sums, "check_encryption", refuse)
    with pytest.raises(PrivacyRefused, match="opens exact sums"):
        scored(spark.createDataFrame(TABLE), sent)


def test_plans_and_metrics_do_not_depend_on_labels_and_labels_are_not_shuffled(spark, sent):
    logs = []
    for name, values in {"drawn": np.asarray(TABLE["amount"]), "same": np.full(ROWS, 7.0)}.items():
        folder = sent.parent / name
        folder.mkdir()
        table = TABLE.set_column(1, "amount", pa.array(values))
        pq.write_table(table, folder / "input.parquet", compression="none", use_dictionary=False)
        with logged(spark) as events:
            scored(spark.read.parquet(str(folder / "input.parquet")), sent, name + "-score")
        logs.append(shown(events, folder))
    assert {channel[0] for channel in logs[0]} >= {"task", "plan"}
    assert differences(*logs) == {}
    assert "BroadcastExchange" in str(logs[0])
    assert "Exchange hashpartitioning" not in str(logs[0])
    assert "SortMergeJoin" not in str(logs[0])
