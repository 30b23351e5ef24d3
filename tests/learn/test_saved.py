"""A saved model comes back as it was, what is not one is refused, and a pickle is loaded only if that is asked for."""

from __future__ import annotations

import hashlib
import json
import pickle

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from forgery import OwnRegressor, Trap
from labeldp import InvalidInput, SavedModel

FACTS = {"model": "line", "epsilon": 1.0, "bounds": [0.0, 15.0]}


def fitted(kind=LinearRegression):
    return kind().fit([[0.0], [1.0]], [0.0, 10.0])


@pytest.fixture
def saved(tmp_path):
    SavedModel(fitted(), FACTS).save(tmp_path / "model")
    return tmp_path / "model"


def edited(folder, **changes):
    record = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(record | changes))


def pickled_folder(place, content):
    """A folder whose model is this pickle."""
    place.mkdir()
    record = {
        "format": "labeldp-model",
        "format_version": 1,
        "model_file": "model.pickle",
        "model_sha256": hashlib.sha256(content).hexdigest(),
        **FACTS,
    }
    (place / "model.json").write_text(json.dumps(record))
    (place / "model.pickle").write_bytes(content)
    return place


@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["text", "Path"])
def test_a_model_comes_back_with_its_facts(saved, kind):
    model = SavedModel.load(kind(saved))
    assert FACTS.items() <= model.facts.items()
    np.testing.assert_allclose(model.predict([[-1.0], [0.5], [2.0]]), [0, 5, 15])


def test_a_loaded_model_can_be_saved_again(saved, tmp_path):
    model = SavedModel.load(saved)
    SavedModel(fitted(), model.facts).save(tmp_path / "again")  # facts of another file must not be kept
    np.testing.assert_allclose(SavedModel.load(tmp_path / "again").predict([[0.5]]), [5])


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
    with pytest.raises(InvalidInput, match="cannot be saved as data"):
        SavedModel(lambda: None, {}).save(saved.parent / "function")
    with pytest.raises(InvalidInput, match="cannot be pickled"):
        SavedModel(lambda: None, {}).save(saved.parent / "function", pickle=True)
    assert [path.name for path in saved.parent.iterdir() if not path.name.endswith("lock")] == ["model"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: edited(folder, format_version=99), "another version"),
        (lambda folder: edited(folder, format="other"), "another version"),
        (lambda folder: edited(folder, model_file="../model.safetensors"), "model_file is neither"),
        (lambda folder: edited(folder, model_file=["model.safetensors"]), "model_file is neither"),
        (lambda folder: edited(folder, model_sha256=None), "SHA-256"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x80"), "SHA-256"),
        (lambda folder: (folder / "model.safetensors").unlink(), "is missing"),
        (lambda folder: (folder / "model.json").unlink(), "is not a model"),
    ],
)
def test_what_is_not_a_whole_model_is_refused(saved, spoil, words):
    spoil(saved)
    with pytest.raises(InvalidInput, match=words):
        SavedModel.load(saved)


class Answers(LinearRegression):
    """A model that answers whatever it is told to."""

    def predict(self, features):
        return self.answer(features)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda features: {}["x"], "cannot predict from these features .KeyError"),
        (lambda features: np.ones(3) @ np.ones(2), "cannot predict from these features .ValueError"),
        (
            lambda features: ["text"] * len(features),
            "hold text where numbers are needed|cannot predict from these features .ValueError",
        ),
        (
            lambda features: np.ones((len(features), 2)),
            r"of the shape \(2, 2\) in place of one number for each of 2 rows",
        ),
        (lambda features: np.ones(len(features) + 1), r"of the shape \(3,\) in place of one number for each of 2 rows"),
    ],
)
def test_a_model_that_cannot_predict_is_refused_in_words(answer, words):
    """A file can be changed so that it loads, and then fails anywhere in scikit-learn."""
    model = fitted(Answers)
    model.answer = answer
    for features in ([[0.0], [1.0]], np.array([[0.0], [1.0]])):
        with pytest.raises(InvalidInput, match=words):
            SavedModel(model, FACTS).predict(features)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "null", '"text"', "[" * 100_000, '{"a":' * 100_000, '{"bounds": [0, ' + "9" * 5000 + "]}", "\ud800"],
    ids=["cut", "list", "null", "text", "deep list", "deep object", "long number", "not UTF-8"],
)
def test_a_damaged_description_is_refused(saved, text):
    (saved / "model.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InvalidInput, match=r"model\.json is damaged"):
        SavedModel.load(saved)


@pytest.mark.parametrize(
    "fact",
    [
        {"bounds": [0]},
        {"bounds": [5, 0]},
        {"bounds": ["0", "1"]},
        {"bounds": [0, 10**400]},
        {"bounds": [float("nan"), 1]},
        {"bounds": {"lower": 0}},
        {"bounds": 3},
        {"columns": "ab"},
        {"columns": [1]},
        {"columns": None},
        {"unit": "parsecs"},
        {"unit": ["hours"]},
        {"epsilon": "1"},
        {"epsilon": 0},
        {"epsilon": float("inf")},
        {"model": 3},
        {"model": "\x1b[2J"},
        {"loss": []},
    ],
    ids=str,
)
def test_facts_that_cannot_be_used_are_refused(saved, fact):
    edited(saved, **fact)
    with pytest.raises(InvalidInput, match=f"{next(iter(fact))} cannot be|is not valid JSON"):
        SavedModel.load(saved)
    with pytest.raises(InvalidInput, match=f"{next(iter(fact))} cannot be"):
        SavedModel(fitted(), fact).save(saved.parent / "other")


def test_what_the_safe_format_cannot_hold_is_saved_as_a_pickle_only_if_asked_for(tmp_path):
    model = SavedModel(fitted(OwnRegressor), FACTS)
    with pytest.raises(InvalidInput, match=r"OwnRegressor.*save\(path, pickle=True\)"):
        model.save(tmp_path / "model")
    model.save(tmp_path / "model", pickle=True)
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["model.json", "model.pickle"]
    with pytest.raises(InvalidInput, match=r"runs the code it contains.*--trust-pickle"):
        SavedModel.load(tmp_path / "model")
    loaded = SavedModel.load(tmp_path / "model", trust_pickle=True)
    assert type(loaded.model) is OwnRegressor
    np.testing.assert_allclose(loaded.predict([[0.5]]), [5])
    (tmp_path / "model" / "model.pickle").write_bytes(b"\x80")
    with pytest.raises(InvalidInput, match="SHA-256"):
        SavedModel.load(tmp_path / "model", trust_pickle=True)


def test_a_pickle_needs_the_flag(tmp_path):
    folder = pickled_folder(tmp_path / "model", pickle.dumps(fitted()))
    with pytest.raises(InvalidInput, match=r"is a pickle.*Otherwise ask for the model as data"):
        SavedModel.load(folder)
    np.testing.assert_allclose(SavedModel.load(folder, trust_pickle=True).predict([[0.5]]), [5])
    with pytest.raises(InvalidInput, match="cannot be loaded"):
        SavedModel.load(pickled_folder(tmp_path / "damaged", b"\x80"), trust_pickle=True)


@pytest.mark.parametrize("trust_pickle", [False, True])
def test_a_pickle_in_disguise_is_not_loaded(saved, trust_pickle):
    sentinel = saved.parent / "sentinel"
    trap = pickle.dumps(Trap(sentinel))
    (saved / "model.safetensors").write_bytes(trap)
    edited(saved, model_sha256=hashlib.sha256(trap).hexdigest())
    with pytest.raises(InvalidInput, match="cannot be loaded"):
        SavedModel.load(saved, trust_pickle=trust_pickle)  # the flag is about model.pickle
    assert not sentinel.exists()
    pickle.loads(trap)
    assert sentinel.exists()  # the trap works


def test_a_pickle_beside_the_model_is_not_loaded(saved):
    (saved / "model.pickle").write_bytes(pickle.dumps(Trap(saved.parent / "sentinel")))
    SavedModel.load(saved, trust_pickle=True)
    assert not (saved.parent / "sentinel").exists()


def test_a_pickle_is_not_loaded_without_the_flag(tmp_path):
    folder = pickled_folder(tmp_path / "model", pickle.dumps(Trap(tmp_path / "sentinel")))
    with pytest.raises(InvalidInput, match="trust_pickle=True"):
        SavedModel.load(folder)
    assert not (tmp_path / "sentinel").exists()
