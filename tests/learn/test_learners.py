"""A learner is one file in `labeldp.learn`: put there, it is offered, explained, trained and saved."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import labeldp.learn
from labeldp import Domain, InvalidInput, LabelRandomizer, LabelSource, Message, Prior, SavedModel, privatize
from labeldp.cli import app
from labeldp.learn.learners import LEARNERS, learners
from labeldp.learn.train import train

NEW_FILE = """
from sklearn.dummy import DummyRegressor

from labeldp.learn.learners import LEARNERS, Learner

LEARNERS.add(
    Learner(
        "median",
        help="the median of all private labels, whatever the features",
        make=lambda request: DummyRegressor(strategy="median"),
    )
)
"""


@pytest.fixture
def new_learner(tmp_path, monkeypatch):
    """The file, in the folder of the other learners as far as Python can tell."""
    (tmp_path / "median.py").write_text(NEW_FILE)
    assert "median" not in learners().names  # read now: what the test reads is forgotten after it
    monkeypatch.setattr(labeldp.learn, "__path__", [*labeldp.learn.__path__, str(tmp_path)])
    monkeypatch.setattr(LEARNERS, "_entries", dict(LEARNERS._entries))
    monkeypatch.setattr(LEARNERS, "_complete", False)
    yield
    del sys.modules["labeldp.learn.median"]
    del labeldp.learn.median


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Almost exact private labels (ε = 40) of 200 records and their features, with 20 records more on each side."""
    folder = tmp_path_factory.mktemp("world")
    labels = np.arange(220.0)
    pq.write_table(pa.table({"key": np.arange(220), "label": labels}), folder / "labels.parquet")
    features = pa.table({"key": np.arange(20, 240), "x": np.arange(20.0, 240.0), "noise": np.ones(220)})
    pq.write_table(features, folder / "features.parquet")
    domain = Domain.integers(0, 300)
    randomizer = LabelRandomizer(40, domain, prior=Prior.uniform(domain), mechanism="randomized-response")
    privatize(LabelSource(folder / "labels.parquet", "label", "key"), randomizer, folder / "message")
    return folder


def cli(*arguments):
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, [str(argument) for argument in arguments])


@pytest.mark.usefixtures("new_learner")
def test_a_new_file_is_offered_explained_and_trained(world, tmp_path):
    assert "median    the median of all private labels, whatever the features" in cli("train", "-h").stdout
    arguments = ("train", world / "message", "--features", world / "features.parquet", "--id", "key")
    refusal = cli(*arguments, "--model", "medain", "--out", tmp_path / "model").exception
    assert isinstance(refusal, InvalidInput)
    assert "Did you mean 'median'?" in str(refusal)
    assert cli(*arguments, "--model", "median", "--out", tmp_path / "model").exit_code == 0
    saved = SavedModel.load(tmp_path / "model")
    assert saved.facts["model"] == "median"
    assert saved.predict(np.zeros((2, 1))).tolist() == pytest.approx(
        [119.5, 119.5]
    )  # the labels 20 … 219 have features


@pytest.mark.usefixtures("new_learner")
def test_a_loss_that_a_learner_does_not_know_is_refused(world):
    arguments = (world / "message", world / "features.parquet")
    with pytest.raises(InvalidInput, match="median trains on bins values with squared loss, not poisson"):
        train(*arguments, id="key", model="median", loss="poisson", target_values="bins")
    with pytest.raises(InvalidInput, match="randomized-response carries no prior"):
        train(*arguments, id="key", model="median", loss="poisson")


@pytest.mark.parametrize("as_path", [True, False])
def test_a_message_and_features_become_a_model_and_its_facts(world, as_path):
    features = world / "features.parquet"
    message = world / "message"
    if not as_path:
        features, message = pq.read_table(features), Message.open(message)
    with pytest.raises(
        InvalidInput, match=r"exclude must be a list of columns, got the text 'noise': write \['noise'\]"
    ):
        train(message, features, id="key", exclude="noise")
    saved = train(message, features, id="key", exclude=["noise"], seed=0, folds=0).model
    facts = saved.facts
    assert (facts["records"], facts["features_without_label"], facts["labels_without_features"]) == (200, 20, 20)
    assert (facts["columns"], facts["bounds"], facts["epsilon"]) == (["x"], [0, 300], 40)
    x = np.array([40.0, 120.0, 200.0])
    np.testing.assert_allclose(saved.predict(pa.table({"x": x})), x, atol=25)


def test_predictions_stay_in_the_bounds(world):
    saved = train(world / "message", world / "features.parquet", id="key", folds=0).model
    assert SavedModel(saved.model, saved.facts | {"bounds": [90, 100]}).predict(
        pa.table({"x": [40.0, 200.0], "noise": [1.0, 1.0]})
    ).tolist() == [90, 100]
