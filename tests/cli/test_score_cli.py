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
