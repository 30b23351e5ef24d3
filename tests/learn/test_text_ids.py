"""Ids of text files: taken as they are written, in training and beside predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import Ridge

from labeldp import Domain, FeatureWarning, InvalidInput, LabelRandomizer, LabelSource, Prior, SavedModel, privatize
from labeldp.artifact.reader import Message
from labeldp.learn.joined_features import joined_features
from labeldp.learn.prediction_files import predict_file
from labeldp.learn.train import train
from labeldp.tables import feature_file

ROWS = 300


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(feature_file, "BATCH_ROWS", 7)
    monkeypatch.setattr(feature_file, "BLOCK_BYTES", 1 << 10)


def message_of(folder, ids, name="id"):
    """Private labels that are the row numbers, almost exactly (ε = 40)."""
    domain = Domain(0, ROWS - 1, ROWS)
    randomizer = LabelRandomizer(40, domain, prior=Prior.uniform(domain), mechanism="randomized-response")
    columns = {"y": np.arange(ROWS, dtype=float)} | ({} if ids is None else {name: ids})
    pq.write_table(pa.table(columns), folder / "labels.parquet")
    source = LabelSource(folder / "labels.parquet", "y", None if ids is None else name)
    return Message.open(privatize(source, randomizer, folder / "message").message)


def features_of(folder, ids, name="id"):
    lines = [f"{name},x", *(f"{i},{row}" for row, i in enumerate(ids))]
    (folder / "features.csv").write_text("\n".join(lines) + "\n")
    return folder / "features.csv"


def labels_of(message, features, name="id"):
    """The private label of each row of features that has one, beside its x."""
    found = joined_features(message, features, name)
    return found.table["x"].to_pylist(), message.mechanism.outputs[found.joined.codes].tolist()


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([f"{i:08}" for i in range(ROWS)]),
        pa.array([*map(str, range(ROWS - 1)), "0007"]),
        pa.array([*map(str, range(ROWS - 2)), "NA", "true"]),
        pa.array(range(ROWS)),
        pa.array(range(-5, ROWS - 5), pa.int16()),
        pa.array([*range(ROWS - 1), 2**63 + 7], pa.uint64()),
    ],
    ids=["zeros", "one odd", "words", "integers", "negative", "64 bits"],
)
def test_text_finds_the_ids_of_the_message(tmp_path, ids):
    message = message_of(tmp_path, ids)
    rows, labels = labels_of(message, features_of(tmp_path, ids.to_pylist()))
    assert rows == labels == list(range(ROWS))


@pytest.mark.parametrize("odd", ["0077123", "+77123", "77123.0", " 77123", "x77123", "77123" * 5])
def test_text_that_is_no_plain_integer_is_no_integer_id(tmp_path, odd):
    message = message_of(tmp_path, range(ROWS))
    with pytest.raises(InvalidInput, match=r"ids are whole numbers, but the id in row 251 .*\) of 'id'") as refusal:
        joined_features(message, features_of(tmp_path, [*range(250), odd]), "id")
    assert "77123" not in str(refusal.value)


def test_an_empty_field_is_a_missing_id(tmp_path):
    for ids in (range(ROWS), [f"{i:08}" for i in range(ROWS)]):
        (folder := tmp_path / type(ids).__name__).mkdir()
        with pytest.raises(InvalidInput, match="1 row of the features has no id"):
            joined_features(message_of(folder, ids), features_of(folder, [*ids[:20], ""]), "id")


def test_other_ids_than_row_numbers_are_refused_for_a_message_without_ids(tmp_path):
    message = message_of(tmp_path, None)
    features = features_of(tmp_path, range(ROWS), "patient")
    with pytest.raises(InvalidInput, match="the ids of this message are row numbers: give --id row"):
        joined_features(message, features, "patient")
    with pytest.raises(InvalidInput, match="give --id row"):
        joined_features(message, pa.table({"patient": range(ROWS), "x": range(ROWS)}), "patient")
    assert labels_of(message, features, "row") == (list(range(ROWS)), list(range(ROWS)))


def model():
    return SavedModel(Ridge().fit(pd.DataFrame({"x": [0.0, 1.0]}), [0.0, 1.0]), {"columns": ["x"]})


@pytest.mark.parametrize("ids", [["00000007", "8"], [*map(str, range(400)), "0007"], ["7", " 8", ""], ["NA", "1e5"]])
def test_predictions_stand_beside_the_text_of_the_file(tmp_path, ids):
    features = features_of(tmp_path, ids)
    for name, read in (
        ("p.csv", lambda path: pd.read_csv(path, dtype=str, keep_default_na=False)),
        ("p.parquet", pd.read_parquet),
    ):
        assert predict_file(model(), features, tmp_path / name, "id") == len(ids)
        assert read(tmp_path / name)["id"].tolist() == ids


def test_plain_integers_stay_integers_beside_predictions(tmp_path):
    features = features_of(tmp_path, range(400))
    predict_file(model(), features, tmp_path / "p.parquet", "id")
    predict_file(model(), features, tmp_path / "p.csv", "id")
    assert pq.read_table(tmp_path / "p.parquet")["id"].combine_chunks().equals(pa.array(range(400)))
    assert [line.split(",")[0] for line in (tmp_path / "p.csv").read_text().splitlines()] == [
        '"id"',
        *map(str, range(400)),
    ]


def test_a_feature_that_is_copied_too_is_still_read_as_in_training(tmp_path):
    """The column is a number to the model, whatever zeros it has, and text beside the predictions."""
    written = [f"{row:05}" for row in range(400)]
    (tmp_path / "features.csv").write_text("\n".join(["x,z", *(f"{text},1" for text in written)]) + "\n")
    predict_file(model(), tmp_path / "features.csv", tmp_path / "p.parquet", "x")
    found = pd.read_parquet(tmp_path / "p.parquet")
    assert found["x"].tolist() == written
    alone = model().predict(pd.DataFrame({"x": np.arange(400.0)}))
    np.testing.assert_allclose(found["prediction"], alone)


def test_parts_whose_ids_do_not_fit_are_refused_without_an_id(tmp_path):
    (tmp_path / "parts").mkdir()
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "x": [1.0]}), tmp_path / "parts" / "1.parquet")
    pq.write_table(pa.table({"id": [7_712_300_000], "x": [1.0]}), tmp_path / "parts" / "2.parquet")
    with pytest.raises(InvalidInput, match="cannot read") as refusal:
        joined_features(message_of(tmp_path, range(ROWS)), tmp_path / "parts", "id")
    assert "77123" not in str(refusal.value)


def test_a_file_without_a_header_line_is_not_quoted(tmp_path):
    (tmp_path / "features.csv").write_text("KH-0830,1.5\nKH-0831,2.5\n")
    with pytest.raises(
        InvalidInput, match=r"has no column 'KH-0'\. Its first line has 2 entries that look like data"
    ) as refusal:
        joined_features(message_of(tmp_path, range(ROWS)), tmp_path / "features.csv", "KH-0")
    assert "0830" not in str(refusal.value)


@pytest.mark.parametrize(("kept", "warned"), [(10, True), (149, True), (150, False)])
def test_ids_that_agree_by_chance_are_questioned(tmp_path, recwarn, kept, warned):
    message = message_of(tmp_path, range(ROWS))
    ids = [*range(kept), *range(10_000, 10_000 + ROWS - kept)]
    train(message, pa.table({"id": ids, "x": np.arange(ROWS) % 5 / 2}), id="id", folds=0)
    said = [str(warning.message) for warning in recwarn if warning.category is FeatureWarning]
    assert [f"only {kept} of 300 rows" in text for text in said] == [True] * warned
