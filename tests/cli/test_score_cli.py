"""`labeldp score` and `labeldp audit` of its folder, as typed."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Ledger


@pytest.fixture
def files(tmp_path):
    generator = np.random.default_rng(0)
    x, ids = generator.random(6000), generator.permutation(60_000)[:6000]
    y = np.clip(300 * x + generator.normal(40, 20, 6000), 0, 400)
    shop = generator.choice(["a", "b"], 6000)
    pq.write_table(pa.table({"order": ids, "amount": y}), tmp_path / "labels.parquet")
    table = pa.table({"order": ids, "slope": 300 * x + 40, "flat": np.full(6000, 190.0), "shop": shop})
    pq.write_table(table, tmp_path / "predictions.parquet")
    return tmp_path


def score(run, files, *more, epsilon="1"):
    return run(
        *("score", files / "labels.parquet", "--label", "amount", "--id", "order", "--lower", 0, "--upper", 400),
        *("--predictions", files / "predictions.parquet", "--epsilon", epsilon, "--out", files / "score", *more),
    )


def test_a_score_says_which_model_is_better_and_its_folder_is_proven(run, files):
    Ledger.create(files / "ledger.db").add_dataset("sales", 2)
    code, out, err = score(run, files, "--by", "shop", "--ledger", files / "ledger.db", "--dataset", "sales")
    assert (code, err) == (0, "")
    assert "slope is better than flat" in out
    assert "slope explains 9" in out
    assert "all records" in out
    assert "sales has ε = 1 left" in out
    code, out, _ = run("audit", files / "score")
    assert code == 0
    assert "which follow from the noisy sums" in out
    assert "slope is better than flat" in out
    assert "proven" in out
    record = json.loads(run("audit", files / "score", "--json")[1])
    assert record["holds"]
    assert record["message"]["kind"] == "score"
    assert run("audit", files / "score", "--samples", 10)[0] == 2


def test_json_has_every_figure_and_every_pair(run, files):
    record = json.loads(score(run, files, "--json")[1])
    assert len(record["figures"]) == 2 * 6
    assert record["differences"][0]["better"] == "slope"
    assert record["records"] == 6000


def test_at_a_tiny_epsilon_nothing_is_claimed(run, files):
    code, out, _ = score(run, files, epsilon="0.001")
    assert code == 0
    assert out.count("not known") >= 10  # all five figures of both models
    assert "not known which is better" in out
    assert "-1," not in out.replace("gain", "")


def test_exit_codes(run, files):
    Ledger.create(files / "ledger.db").add_dataset("sales", "0.5")
    assert score(run, files, "--ledger", files / "ledger.db", "--dataset", "sales")[0] == 3
    code, _, err = score(run, files, "--by", "order")
    assert code == 2
    assert "groups as well" in err or "different values" in err
    assert score(run, files, "--dataset", "sales")[0] == 2
    assert not (files / "score").exists()


@pytest.mark.slow
def test_the_walk_of_both_parties_shows_that_the_model_is_good(run, tmp_path, monkeypatch):
    """17,520 records at ε = 1, two more batches, a score at a tenth of ε, and a report."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(1)
    x, ward = generator.normal(size=(27_520, 2)), generator.choice(["a", "b", "c"], 27_520)
    y = np.clip(100 * np.exp(0.5 * x[:, 0] + generator.normal(0, 0.7, len(x))), 0, 400)
    labels = pa.table({"order": np.arange(len(y)), "amount": y})
    pq.write_table(pa.table({"order": np.arange(len(y)), "x": x[:, 0], "z": x[:, 1], "ward": ward}), "features.parquet")
    pq.write_table(labels, "all.parquet")
    for name, first, rows in (("labels", 0, 17_520), ("tuesday", 17_520, 5000), ("wednesday", 22_520, 5000)):
        pq.write_table(labels.slice(first, rows), f"{name}.parquet")
    bounds = ("--label", "amount", "--id", "order", "--lower", 0, "--upper", 400)
    train = ("train", "message", "--features", "features.parquet", "--id", "order", "--fast", "--json", "--out")
    assert run("privatize", "labels.parquet", *bounds, "--epsilon", 1, "--key-file", "key", "--out", "message")[0] == 0
    first = json.loads(run(*train, "model")[1])["estimates"]
    assert "22,520 records now" in run("apply", "message", "tuesday.parquet", "--key-file", "key")[1]
    assert "27,520 records now" in run("apply", "message", "wednesday.parquet", "--key-file", "key")[1]
    last = json.loads(run(*train, "larger")[1])["estimates"]
    assert first["r2"]["lower"] > 0
    assert last["mean"]["lower"] < y.mean() < last["mean"]["upper"]
    assert last["mean"]["upper"] - last["mean"]["lower"] < first["mean"]["upper"] - first["mean"]["lower"]
    run("predict", "larger", "features.parquet", "--id", "order", "--out", "predictions.parquet")
    asked = ("score", "all.parquet", *bounds, "--predictions", "predictions.parquet", "--epsilon", 0.1, "--json")
    figures = {one["figure"]: one for one in json.loads(run(*asked, "--out", "score")[1])["figures"]}
    error = np.mean(np.square(np.asarray(pq.read_table("predictions.parquet")["prediction"]) - y))
    assert abs(figures["mse"]["upper"] - figures["mse"]["lower"]) / 2 < 0.1 * error
    assert figures["r2"]["lower"] > 0.15
    code, out, _ = run("report", "message", "--features", "features.parquet", "--id", "order", "--by", "ward")
    assert code == 0
    assert "paid before" in out
