"""train, predict and evaluate as typed, on a message made by privatize."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from labeldp import Domain, LabelRandomizer, SavedModel
from labeldp.engines.arrow.source import LabelSource
from labeldp.errors import InvalidInput
from labeldp.learn.feature_columns import ColumnEncoder
from labeldp.learn.train import train as train_model
from labeldp.learn.verdict import verdict_of_labels
from labeldp.release.apply import apply
from labeldp.release.labels import privatize


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A message and the features it belongs to, 5 % of either side unpaired."""
    folder = tmp_path_factory.mktemp("world")
    generator = np.random.default_rng(0)
    n = 30_000
    label = np.minimum(generator.exponential(90, n), 400)
    ids = generator.permutation(n)
    pq.write_table(pa.table({"order": ids, "amount": label}).slice(0, 28_500), folder / "labels.parquet")
    features = pa.table(
        {
            "order": ids,
            "hint": label + generator.normal(0, 40, n),
            "size": np.where(label > 100, "large", "small"),
            "truth": label,
        }
    ).take(generator.permutation(n)[:28_500])
    pq.write_table(features.drop_columns("truth"), folder / "features.parquet")
    pa_csv.write_csv(features, folder / "test.csv")
    source = LabelSource(folder / "labels.parquet", "amount", "order")
    privatize(source, LabelRandomizer(2, Domain(0, 400, 101), mechanism="rr-on-bins"), folder / "message")
    return folder


def train(run, world, tmp_path, *more, fast=True):
    """Train, by default the small model that takes a second."""
    return run(
        "train",
        world / "message",
        "--features",
        world / "features.parquet",
        "--id",
        "order",
        "--out",
        tmp_path / "model",
        *(("--fast",) if fast and "--model" not in more else ()),
        *more,
    )


@pytest.mark.parametrize("fast", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_whole_way_from_message_to_predictions(run, world, tmp_path, fast):
    code, out, _ = train(run, world, tmp_path, "--json", fast=fast)
    facts = json.loads(out)
    assert code == 0
    assert facts["target_values"] == "auto"
    assert facts["records"] + facts["features_without_label"] == 28_500
    assert facts["records"] + facts["labels_without_features"] == 28_500
    assert facts["features_without_label"] > 0
    estimates = facts["estimates"]
    assert list(estimates) == ["mean", "error_of_mean", "error", "gain", "r2"]
    for figure in estimates.values():
        assert figure["lower"] is None or figure["lower"] <= figure["value"]
        assert figure["value"] <= figure["upper"]
    assert estimates["mean"]["lower"] <= 88.9 <= estimates["mean"]["upper"]
    assert estimates["mean"]["value"] == pytest.approx(88.9, abs=12)  # two bins give 90.2, with a deviation of 1.3
    assert estimates["error_of_mean"]["lower"] <= 88.9**2 <= estimates["error_of_mean"]["upper"]
    assert estimates["error"]["value"] < estimates["error_of_mean"]["value"]
    assert estimates["gain"]["value"] == pytest.approx(
        estimates["error_of_mean"]["value"] - estimates["error"]["value"], rel=0.2
    )

    code, _, _ = run(
        "predict", tmp_path / "model", world / "features.parquet", "--id", "order", "--out", tmp_path / "p.csv"
    )
    assert code == 0
    predicted, features = pa_csv.read_csv(tmp_path / "p.csv"), pq.read_table(world / "features.parquet")
    assert predicted["order"].to_pylist() == features["order"].to_pylist()
    np.testing.assert_array_equal(predicted["prediction"], SavedModel.load(tmp_path / "model").predict(features))

    code, out, _ = run("evaluate", tmp_path / "model", world / "test.csv", "--label", "truth", "--json")
    assert code == 0
    figures = json.loads(out)
    assert figures["R squared"] > 0.55  # 0.69 with a deviation of 0.016: labels and prior are drawn afresh
    assert estimates["error"]["lower"] <= figures["mean squared error"] <= estimates["error"]["upper"]


def test_reports_in_words(run, world, tmp_path):
    _, out, _ = train(run, world, tmp_path, "--folds", 2)
    assert "had no private label" in out
    assert "labels' mean" in out
    assert "mean squared test error is " in out
    assert "always answering the mean" in out
    assert "e+" not in out
    _, out, err = run("evaluate", tmp_path / "model", world / "test.csv", "--label", "truth")
    assert "mean squared error" in out
    assert "not private" in err


def test_python_does_what_the_command_does(run, world, tmp_path):
    code, out, _ = train(run, world, tmp_path, "--seed", 1, "--folds", 2, "--exclude", "size")
    assert code == 0
    features = world / "features.parquet"
    result = train_model(world / "message", features, id="order", model="boosting", seed=1, folds=2, exclude=["size"])
    written, table = SavedModel.load(tmp_path / "model"), pq.read_table(features)
    assert result.model.facts.items() <= written.facts.items()
    np.testing.assert_array_equal(result.model.predict(table), written.predict(table))
    assert result.estimator is result.model.model
    assert result.verdict
    assert all(text in out for _, text in result.report)
    assert f"--id {result.id_column} --out" in out


def report(lower, value, upper, assumptions=()):
    figure = {"value": 13_092.4, "lower": 0.0, "upper": 123_456.0}
    r2 = {"value": value, "lower": lower, "upper": upper}
    facts = {"estimates": {"mean": figure, "error": figure, "r2": r2}, "assumptions": list(assumptions)}
    return "\n".join(text for _, text in verdict_of_labels(facts))


def test_the_verdict_says_whether_the_model_beats_the_mean():
    better = report(0.62, 0.71, 0.78)
    assert "explains about 71 % (62 % to 78 %) of the labels' variation: it is better than" in better
    assert "mean squared test error is at most 123,456" in better
    assert "not known from these labels whether" in report(-0.2, -0.01, 0.3)
    assert "-574" not in report(-5.74, 0.1, 0.9)
    assert "it explains at least -20 % and at most 30 % of" in report(-0.2, -0.01, 0.3)
    assert "it explains at most 30 % of" in report(None, 0.1, 0.3)
    assert "it explains at least -20 % of" in report(-0.2, 0.1, 1.0)
    for nearly_all in (1.0, 0.999):  # which no model exceeds
        assert report(None, 0.1, nearly_all).splitlines()[0].endswith("better than always answering the mean")
    assert "it is worse than always answering the mean" in report(-0.5, -0.3, -0.1)
    assert "the model explains at least 11 % of the labels' variation: it is better than" in report(0.11, 0.5, 1.0)


def test_what_is_not_known_is_said_and_a_score_offered():
    wide = {"value": 10_504.0, "lower": 392.5, "upper": 157_602.0}
    mean, r2 = {"value": 155.0, "lower": 117.0, "upper": 193.0}, {"value": 0.1, "lower": -5.74, "upper": 0.98}
    asked = {"epsilon": 0.1, "within": 1234.5, "label": "amount", "id": "the order"}
    estimates = {"mean": mean, "error": wide, "error_of_mean": wide, "r2": r2}
    facts = {"estimates": estimates, "assumptions": [], "bounds": [0, 400], "score": asked}
    text = "\n".join(line for _, line in verdict_of_labels(facts))
    assert "about 10,504" not in text
    assert text.count("not known from these labels") == 3
    assert "mean is about 155 (117 to 193)" in text
    assert "for ε = 0.1 more" in text
    assert "±1,234" in text or "±1,235" in text
    assert "labeldp score LABELS --label amount --id 'the order'" in text
    facts["estimates"]["r2"] = {"value": 0.3, "lower": 0.2, "upper": 0.9}
    assert "labeldp score" in str(verdict_of_labels(facts))
    facts["estimates"]["r2"] = {"value": 0.3, "lower": 0.2, "upper": 0.4}
    assert "labeldp score" not in str(verdict_of_labels(facts))


def test_an_estimate_that_was_cut_off_at_an_end_of_its_interval_is_not_called_about_right():
    def shown(lower, value, upper):
        figure = {"value": value, "lower": lower, "upper": upper}
        return verdict_of_labels({"estimates": {"mean": figure}, "assumptions": []})[0][1]

    assert shown(0.0, 0.0, 23_660.0) == "the labels' mean is at most 23,660"
    assert shown(169.9, 169.9, 9326.0) == "the labels' mean is between 169.9 and 9,326"
    assert shown(0.0, 50.0, 50.0) == "the labels' mean is at most 50"
    assert shown(1.0, 2.0, 3.0) == "the labels' mean is about 2 (1 to 3)"


def test_a_model_on_a_message_for_training_is_seen_to_beat_the_mean(run, tmp_path):
    """50,000 labels like the README's at ε = 1. The features explain 73 % of their variance."""
    random = np.random.default_rng(7)
    feature, ids = random.normal(size=50_000), np.arange(50_000)
    label = np.clip(90 + 60 * feature + random.normal(0, 35, 50_000), 0, 400)
    pq.write_table(pa.table({"order": ids, "amount": label}), tmp_path / "labels.parquet")
    pq.write_table(pa.table({"order": ids, "hint": feature}), tmp_path / "features.parquet")
    source = LabelSource(tmp_path / "labels.parquet", "amount", "order")
    privatize(source, LabelRandomizer(1, (0, 400), mechanism="auto"), tmp_path / "message")
    for number, (nothing, assumptions) in enumerate([((), ["tails"]), (("--assume-nothing",), [])]):
        facts = json.loads(train(run, tmp_path, tmp_path, "--json", *nothing, "--out", tmp_path / f"m{number}")[1])
        r2 = facts["estimates"]["r2"]
        assert 0 < r2["lower"] < 0.73 < r2["upper"]
        assert facts["estimates"]["gain"]["lower"] > 0
        assert facts["assumptions"] == assumptions


def test_counts_are_used_for_batches_that_they_do_not_count_only_if_that_is_assumed(run, tmp_path):
    """Half of the matched labels were not counted. They must not be taken for counted ones unless batches are alike."""
    ids, labels = np.arange(8000), np.random.default_rng(0).uniform(0, 100, 8000)
    for name, rows in (("first", slice(0, 4000)), ("later", slice(4000, 8000))):
        pq.write_table(pa.table({"order": ids[rows], "amount": labels[rows]}), tmp_path / f"{name}.parquet")
    pq.write_table(pa.table({"order": ids, "hint": labels}).slice(2000, 3900), tmp_path / "features.parquet")
    first, later = (LabelSource(tmp_path / f"{name}.parquet", "amount", "order") for name in ("first", "later"))
    randomizer = LabelRandomizer(2, Domain(0, 100, 51), mechanism="auto")
    privatize(first, randomizer, tmp_path / "message", key_file=tmp_path / "key")
    settings = ("--json", "--seed", 1)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    alone = json.loads(train(run, tmp_path, tmp_path / "a", *settings)[1])
    apply(tmp_path / "message", later, key_file=tmp_path / "key")
    both = json.loads(train(run, tmp_path, tmp_path / "b", *settings)[1])
    assert alone["assumptions"][-1] == "part"  # 2,000 of the 4,000 labels that were counted
    assert both["records"] == 3900
    assert both["assumptions"][-2:] == ["part", "batches"]
    for assume in ((), ("tails", "part"), ("tails", "batches")):
        facts = train_model(
            tmp_path / "message", tmp_path / "features.parquet", id="order", model="boosting", assume=assume
        ).model.facts
        assert not {"part", "batches"} & set(facts["assumptions"])
    pq.write_table(pa.table({"order": ids + 8000, "amount": np.full(8000, 99.0)}), tmp_path / "later.parquet")
    apply(tmp_path / "message", later, key_file=tmp_path / "key")
    drifted = train_model(tmp_path / "message", tmp_path / "features.parquet", id="order", model="boosting")
    assert drifted.model.facts["batches_differ"]
    assert not {"part", "batches"} & set(drifted.model.facts["assumptions"])
    assert any("later batches differ" in text for _, text in drifted.report)


def test_the_verdict_names_what_it_assumes():
    assert "--assume-nothing" not in report(0.1, 0.2, 0.3)
    named = report(0.1, 0.2, 0.3, ["tails", "part"])
    assert "same side of the mean, and that the labels evaluated are a random part" in named
    assert "--assume-nothing" in named


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_has_32_bits(world, seed):
    with pytest.raises(InvalidInput, match="seed must be"):
        train_model(world / "message", world / "features.parquet", id="order", seed=seed)


def test_predictions_go_to_a_new_file_of_a_known_kind(run, world, tmp_path):
    train(run, world, tmp_path, "--quiet", "--folds", 0)
    (tmp_path / "p.csv").write_text("mine")
    for name, words in (
        ("p.csv", "nothing is overwritten"),
        ("p.json", ".parquet or .csv"),
        ("nowhere/p.csv", "nowhere does not exist: make it first"),
    ):
        code, _, err = run("predict", tmp_path / "model", world / "features.parquet", "--out", tmp_path / name)
        assert code == 2
        assert words in err
    assert (tmp_path / "p.csv").read_text() == "mine"


def test_the_network_trains_from_the_command_line(run, world, tmp_path, terminal):
    pytest.importorskip("torch")
    assert train(run, world, tmp_path, "--model", "network", "--epochs", 5, "--seed", 1, "--folds", 0)[0] == 0
    assert "reading" in terminal.getvalue()
    assert "training" not in terminal.getvalue()  # the network has its own progress bar
    _, out, _ = run("evaluate", tmp_path / "model", world / "test.csv", "--label", "truth", "--json")
    assert json.loads(out)["R squared"] > 0.2


@pytest.mark.parametrize("loss", ["poisson", "pinball(0.9)"])
def test_any_loss_is_trained_on_any_message_with_a_prior(run, world, tmp_path, loss):
    code, out, _ = train(run, world, tmp_path, "--loss", loss, "--folds", 2)
    assert code == 0
    assert f"for {loss} loss" in out
    assert "it is better than" in out
    facts = SavedModel.load(tmp_path / "model").facts
    assert (facts["loss"], facts["target_values"]) == (loss, "distribution")


def test_the_loss_of_the_message_is_the_default(run, world, tmp_path):
    source = LabelSource(world / "labels.parquet", "amount", "order")
    privatize(
        source, LabelRandomizer(4, Domain(0, 400, 21), loss="absolute", mechanism="rr-on-bins"), tmp_path / "median"
    )
    arguments = (
        "--features",
        world / "features.parquet",
        "--id",
        "order",
        "--out",
        tmp_path / "model",
        "--fast",
        "--folds",
        0,
    )
    code, out, _ = run("train", tmp_path / "median", *arguments)
    assert code == 0
    assert "for absolute loss" in out


def test_poisson_refuses_negative_targets(run, world, tmp_path):
    source = LabelSource(world / "labels.parquet", "amount", "order")
    privatize(source, LabelRandomizer(0.5, Domain(0, 400, 21), mechanism="rr-on-bins"), tmp_path / "noisy")
    code, _, err = run(
        *("train", tmp_path / "noisy", "--features", world / "features.parquet", "--id", "order"),
        *("--out", tmp_path / "model", "--loss", "poisson", "--target-values", "debiased"),
    )
    assert code == 2
    assert "does not accept negative targets" in err
    assert "Leave target_values (--target-values) out" in err  # which works:
    model = ("--out", tmp_path / "model", "--loss", "poisson", "--fast", "--folds", 0)
    assert run("train", tmp_path / "noisy", "--features", world / "features.parquet", "--id", "order", *model)[0] == 0


def test_columns_can_be_left_out_and_overridden(run, world, tmp_path):
    code, out, _ = train(run, world, tmp_path, "--exclude", "hint", "--categorical", "size", "--json", "--folds", 0)
    assert code == 0
    assert json.loads(out)["columns"] == ["size"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seed", -1], "--seed"),
        (["--id", "ordr"], "Did you mean 'order'"),
        (["--features", "nowhere.parquet"], "no file"),
        (["--target-values", "wrong"], "'wrong' is not one of 'auto', 'bins', 'debiased', 'positive'"),
        (["--model", "wrong"], "unknown model 'wrong'"),
        (["--loss", "wrong"], "unknown loss 'wrong'"),
        (["--exclude", "absent"], "no column"),
        (["--exclude", "hint,size"], "no column left"),
        (["--exclude", ","], "separated by commas"),
    ],
)
def test_bad_settings_leave_no_model(run, world, tmp_path, arguments, words):
    code, out, err = train(run, world, tmp_path, *arguments)
    assert code == 2
    assert words in err
    assert out == ""
    assert not (tmp_path / "model").exists()


def test_ids_that_do_not_match_are_refused(run, world, tmp_path):
    table = pq.read_table(world / "features.parquet")
    shifted = pa.array(np.asarray(table["order"]) + 10**6)
    pq.write_table(table.set_column(0, "order", shifted), tmp_path / "other.parquet")
    code, _, err = train(run, world, tmp_path, "--features", tmp_path / "other.parquet")
    assert code == 2
    assert "no id of the features" in err


def test_models_that_are_not_are_refused(run, world, tmp_path):
    code, _, err = run("predict", world / "message", world / "test.csv", "--out", tmp_path / "p.csv")
    assert code == 2
    assert "not a model" in err


def test_predicting_with_wrong_columns_names_them(run, world, tmp_path):
    train(run, world, tmp_path, "--quiet", "--folds", 0)
    pq.write_table(
        pq.read_table(world / "features.parquet").rename_columns(["order", "hints", "size"]), tmp_path / "f.parquet"
    )
    code, _, err = run("predict", tmp_path / "model", tmp_path / "f.parquet", "--out", tmp_path / "p.parquet")
    assert code == 2
    assert "did you mean 'hints'" in err
    assert not (tmp_path / "p.parquet").exists()


@pytest.fixture
def rows(run, tmp_path, monkeypatch):
    """Features, and a message for them that was made without --id."""
    monkeypatch.chdir(tmp_path)
    x = np.linspace(0, 1, 3000)
    pq.write_table(pa.table({"x": x, "z": x[::-1]}), "features.parquet")
    pq.write_table(pa.table({"amount": 400 * x}), "labels.parquet")
    bounds = ("--epsilon", 4, "--lower", 0, "--upper", 400, "--mechanism", "rr-on-bins")
    code, out, _ = run("privatize", "labels.parquet", "--label", "amount", *bounds, "--out", "message")
    assert code == 0
    return out


def test_the_command_that_privatize_prints_works_without_an_id_column(run, rows):
    command = rows.splitlines()[-1].replace("FILE", "features.parquet").replace("MODEL", "model").split()
    assert command[:2] == ["labeldp", "train"]
    code, out, errors = run(*command[1:], "--fast")
    assert code == 0, errors
    assert "labeldp predict model FILE --out" in out
    model = SavedModel.load("model")
    assert model.facts["columns"] == ["x", "z"]
    low, high = model.predict(pa.table({"x": [0.05, 0.95], "z": [0.95, 0.05]}))
    assert high - low > 200  # the rows were matched by their numbers


def test_row_numbers_may_be_a_column_and_must_match(run, rows):
    table = pq.read_table("features.parquet")
    order = np.random.default_rng(0).permutation(3000)[:2500]
    pq.write_table(table.append_column("row", pa.array(np.arange(3000))).take(order), "some.parquet")
    assert run("train", "message", "--features", "some.parquet", "--id", "row", "--out", "model", "--fast")[0] == 0
    assert SavedModel.load("model").facts["records"] == 2500
    pq.write_table(table.slice(1), "short.parquet")
    code, _, errors = run("train", "message", "--features", "short.parquet", "--id", "row", "--out", "other")
    assert code == 2
    assert "2,999 rows and the message 3,000" in errors


@pytest.mark.parametrize(("sign", "more"), [(";", ()), (":", ("--delimiter", ":"))])
def test_features_with_other_delimiters(run, rows, sign, more):
    table = pq.read_table("features.parquet")
    for name in ("features", "test"):
        columns = table if name == "features" else table.append_column("amount", table["x"])
        pa_csv.write_csv(columns, f"{name}.csv", pa_csv.WriteOptions(delimiter=sign))
    code, _, errors = run(
        "train", "message", "--features", "features.csv", "--id", "row", "--out", "model", "--fast", *more
    )
    assert code == 0, errors
    assert run("predict", "model", "features.csv", "--out", "predictions.parquet", *more)[0] == 0
    assert pq.read_metadata("predictions.parquet").num_rows == 3000
    assert run("evaluate", "model", "test.csv", "--label", "amount", *more)[0] == 0


def test_features_with_a_decimal_comma_are_not_taken_for_text(run, rows, tmp_path):
    lines = [f"{number},5;{number}\n" for number in range(3000)]
    (tmp_path / "features.csv").write_text("x;z\n" + "".join(lines))
    code, _, errors = run("train", "message", "--features", "features.csv", "--id", "row", "--out", "model")
    assert code == 2
    assert "column 'x' have a decimal comma" in errors


@pytest.fixture
def terminal(monkeypatch):
    """What is shown on standard error if it is a terminal."""
    import importlib
    import io

    from rich.console import Console

    screen = io.StringIO()
    shown = Console(file=screen, force_terminal=True, width=100, color_system=None)
    for module in ("console", "train"):
        monkeypatch.setattr(importlib.import_module(f"labeldp.cli.{module}"), "err", shown)
    return screen


def test_a_terminal_shows_progress_unless_it_is_to_be_quiet(run, world, tmp_path, terminal):
    def shown(*arguments):
        terminal.truncate(0)
        terminal.seek(0)
        assert run(*arguments)[0] == 0
        return terminal.getvalue()

    def train(name, *more):
        features = ("--features", world / "features.parquet", "--id", "order", "--out", tmp_path / name)
        return shown("train", world / "message", *features, *more)

    bars = train("model", "--fast", "--folds", 2)
    for phase, count in (("joining", "28,500"), ("reading", "28,500"), ("training", "3")):
        assert re.search(rf" {phase} +━+ +{count} ", bars)
    assert train("quiet", "--quiet", "--fast", "--folds", 0) == ""
    predict = ("predict", tmp_path / "model", world / "test.csv", "--out")
    bars = shown(*predict, tmp_path / "p.csv")
    assert "checking" in bars
    assert "predicting" in bars
    assert "28,500" in bars
    assert shown(*predict, tmp_path / "q.csv", "--quiet") == ""
    assert "predicting" in shown("evaluate", tmp_path / "model", world / "test.csv", "--label", "truth")


@pytest.mark.filterwarnings("default::labeldp.FeatureWarning")
def test_suspicious_columns_are_named_even_if_quiet(run, world, tmp_path):
    table = pq.read_table(world / "features.parquet").rename_columns(["order", "hint", "Amount"])
    table = table.append_column("__index_level_0__", pa.array(np.arange(table.num_rows)))
    table = table.append_column("phone", pa.array([f"+49 555 {row}" for row in range(table.num_rows)]))
    pq.write_table(table, tmp_path / "f.parquet")
    code, out, err = train(run, world, tmp_path, "--features", tmp_path / "f.parquet", "--quiet", "--folds", 0)
    assert (code, out) == (0, "")
    index, ids, label = err.splitlines()
    assert index.startswith("note: the column '__index_level_0__' is left out")
    assert "--exclude phone" in ids
    assert "--exclude Amount" in label
    assert SavedModel.load(tmp_path / "model").facts["columns"] == ["hint", "Amount", "phone"]


@pytest.mark.parametrize("command", ["train", "predict"])
def test_a_stopped_command_leaves_nothing(run, world, tmp_path, monkeypatch, command):

    train(run, world, tmp_path, "--quiet", "--folds", 0)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ColumnEncoder, "ordinal", stop)
    features, out = world / "features.parquet", tmp_path / "out.csv"
    arguments = {
        "train": ("train", world / "message", "--features", features, "--id", "order"),
        "predict": ("predict", tmp_path / "model", features),
    }
    code, _, err = run(*arguments[command], "--out", out)
    assert code == 130
    assert err.startswith("error: stopped. No ")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_randomized_response_trains_on_debiased_values(run, world, tmp_path):
    source = LabelSource(world / "labels.parquet", "amount", "order")
    privatize(source, LabelRandomizer(3, Domain(0, 400, 21), mechanism="randomized-response"), tmp_path / "rr")
    arguments = ("--features", world / "features.parquet", "--id", "order", "--out", tmp_path / "model", "--fast")
    code, out, _ = run("train", tmp_path / "rr", *arguments)
    assert code == 0
    assert "verdict  none" in out
    code, out, _ = run("evaluate", tmp_path / "model", world / "test.csv", "--label", "truth", "--json")
    assert json.loads(out)["R squared"] > 0.4  # with the cells as they were drawn it is below zero


def test_evaluate_has_the_loss_of_the_model_first(run, world, tmp_path):
    train(run, world, tmp_path, "--loss", "pinball(0.9)", "--folds", 0)
    code, out, _ = run("evaluate", tmp_path / "model", world / "test.csv", "--label", "truth", "--json")
    assert code == 0
    name, value = next(iter(json.loads(out).items()))
    assert "pinball(0.9)" in name
    assert value > 0


@pytest.mark.filterwarnings("default::labeldp.BudgetWarning")
@pytest.mark.parametrize("loss", ["squared", "pinball(0.9)"])
def test_five_records_give_a_model_or_a_sentence(run, tmp_path, monkeypatch, loss):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.csv").write_text("order,hours\n" + "".join(f"{i},{i * 90}\n" for i in range(5)))
    (tmp_path / "features.csv").write_text("order,x\n" + "".join(f"{i},{i}\n" for i in range(5)))
    options = ("--label", "hours", "--id", "order", "--epsilon", 1, "--lower", 0, "--upper", 480, "--loss", loss)
    for draw in range(3):
        assert run("privatize", "labels.csv", *options, "--out", f"message{draw}")[0] == 0
        given = ("--features", "features.csv", "--id", "order", "--out", f"model{draw}")
        assert run("train", f"message{draw}", *given)[0] == 0
