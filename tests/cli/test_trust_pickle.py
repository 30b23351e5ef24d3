"""`predict` and `evaluate` run no code of a model's folder, unless --trust-pickle is given, and say what is wrong with it."""

from __future__ import annotations

import hashlib
import json
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LinearRegression

from forgery import OwnRegressor, Trap
from labeldp import SavedModel


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pa.table({"x": [0.0, 1.0, 2.0], "y": [0.0, 10.0, 20.0]})
    pq.write_table(table, "features.parquet")
    model = OwnRegressor().fit(table.select(["x"]), table["y"])
    SavedModel(model, {"columns": ["x"]}).save("model", pickle=True)
    return tmp_path


def replace_pickle(folder, content):
    (folder / "model.pickle").write_bytes(content)
    record = json.loads((folder / "model.json").read_text())
    record["model_sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "model.json").write_text(json.dumps(record))


COMMANDS = {
    "predict": ("predict", "model", "features.parquet", "--out", "p.csv"),
    "evaluate": ("evaluate", "model", "features.parquet", "--label", "y"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_pickle_is_loaded_with_the_flag_only(run, world, command):
    code, out, err = run(*command)
    assert code == 2
    assert "runs the code it contains" in " ".join(err.split())
    assert not (world / "p.csv").exists()
    code, out, err = run(*command, "--trust-pickle")
    assert code == 0, err
    assert (world / "p.csv").exists() or "mean squared error" in out


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_pickle_runs_nothing_without_the_flag(run, world, command):
    replace_pickle(world / "model", pickle.dumps(Trap("sentinel")))
    code, _, err = run(*command)
    assert code == 2
    assert "--trust-pickle" in err
    assert not (world / "sentinel").exists()


@pytest.mark.parametrize("text", ["[]", "[" * 100_000, '{"epsilon": ' + "9" * 5000 + "}", '{"bounds": [1e999, 0]}'])
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_damaged_description_ends_with_exit_code_2(run, world, command, text):
    (world / "model" / "model.json").write_text(text)
    code, _, err = run(*command)
    assert code == 2
    assert "model.json" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_pickle_whose_class_is_not_here_says_that_it_must_be_importable(run, world, command):
    content = pickle.dumps(LinearRegression()).replace(b"sklearn.linear_model", b"absentt.linear_model")
    replace_pickle(world / "model", content)
    code, _, err = run(*command, "--trust-pickle")
    assert code == 2
    assert "must be importable here" in " ".join(err.split())
    assert "Train the model again" not in err
