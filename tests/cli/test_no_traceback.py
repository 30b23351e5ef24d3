"""Whatever a file or an option holds, the command line ends with a sentence and an exit code, never with a traceback."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forgery import edit_json
from labeldp import LabelRandomizer, LabelSource, SavedModel, privatize
from labeldp.mechanisms import RROnBins

NUMBERS = {"deep": "[" * 100_000 + "]" * 100_000, "long": "7" * 5000, "beyond floats": "1e999", "twice": None}
LABELS = ("--label", "y", "--lower", "0", "--upper", "10")


def spoiled(text, how):
    """The JSON text with one more entry, which no reader may trip over."""
    if NUMBERS[how] is None:
        return text.rstrip()[:-1].rstrip() + ', "twice": 1, "twice": 1}'
    return text.rstrip()[:-1].rstrip() + f', "more": {NUMBERS[how]}}}'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"id": range(400), "y": [2.0, 8.0] * 200}), "labels.parquet")
    return tmp_path


@pytest.mark.parametrize("how", NUMBERS)
def test_a_mechanism(run, folder, how):
    (folder / "mechanism.json").write_text(spoiled(RROnBins([2, 8], 1).to_json(), how))
    code, _, error = run("audit", "mechanism.json")
    assert code == 2
    assert "mechanism.json" in error
    assert "not valid JSON" in error


def listed_anew(message, file):
    """Put the size and digest of a file into the manifest, since otherwise these are what is refused."""
    content = file.read_bytes()
    facts = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}

    def change(record):
        for entry in record["manifest"]["files"]:
            entry.update(facts if entry["name"] == file.name else {})

    edit_json(message / "manifest.json", change)


@pytest.mark.parametrize("how", NUMBERS)
def test_a_message_and_its_key_file(run, folder, how):
    source = LabelSource("labels.parquet", "y", "id")
    privatize(source, LabelRandomizer(1, (0, 10), mechanism="rr-on-bins"), "message", key_file="key")
    for name in ("key", "message/mechanism.json"):
        file = folder / name
        good = file.read_text()
        file.write_text(spoiled(good, how))
        if name != "key":
            listed_anew(folder / "message", file)
        code, _, error = run("apply", "message", "labels.parquet", "--label", "y", "--id", "id", "--key-file", "key")
        assert code == 2
        assert name in error
        assert "not valid JSON" in error
        file.write_text(good)


def test_a_prior_that_cost_1e999(run, folder):
    (folder / "prior.csv").write_text("value,mass,epsilon\n2,1,1e999\n8,1,1e999\n")
    code, _, error = run("privatize", "labels.parquet", *LABELS, "--epsilon", 1, "--prior", "prior.csv", "--out", "m")
    assert code == 2
    assert "prior.csv" in error


@pytest.mark.parametrize("epsilon", ["1e-20", "1e-999"])
def test_a_tiny_epsilon(run, folder, epsilon):
    code, _, error = run("privatize", "labels.parquet", *LABELS, "--epsilon", epsilon, "--out", "m")
    assert code == 2
    assert "epsilon must be at least 1e-09" in error
    assert not (folder / "m").exists()


@pytest.mark.parametrize("how", NUMBERS)
def test_a_note_of_pandas_in_a_features_file(run, folder, how):
    note = {b"pandas": spoiled(json.dumps({"index_columns": ["id"]}), how).encode()}
    table = pa.table({"id": range(400), "x": np.arange(400.0)})
    pq.write_table(table.replace_schema_metadata(note), "features.parquet")
    from sklearn.linear_model import LinearRegression

    seen = pd.DataFrame({"x": [0.0, 1.0]})
    SavedModel(LinearRegression().fit(seen, [0.0, 1.0]), {"columns": ["x"]}).save("model")
    code, _, error = run("predict", "model", "features.parquet", "--out", "predicted.csv")
    assert code == 0, error


def limited(folder, megabytes, *arguments):
    """`labeldp` in a process of its own, which may map so much memory."""
    script = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({megabytes << 20}, {megabytes << 20})); "
        f"import sys; sys.argv = {['labeldp', *arguments]!r}; from labeldp.cli import main; main()"
    )
    return subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS")
def test_too_little_memory(folder):
    run = limited(
        folder,
        3000,
        *("privatize", "labels.parquet", *LABELS, "--epsilon", "1", "--out", "m"),
        *("--cells", "4000000000", "--mechanism", "discrete-laplace"),
    )
    assert run.returncode == 1
    assert "error: there is not enough memory" in run.stderr
    assert list(folder.iterdir()) == [folder / "labels.parquet"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS")
def test_a_small_file_of_200_million_rows_streams_under_a_memory_limit(folder):
    rows = pa.table({"y": np.full(10_000_000, 5.0)})
    with pq.ParquetWriter("many.parquet", rows.schema, compression="zstd", max_rows_per_page=1 << 30) as writer:
        writer.write_table(pa.concat_tables([rows] * 20), row_group_size=200_000_000)
    assert (folder / "many.parquet").stat().st_size < 10_000
    run = limited(folder, 4000, "privatize", "many.parquet", *LABELS, "--epsilon", "1", "--out", "m")
    assert run.returncode == 0, run.stderr
    assert pq.read_metadata(folder / "m" / "labels.parquet").num_rows == 200_000_000
