"""Features from a file: the same model and predictions as from a table in memory, and only the columns in use are read."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from labeldp import InvalidInput, LabelRandomizer, LabelSource, SavedModel, privatize
from labeldp.learn.prediction_files import predict_file, predictions_beside
from labeldp.learn.train import train as train_model
from labeldp.tables import feature_file

N = 1000
SUFFIXES = ["parquet", "feather", "csv", "csv.gz"]


def features():
    """Numbers, text, digits as text, dates, small and large integers and missing values, in another order than the labels."""
    generator = np.random.default_rng(1)
    ids = generator.permutation(N + 200)
    return pa.table(
        {
            "order": ids,
            "hint": pa.array(ids / 31, mask=generator.random(ids.size) < 0.1),
            "shop": pa.array([None if i % 11 == 0 else f"shop {i % 37}" for i in ids]),
            "floor": pa.array([f"{i % 5}" for i in ids]),
            "code": pa.array([f"00{i % 4}" for i in ids]),
            "day": pa.array((ids // 100).astype(np.int32)).cast(pa.date32()),
            "clicks": ids % 300,
            "key": pa.array([f"{i} of many" for i in ids]),
            "truth": ids / 31,
        }
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    ids = np.arange(N)
    pq.write_table(pa.table({"order": ids, "amount": ids / 31}), folder / "labels.parquet")
    source = LabelSource(folder / "labels.parquet", "amount", "order")
    privatize(source, LabelRandomizer(4, (0, 100)), folder / "message")
    write(features(), folder)
    train(folder, features()).save(folder / "model")
    return folder


@pytest.fixture(scope="module")
def models(world):
    """The models of the whole table: as it is, and as Arrow reads it from CSV."""
    return {"parquet": train(world, features()), "csv": train(world, as_read(world, "csv"))}


def write(table, folder):
    pq.write_table(table, folder / "f.parquet", row_group_size=250)
    feather.write_feather(table, folder / "f.feather", chunksize=300)
    pa_csv.write_csv(table, folder / "f.csv")
    (folder / "f.csv.gz").write_bytes(gzip.compress((folder / "f.csv").read_bytes()))


def train(folder, table, **options):
    settings = {
        "exclude": ["key", "truth"],
        "categorical": ["code"],
        "seed": 0,
        "folds": 2,
        "model": "boosting",
    } | options
    return train_model(folder / "message", table, id="order", **settings).model


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(feature_file, "BATCH_ROWS", 197)
    monkeypatch.setattr(feature_file, "BLOCK_BYTES", 20_000)


def as_read(folder, suffix):
    """The whole table as Arrow reads it from such a file."""
    return pa_csv.read_csv(folder / "f.csv") if "csv" in suffix else features()


@pytest.mark.parametrize("suffix", ["parquet", *(pytest.param(each, marks=pytest.mark.slow) for each in SUFFIXES[1:])])
def test_a_file_trains_the_model_that_its_table_trains(world, models, small_batches, suffix):
    table = as_read(world, suffix)
    whole, streamed = models["csv" if "csv" in suffix else "parquet"], train(world, world / f"f.{suffix}")
    assert streamed.facts == whole.facts
    np.testing.assert_array_equal(streamed.predict(table), whole.predict(table))


@pytest.mark.parametrize(("suffix", "kind"), list(zip(SUFFIXES, ["csv", "parquet"] * 2, strict=True)))
@pytest.mark.usefixtures("small_batches")
def test_predictions_do_not_depend_on_batches(world, models, tmp_path, suffix, kind):
    model, out = models["csv" if "csv" in suffix else "parquet"], tmp_path / f"p.{kind}"
    expected = model.predict(as_read(world, suffix))
    assert predict_file(model, world / f"f.{suffix}", out, "order") == N + 200
    found = pq.read_table(out) if kind == "parquet" else pa_csv.read_csv(out)
    assert found["order"].to_pylist() == features()["order"].to_pylist()
    np.testing.assert_array_equal(found["prediction"], expected)
    assert list(tmp_path.iterdir()) == [out]
    predictions, truth = predictions_beside(model, world / f"f.{suffix}", "truth")
    np.testing.assert_array_equal(predictions, expected)
    np.testing.assert_array_equal(truth, features()["truth"])


@pytest.mark.parametrize("learner", ["boosting", "network"])
def test_a_row_alone_is_predicted_as_among_others(world, tmp_path, monkeypatch, learner):
    if learner == "network":
        pytest.importorskip("torch")
        import labeldp.paper.network  # noqa: F401 - enters the network
    model = train(world, features(), model=learner, folds=0, epochs=2 if learner == "network" else None)
    monkeypatch.setattr(feature_file, "BATCH_ROWS", 1)
    pq.write_table(features().slice(0, 40), tmp_path / "f.parquet")
    predict_file(model, tmp_path / "f.parquet", tmp_path / "p.parquet")
    predictions = pq.read_table(tmp_path / "p.parquet")["prediction"]
    np.testing.assert_array_equal(predictions, model.predict(features())[:40])


def test_columns_that_are_not_used_are_not_read(world, models, tmp_path):
    """Their bytes are overwritten, so that reading them would fail."""
    path = tmp_path / "f.parquet"
    pq.write_table(features(), path, use_dictionary=False, compression="zstd")
    group = pq.read_metadata(path).row_group(0)
    content = bytearray(path.read_bytes())
    for name in ("key", "truth"):
        chunk = group.column(features().schema.names.index(name))
        begin = chunk.data_page_offset
        content[begin : begin + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="cannot read"):
        train(world, path, exclude=["truth"], folds=0)
    model = train(world, path, folds=0)
    predict_file(model, path, tmp_path / "p.parquet", "order")
    expected = models["parquet"].predict(features())
    np.testing.assert_array_equal(pq.read_table(tmp_path / "p.parquet")["prediction"], expected)


def test_a_late_failure_leaves_no_predictions(world, tmp_path, monkeypatch):
    monkeypatch.setattr(feature_file, "BATCH_ROWS", 100)
    table = features()
    hints = table["hint"].to_pylist()
    hints[-1] = np.inf
    pq.write_table(table.set_column(1, "hint", pa.array(hints)), tmp_path / "f.parquet")
    for name in ("p.parquet", "p.csv"):
        with pytest.raises(InvalidInput, match="infinity"):
            predict_file(SavedModel.load(world / "model"), tmp_path / "f.parquet", tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["f.parquet"]


def test_a_file_without_rows_gets_no_predictions(world, tmp_path):
    pq.write_table(features().slice(0, 0), tmp_path / "f.parquet")
    model = SavedModel.load(world / "model")
    assert predict_file(model, tmp_path / "f.parquet", tmp_path / "p.parquet", "order") == 0
    assert pq.read_table(tmp_path / "p.parquet").schema.names == ["order", "prediction"]
    with pytest.raises(InvalidInput, match="contains no rows"):
        predictions_beside(model, tmp_path / "f.parquet", "truth")


def test_ids_may_be_categories_but_not_be_called_prediction(world, tmp_path):
    table = features()
    ids = pa.array([f"{i}" for i in table["order"].to_pylist()]).dictionary_encode()
    pq.write_table(table.append_column("prediction", ids), tmp_path / "f.parquet")
    model = SavedModel.load(world / "model")
    with pytest.raises(InvalidInput, match="cannot be called 'prediction'"):
        predict_file(model, tmp_path / "f.parquet", tmp_path / "p.csv", "prediction")
    pq.write_table(table.append_column("id", ids), tmp_path / "g.parquet")
    predict_file(model, tmp_path / "g.parquet", tmp_path / "p.csv", "id")
    assert pa_csv.read_csv(tmp_path / "p.csv")["id"].to_pylist() == table["order"].to_pylist()


def test_columns_may_be_named_by_their_place_in_the_table_without_ids(world):
    named = train(world, world / "f.parquet", categorical=["floor"], folds=0)
    placed = train(world, world / "f.parquet", categorical=[2], folds=0)
    np.testing.assert_array_equal(named.predict(features()), placed.predict(features()))
    assert [vocabulary.name for vocabulary in placed.model.encoder_.categorical] == ["shop", "floor", "code"]


def test_progress_counts_rows_and_models(world):
    counts = {}

    def phase(name, rows):
        counts[name] = [rows, 0]

        def count(done):
            counts[name][1] += done

        return count

    train(world, world / "f.parquet", phase=phase, folds=3, model="stack")
    assert counts == {"joining": [N + 200, N + 200], "reading": [N + 200, N + 200], "training": [30, 30]}


PROGRAM = """
import re, sys
from pathlib import Path
from labeldp import SavedModel
from labeldp.learn.prediction_files import predict_file
predict_file(SavedModel.load(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
print(1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]))
"""


@pytest.mark.slow
def test_memory_of_predictions_stays_flat_as_rows_grow(world, tmp_path):
    if not Path("/proc/self/status").is_file():
        pytest.skip("peak memory cannot be read here")
    peaks = []
    for times in (50, 800):
        with pq.ParquetWriter(tmp_path / f"{times}.parquet", features().schema) as writer:
            for _ in range(times):
                writer.write_table(features())
        command = [
            sys.executable,
            "-c",
            PROGRAM,
            world / "model",
            tmp_path / f"{times}.parquet",
            tmp_path / f"p{times}.csv",
        ]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    assert peaks[1] - peaks[0] < 64 << 20  # 2.4 million rows more; as float64 alone they are 165 MiB
