"""Noisy sums on a cluster: the exact sums are those of one machine, the noise is drawn once, and nothing else gets out."""

from __future__ import annotations

import base64
import datetime as dt
import os
import sys
from dataclasses import dataclass
from functools import partial
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_log import differences, logged, shown
from pyspark import cloudpickle
from pyspark.sql import DataFrame

import labeldp.spark
from labeldp import ClippingWarning, Domain, InsufficientBudget, InvalidInput, PrivacyRefused, PrivateSums
from labeldp.engines.spark import jobs, session, spark_sums, worker
from labeldp.engines.spark.spark_sums import SparkSums, SumTask
from labeldp.release import grid_labels

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not have this file

ROWS = 900
SECRET = "77123"
RANDOM = np.random.default_rng(3)
TABLE = pa.table(
    {
        "y": RANDOM.uniform(-20, 420, ROWS),
        "region": pa.array(RANDOM.integers(0, 5, ROWS), pa.int32()),
        "hour": pa.array(RANDOM.permutation(np.arange(ROWS) % 24), pa.int8()),
        "new": pa.array(RANDOM.choice([-1, 1], ROWS), pa.int8()),
        "paid": pa.array(RANDOM.choice([-1, 1], ROWS), pa.int64()),
    }
)
DOMAIN = (0, 400)
Y, REGION, HOUR = (np.asarray(TABLE[name]) for name in ("y", "region", "hour"))
SIGNS = np.stack([np.asarray(TABLE[name]) for name in ("new", "paid")], axis=1).astype(np.int8)

pytestmark = pytest.mark.filterwarnings("ignore::labeldp.ClippingWarning")


@pytest.fixture
def noiseless(monkeypatch):
    """Answers without their noise, to compare the exact numbers."""
    monkeypatch.setattr(grid_labels, "add_laplace", lambda values, scale: values)
    monkeypatch.setattr(grid_labels, "cube_noise", lambda count, scale: np.zeros(count, np.int64))


def summed(frame, **options):
    return labeldp.spark.sums(frame, **({"label": "y", "epsilon": 1, "domain": DOMAIN} | options))


# what is summed


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize("partitions", [1, 7])
def test_the_release_is_that_of_one_machine_whatever_the_partitioning(spark, partitions):
    frame = spark.createDataFrame(TABLE).repartition(partitions)
    over_cells = summed(frame, cells=["region", "hour"], clip=(10, 300))
    assert over_cells == PrivateSums.over_cells(Y, [REGION, HOUR], 1, DOMAIN, clip=(10, 300))
    against_signs = summed(frame, signs=["new", "paid"])
    assert against_signs == PrivateSums.against_signs(Y, SIGNS, 1, DOMAIN)


def test_exact_sums_are_those_of_numpy(spark):
    grid = Domain(0, 400, cells=401)
    source = SparkSums.of(spark.createDataFrame(TABLE).repartition(5), "y", "region", ["new"], allow_unencrypted=False)
    exact = source.sum_labels(grid, 10, 300, source.sizes(), "clip")
    units = np.clip(np.rint(np.clip(Y, 0, 400)), 10, 300).astype(int).tolist()
    regions, signs = REGION.tolist(), SIGNS[:, 0].tolist()
    assert (exact.records, exact.sizes) == (ROWS, (5,))
    assert exact.clipped == np.count_nonzero((Y < 0) | (Y > 400))
    assert exact.cell_sums.tolist() == [
        sum(unit - 10 for unit, region in zip(units, regions, strict=True) if region == cell) for cell in range(5)
    ]
    assert exact.cell_counts.tolist() == [regions.count(cell) for cell in range(5)]
    assert exact.sign_sums.tolist() == [sum(sign * (unit - 155) for unit, sign in zip(units, signs, strict=True))]
    assert exact.sign_counts.tolist() == [sum(signs)]


def test_both_kinds_share_epsilon_equally_and_the_proof_holds(spark):
    sums = summed(spark.createDataFrame(TABLE), cells=["region", "hour"], signs=["new", "paid"])
    signs, cells = sums.answers
    assert (signs.kind, cells.kind, cells.sizes) == ("signs", "cells", (5, 24))
    assert sums.proof().holds
    assert float(signs.epsilon_exact) == pytest.approx(1 / 3)
    assert float(cells.epsilon_exact) == pytest.approx(2 / 3)
    assert sums.spent <= 1
    assert sums.means().shape == (29,)
    assert PrivateSums.from_json(sums.to_json()) == sums


@pytest.mark.usefixtures("noiseless")
def test_durations(spark):
    waits = [dt.timedelta(minutes=minutes) for minutes in (30, 90, 60)]
    frame = spark.createDataFrame(pa.table({"wait": pa.array(waits), "c": [0, 1, 1]}))
    sums = summed(frame, label="wait", cells="c", domain=Domain(0, 2, cells=5, unit="hours"))
    assert sums.means().tolist() == [0.5, 1.25]


def row_of(table, sizes, signs, grid=None, *, rows=100, clip=None):
    """What a partition gives, cut into batches of so many rows, decrypted."""
    grid = grid or Domain(0, 400, cells=401)
    task = SumTask(grid, *(clip or (0, grid.count - 1)), sizes, signs)
    (result,) = task(iter(table.to_batches(rows)))
    row = task.opened(result.to_pylist()[0]["result"])
    return {
        name: np.frombuffer(value, np.int64).tolist() if name in SumTask.ARRAYS else value
        for name, value in row.items()
    }


def test_a_partition_gives_the_same_however_it_is_cut():
    first = row_of(TABLE, (5, 24), 2, rows=ROWS)
    assert all(row_of(TABLE, (5, 24), 2, rows=rows) == first for rows in (1, 7, 899))
    nothing = row_of(TABLE[:0], (5, 24), 2)
    assert not any(nothing[name] for name in SumTask.COUNTS)
    assert not any(number for name in SumTask.ARRAYS for number in nothing[name])


def test_sums_beyond_the_floats_are_exact():
    rows, finest = 1 << 22, Domain(0, 1, cells=2**32)
    table = pa.table({"y": np.ones(rows), "c": np.zeros(rows, np.int8), "s": np.ones(rows, np.int8)})
    row = row_of(table, (1,), 1, finest, rows=rows)
    top = 2**32 - 1
    assert top * rows > 2**53
    assert row["cells"] == [top * rows, rows]
    assert row["signs"] == [(top - top // 2) * rows, rows]


# the noise


@dataclass(frozen=True)
class FailsOnce:
    """Fails once all of a partition was summed, in the first attempt of each."""

    task: SumTask
    folder: str

    def __call__(self, batches):
        from pyspark import TaskContext

        results = list(self.task(batches))
        try:
            os.close(os.open(f"{self.folder}/{TaskContext.get().partitionId()}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            yield from results
        else:
            raise RuntimeError


def test_tasks_that_are_repeated_are_counted_once_and_draw_nothing(spark, monkeypatch, tmp_path):
    drawn, mapped = [], jobs.mapped
    monkeypatch.setattr(grid_labels, "add_laplace", lambda values, scale: drawn.append(scale) or values)
    monkeypatch.setattr(jobs, "mapped", lambda frame, task, ddl: mapped(frame, FailsOnce(task, str(tmp_path)), ddl))
    sums = summed(spark.createDataFrame(TABLE).repartition(3), cells={"region": 5})
    assert len(list(tmp_path.iterdir())) == 3, "every task failed once"
    assert len(drawn) == 1
    assert sums == PrivateSums.over_cells(Y, REGION, 1, DOMAIN)


def test_the_noise_is_fresh_each_time(spark):
    frame = spark.createDataFrame(TABLE)
    first, second = (summed(frame, cells={"region": 5}).answers[0] for _ in range(2))
    assert first.values.tolist() != second.values.tolist()
    assert first.counts.tolist() == second.counts.tolist() == np.bincount(REGION).tolist()


def test_the_ledger_is_charged_before_the_first_draw(spark, place, monkeypatch):
    left, add = [], grid_labels.add_laplace

    def watched(values, scale):
        left.append(place.ledger.remaining("sales"))
        return add(values, scale)

    monkeypatch.setattr(grid_labels, "add_laplace", watched)
    summed(spark.createDataFrame(TABLE), cells={"region": 5}, ledger=place.ledger, dataset="sales")
    assert left == [2]
    assert place.ledger.remaining("sales") == 2


# what Spark gets to see


def test_plans_and_metrics_do_not_depend_on_labels_and_nothing_is_shuffled(spark, tmp_path):
    labels = {"uniform": RANDOM.uniform(0, 400, ROWS), "same": np.full(ROWS, 7.0)}
    key, texts, logs = os.urandom(32), [], []
    for name, values in labels.items():
        folder = tmp_path / name
        folder.mkdir()
        table = TABLE.set_column(0, "y", pa.array(values))
        pq.write_table(table, folder / "input.parquet", compression="none", use_dictionary=False)
        frame = spark.read.parquet(str(folder / "input.parquet"))
        with mock.patch.object(spark_sums, "SumTask", partial(SumTask, result_key=key)), logged(spark) as events:
            summed(frame, cells={"region": 5, "hour": 24}, signs=["new"])
        logs.append(shown(events, folder))
        texts.append(str(events))
    assert {channel[0] for channel in logs[0]} >= {"task", "plan"}
    assert len(logs[0]) > 5
    assert differences(*logs) == {}
    assert not [channel for channel in logs[0] if "shuffle" in channel[-1].lower()]
    assert "Exchange" not in str(logs[0])
    forms = (key.hex(), base64.b64encode(key).decode(), repr(key)[2:-1], str(list(key)))
    assert not [form for form in forms if form in texts[0] + texts[1]]


@pytest.mark.parametrize("codec", ["lz4_raw", "zstd"])
def test_what_a_task_returns_does_not_compress(codec):
    """Spark compresses it and logs its size. Plain sums compress the better the fewer digits they have."""
    returned, plain = [], []
    encrypt = worker.encrypt
    for labels in (Y, np.zeros(ROWS)):
        table = TABLE.set_column(0, "y", pa.array(labels)).select(["y", "hour"])
        task = SumTask(Domain(0, 400, cells=2**20 + 1), 0, 2**20, (24,), 0)
        with mock.patch.object(worker, "encrypt", lambda data, key: plain.append(data) or encrypt(data, key)):
            (batch,) = task(iter(table.to_batches()))
        returned.append(batch.column(0)[0].as_py())
    (size,) = {len(row) for row in returned}
    assert all(len(pa.compress(row, codec, asbytes=True)) > size - 8 for row in returned)
    first, second = (len(pa.compress(row, codec, asbytes=True)) for row in plain)
    assert first - second > 20, "which is why it is encrypted"


# what is refused


def changed(name, value, kind=None):
    """The table with another value in the last row of a column."""
    column = TABLE[name].to_pylist()[:-1]
    return TABLE.set_column(
        TABLE.schema.get_field_index(name), name, pa.array([*column, value], kind, from_pandas=False)
    )


BOTH = {"cells": {"region": 5}, "signs": ["new"]}
RECORDS = {
    "no label": (changed("y", None), BOTH, "label column 'y' is missing in 1 record"),
    "NaN": (changed("y", np.nan), BOTH, "'y' has NaN or infinity in 1 record"),
    "outside": (changed("y", float(SECRET)), BOTH | {"out_of_range": "error"}, "but [0-9]+ records in 'y' do not"),
    "all outside": (TABLE.set_column(0, "y", pa.array([float(SECRET)] * ROWS)), BOTH, "more than 20% of the labels lie outside"),
    "many outside": (TABLE, BOTH | {"domain": (0, 1)}, "more than 20% of the labels lie outside"),
    "not whole": (TABLE, BOTH | {"domain": Domain.integers(0, 400)}, "must be whole numbers"),
    "no cell": (changed("region", None), BOTH, "column 'region' is missing in 1 record"),
    "a cell below 0": (changed("region", -1), {"cells": ["region"]}, "in 'region' must be from 0 to 4.*of 1 record are"),
    "a cell too many": (changed("region", 5), BOTH, "'region' must be from 0 to 4, .* 1 record are not"),
    "no cells at all": (TABLE.set_column(1, "region", pa.nulls(ROWS, pa.int32())), {"cells": "region"}, "in 900 records"),
    "too many cells": (changed("paid", 10**15), {"cells": ["paid"]}, "at most 10,000,000 sums"),
    "a sign of 0": (changed("new", 0), BOTH, r"signs must be \+1 or −1, but the signs of 1 record in 'new'"),
    "no sign": (changed("new", None), BOTH, "column 'new' is missing in 1 record"),
    "no records": (TABLE[:0], BOTH, "no labels to sum"),
    "one record": (TABLE[:1], BOTH, "one label only"),
    "a grid too fine": (TABLE, BOTH | {"epsilon": "1e-9", "domain": Domain(0, 1, 2**32), "out_of_range": "clip-all"}, "64-bit"),
}  # fmt: skip


@pytest.mark.parametrize("case", RECORDS)
def test_records(spark, place, case):
    table, options, said = RECORDS[case]
    with place.refused(said, SECRET, error=InvalidInput):
        summed(spark.createDataFrame(table).coalesce(2), ledger=place.ledger, dataset="sales", **options)


SETTINGS = {
    "nothing to sum over": ({}, "nothing to sum over"),
    "a missing label": (BOTH | {"label": "amount"}, "no column 'amount'. It has: y, region"),
    "missing cells": ({"cells": ["Region"]}, "no column 'Region'"),
    "labels as cells": ({"cells": ["y"]}, "cannot be a column of cells or signs"),
    "cells of floats": ({"cells": ["z"]}, "column 'z' contains double, and cell numbers are whole numbers"),
    "signs of text": ({"signs": ["t"]}, "column 't' contains string, and signs are whole numbers"),
    "labels of text": (BOTH | {"label": "t"}, "label column 't' contains string, not numbers"),
    "a column twice": ({"cells": ["region", "region"]}, "cells names the column 'region' twice"),
    "no names": ({"cells": 5}, "cells must be names of columns, got"),
    "no cells": ({"cells": {"region": 0}}, "number of cells of 'region' must be a whole number of at least 1"),
    "absurdly many cells": ({"cells": {"region": 10**12}}, "at most 10,000,000 sums"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings(spark, place, case):
    options, said = SETTINGS[case]
    frame = spark.createDataFrame(TABLE[:20]).selectExpr("*", f"'{SECRET}' t", "cast(1.5 as double) z")
    with (
        mock.patch.object(jobs, "mapped", side_effect=AssertionError("a job ran")),
        place.refused(said, SECRET, error=InvalidInput),
    ):
        summed(frame, **({"ledger": place.ledger, "dataset": "sales"} | options))


def test_too_little_budget_is_noticed_before_a_job_runs(spark, place):
    with (
        mock.patch.object(spark_sums, "job", side_effect=AssertionError("a job ran")),
        place.refused("has ε = 3 left", error=InsufficientBudget),
    ):
        summed(spark.createDataFrame(TABLE), cells="region", epsilon=4, ledger=place.ledger, dataset="sales")


def test_a_value_in_the_text_of_spark_is_not_shown(spark, place):
    frame = spark.createDataFrame([(1, f"x{SECRET}y")], "c long, t string").selectExpr("c", "cast(t as double) y")
    with place.refused("cannot read the frame.*CAST_INVALID_INPUT.*Nothing was released or charged", SECRET):
        summed(frame, cells={"c": 2}, ledger=place.ledger, dataset="sales")


def test_frames_that_cannot_be_used(spark, monkeypatch):
    random = spark.range(9).selectExpr("cast(rand() as double) y", "0 region")
    with pytest.raises(InvalidInput, match="gives other rows each time it is read"):
        summed(random, cells="region")
    with pytest.raises(InvalidInput, match="frame must be a Spark DataFrame"):
        summed(TABLE, cells="region")
    remote = object.__new__(type("DataFrame", (DataFrame,), {"__module__": "pyspark.sql.connect.dataframe"}))
    with pytest.raises(PrivacyRefused, match="belongs to a Spark Connect session"):
        summed(remote, cells="region")
    monkeypatch.setattr(session, "is_local", lambda master: False)
    frame = spark.createDataFrame(TABLE)
    with pytest.raises(PrivacyRefused, match=r"a key that opens exact sums of labels.*allow_unencrypted=True"):
        summed(frame, cells="region")
    assert summed(frame, cells="region", allow_unencrypted=True).records == ROWS


def test_many_labels_outside_are_told_to_the_labels_party(spark):
    table = TABLE.set_column(0, "y", pa.array(np.where(np.arange(ROWS) % 5, 7.0, 1e6)))
    with pytest.warns(ClippingWarning, match="20.0% of the labels"):
        summed(spark.createDataFrame(table), cells={"region": 5})
