"""A saved model comes back as it was, and what is not one is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from labeldp import InvalidInput, SavedModel

FACTS = {"model": "line", "epsilon": 1.0, "bounds": [0.0, 15.0]}


@pytest.fixture
def saved(tmp_path):
    model = SavedModel(LinearRegression().fit([[0.0], [1.0]], [0.0, 10.0]), FACTS)
    model.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["text", "Path"])
def test_a_model_comes_back_with_its_facts(saved, kind):
    model = SavedModel.load(kind(saved))
    assert FACTS.items() <= model.facts.items()
    np.testing.assert_allclose(model.predict([[-1.0], [0.5], [2.0]]), [0, 5, 15])


def test_without_known_bounds_nothing_is_clipped(saved):
    model = SavedModel(SavedModel.load(saved).model, {"bounds": None})
    np.testing.assert_allclose(model.predict([[-1.0], [2.0]]), [-10, 20])


def test_nothing_is_overwritten_and_nothing_is_left_of_a_failed_save(saved):
    before = (saved / "model.json").read_bytes()
    with pytest.raises(InvalidInput, match="nothing is overwritten"):
        SavedModel(None, {}).save(saved)
    assert (saved / "model.json").read_bytes() == before
    with pytest.raises(InvalidInput, match="does not exist: make it first"):
        SavedModel(None, {}).save(saved.parent / "no" / "model")
    with pytest.raises(AttributeError):
        SavedModel(lambda: None, {}).save(saved.parent / "unpicklable")
    assert [path.name for path in saved.parent.iterdir() if not path.name.endswith("lock")] == ["model"]


def _version(folder):
    record = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(record | {"format_version": 99}))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_version, "another version"),
        (lambda folder: (folder / "model.json").write_text("{"), "model.json is damaged"),
        (lambda folder: (folder / "model.pickle").write_bytes(b"\x80"), "model.pickle cannot be loaded"),
        (lambda folder: (folder / "model.pickle").unlink(), "is not a model"),
    ],
)
def test_what_is_not_a_whole_model_is_refused(saved, spoil, words):
    spoil(saved)
    with pytest.raises(InvalidInput, match=words):
        SavedModel.load(saved)
