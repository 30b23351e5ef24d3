"""Classes as typed: privatize --classes, train, predict with probabilities, evaluate."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from scipy.special import expit
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from labeldp import Ledger, Message

ROWS = 8000
GENERATOR = np.random.default_rng(8)
HINT = GENERATOR.normal(size=ROWS)
SHOP = GENERATOR.integers(0, 3, ROWS)
HITS = GENERATOR.random(ROWS) < expit(1.5 * HINT + SHOP - 2)
NAMES = np.array(["no", "yes"])[HITS.astype(int)]
KINDS = {"text": NAMES, "booleans": HITS, "numbers": HITS.astype(int)}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    features = pa.table({"visit": np.arange(ROWS), "hint": HINT, "shop": np.array(["a", "b", "c"])[SHOP]})
    pq.write_table(features, folder / "features.parquet")
    pq.write_table(features.append_column("bought", pa.array(NAMES)), folder / "test.parquet")
    for kind, labels in KINDS.items():
        table = pa.table({"visit": np.arange(ROWS), "bought": labels})
        pq.write_table(table, folder / f"{kind}.parquet")
        pa_csv.write_csv(table, folder / f"{kind}.csv")
    return folder


def privatize(run, source, out, *more, classes="no,yes", epsilon=3):
    options = ("--label", "bought", "--id", "visit", "--epsilon", epsilon, "--classes", classes)
    return run("privatize", source, *options, "--out", out, *more)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("kind", KINDS)
def test_text_booleans_and_numbers_are_the_same_classes(run, world, tmp_path, kind, suffix):
    code, out, err = privatize(run, world / f"{kind}.{suffix}", tmp_path / "message", epsilon=30)
    assert (code, "classes  no, yes" in out) == (0, True), err
    message = Message.open(tmp_path / "message")
    assert message.classes == ("no", "yes")
    table = message.to_arrow().sort_by("visit")
    np.testing.assert_array_equal(table["private_label"].to_numpy(), HITS)
    assert "1 is `yes`" in (tmp_path / "message" / "PRIVACY.md").read_text(encoding="utf-8")


def test_the_whole_way_with_probabilities(run, world, tmp_path):
    assert privatize(run, world / "text.csv", tmp_path / "message")[0] == 0
    features = ("--features", world / "features.parquet", "--id", "visit")
    code, out, err = run("train", tmp_path / "message", *features, "--out", tmp_path / "model", "--fast")
    assert code == 0, err
    assert "log loss is about" in out
    assert "it is better than that" in out
    written = tmp_path / "rates.parquet"
    assert run("predict", tmp_path / "model", world / "test.parquet", "--id", "visit", "--out", written)[0] == 0
    table = pq.read_table(written)
    assert table.schema.names == ["visit", "prediction", "probability_no", "probability_yes"]
    rates = table["probability_yes"].to_numpy()
    np.testing.assert_allclose(table["probability_no"].to_numpy() + rates, 1)
    assert (np.array(table["prediction"].to_pylist()) == np.where(rates > 0.5, "yes", "no")).all()
    code, out, err = run("evaluate", tmp_path / "model", world / "test.parquet", "--label", "bought", "--json")
    figures = json.loads(out)
    assert "not private" in err
    assert figures["log loss"] == pytest.approx(log_loss(HITS, rates))
    assert figures["AUC"] == pytest.approx(roc_auc_score(HITS, rates))
    assert figures["Brier score"] == pytest.approx(brier_score_loss(HITS, rates))
    assert figures["accuracy"] == pytest.approx(np.mean((rates > 0.5) == HITS))
    assert sum(group["records"] for group in figures["calibration"]) == ROWS
    assert abs(figures["calibration slope"] - 1) < 0.25
    assert (
        "calibration, by the rate of yes"
        in run("evaluate", tmp_path / "model", world / "test.parquet", "--label", "bought")[1]
    )


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_booleans_come_back_as_booleans(run, world, tmp_path, suffix):
    assert privatize(run, world / f"booleans.{suffix}", tmp_path / "message", classes="false,true")[0] == 0
    features = ("--features", world / "features.parquet", "--id", "visit")
    assert run("train", tmp_path / "message", *features, "--out", tmp_path / "model", "--fast", "-q")[0] == 0
    written = tmp_path / "rates.parquet"
    assert run("predict", tmp_path / "model", world / "features.parquet", "--out", written)[0] == 0
    table = pq.read_table(written)
    assert table.schema.field("prediction").type == pa.bool_()
    np.testing.assert_array_equal(table["prediction"], np.asarray(table["probability_true"]) > 0.5)


def test_a_dry_run_shows_what_is_kept(run, world, tmp_path):
    code, out, _ = privatize(run, world / "text.csv", tmp_path / "message", "--dry-run", epsilon=1)
    assert code == 0
    assert "73.1% of the labels keep their class" in out
    assert json.loads(privatize(run, world / "text.csv", tmp_path / "m", "--dry-run", "--json")[1])["classes"] == [
        "no",
        "yes",
    ]


BAD = {
    "a third class": (np.where(np.arange(ROWS) == 7, "perhaps", NAMES), "no,yes", "of no class: line 9"),
    "probabilities": (np.linspace(0.1, 0.9, ROWS), "no,yes", "not probabilities"),
    "one class": (np.full(ROWS, "no"), "no,yes", "all labels are of one class"),
    "a class that does not occur": (NAMES, "no,never,yes", "no label is of the class 'never'"),
    "a missing label": (pa.array([None, *NAMES[1:]]), "no,yes", "line 2"),
    "one name": (NAMES, "no", "2 to 20 names"),
    "a name twice": (NAMES, "no,no", "the same name"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_labels_are_refused_before_the_charge(run, tmp_path, case):
    labels, classes, words = BAD[case]
    pa_csv.write_csv(pa.table({"visit": np.arange(ROWS), "bought": labels}), tmp_path / "labels.csv")
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", budget=5)
    charged = ("--ledger", tmp_path / "ledger.db", "--dataset", "visits")
    code, _, err = privatize(run, tmp_path / "labels.csv", tmp_path / "message", *charged, classes=classes)
    assert (code, ledger.remaining("visits")) == (2, 5)
    assert words in " ".join(err.split())
    assert "perhaps" not in err
    assert not (tmp_path / "message").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--integers", "0:1"), "classes have no bounds"),
        (("--mechanism", "rr-on-bins"), "classes are released by randomized-response"),
    ],
)
def test_options_for_numbers_are_refused(run, world, tmp_path, options, words):
    code, _, err = privatize(run, world / "text.csv", tmp_path / "message", *options)
    assert code == 2
    assert words in " ".join(err.split())


def test_a_model_of_classes_takes_no_loss(run, world, tmp_path):
    privatize(run, world / "text.csv", tmp_path / "message")
    features = ("--features", world / "features.parquet", "--id", "visit")
    code, _, err = run("train", tmp_path / "message", *features, "--out", tmp_path / "model", "--loss", "absolute")
    assert code == 2
    assert "leave out the loss" in " ".join(err.split())


@pytest.fixture
def rates(world):
    written = world / "rates.parquet"
    if not written.exists():
        odds = 1.5 * HINT + SHOP - 2
        columns = {"probability_no": expit(-odds), "probability_yes": expit(odds), "prediction": NAMES, "age": SHOP}
        pq.write_table(pa.table({"visit": np.arange(ROWS), **columns}), written)
    return written


def test_a_score_has_log_loss_auc_and_calibration_and_its_folder_is_proven(run, world, rates, tmp_path):
    Ledger.create(tmp_path / "ledger.db").add_dataset("visits", 2)
    paid = ("--ledger", tmp_path / "ledger.db", "--dataset", "visits")
    labels = (world / "booleans.csv", "--label", "bought", "--id", "visit", "--classes", "no,yes")
    options = ("--predictions", rates, "--epsilon", 1, "--out", tmp_path / "score")
    code, out, err = run("score", *labels, *options, *paid)
    assert (code, err) == (0, "")
    for words in ("log loss", "Brier score", "AUC", "rate of yes", "share of the class", "It is better than that"):
        assert words in out
    assert "visits has ε = 1 left" in out
    code, out, _ = run("audit", tmp_path / "score")
    assert (code, "proven" in out, "share of the class" in out) == (0, True, True)
    figures = {row["figure"]: row for row in json.loads(run("audit", tmp_path / "score", "--json")[1])["figures"]}
    assert (
        figures["auc"]["lower"]
        < roc_auc_score(HITS, np.asarray(pq.read_table(rates)["probability_yes"]))
        < figures["auc"]["upper"]
    )
    assert "0 is `no`, 1 is `yes`" in (tmp_path / "score" / "PRIVACY.md").read_text(encoding="utf-8")
    code, _, err = run("score", *labels, *options[:-1], tmp_path / "other", "--models", "age", *paid)
    assert (code, "not probabilities" in " ".join(err.split())) == (2, True)
    assert run("score", *labels, *options[:-1], tmp_path / "other", "--lower", 0, *paid)[0] == 2
    assert Ledger(tmp_path / "ledger.db").remaining("visits") == 1


def test_rates_by_group_for_both_parties(run, world, tmp_path):
    code, out, err = run(
        *("report", world / "test.parquet", "--by", "shop", "--label", "bought", "--classes", "no,yes"),
        *("--epsilon", 1, "--out", tmp_path / "report", "--picture", tmp_path / "rates.svg"),
    )
    assert (code, "rate of yes" in out) == (0, True), err
    assert "Rates by shop" in (tmp_path / "rates.svg").read_text(encoding="utf-8")
    privatize(run, world / "text.csv", tmp_path / "message")
    groups = ("--features", world / "features.parquet", "--id", "visit", "--by", "shop", "--json")
    code, out, err = run("report", tmp_path / "message", *groups)
    assert code == 0, err
    for row in json.loads(out)["figures"]:
        own = HITS[np.array(["a", "b", "c"])[SHOP] == row["group"]]
        assert row["lower"] < own.mean() < row["upper"]
