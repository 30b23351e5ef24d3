"""Models from noisy sums come back from a file to the last bit, and changed files are refused."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from column_answers import answer_columns
from crafted import inner, nothing_is_run, put_together  # noqa: F401 - a fixture
from sklearn.base import clone

from labeldp import InvalidInput, LabelDPRegressor, Ledger, SavedModel
from labeldp.learn.stored.model_file import from_bytes, to_bytes
from labeldp.learn.sums.cells_plan import CellsPlan, model_from_answer

ROWS = 3000
RANDOM = np.random.default_rng(0)
SIZE = RANDOM.normal(size=ROWS)
TABLE = pa.table(
    {
        "size": np.where(RANDOM.random(ROWS) < 0.1, np.nan, SIZE),
        "weight": RANDOM.normal(size=ROWS),
        "shop": RANDOM.choice(["a", "b", "ü", None], ROWS),
        "nothing": pa.nulls(ROWS, pa.float64()),
    }
)
LABELS = np.clip(200 + 60 * SIZE + 40 * TABLE["weight"].to_numpy() + 30 * SIZE * TABLE["weight"].to_numpy(), 0, 400)
NEW = pa.table(
    {"size": [0.5, None, -9e9], "weight": [None, 1.0, 2.0], "shop": ["new", "a", None], "nothing": [None, None, "x"]}
)


@pytest.fixture(scope="module")
def staged():
    return LabelDPRegressor(epsilon=20, domain=(0, 400), method="sums").fit(TABLE, LABELS)


def test_a_model_in_stages_comes_back_to_the_last_bit(staged):
    check_round_trip(staged)


def test_a_model_of_one_round_comes_back_to_the_last_bit():
    plan = CellsPlan.make(TABLE, 20)
    check_round_trip(model_from_answer(plan, TABLE, answer_columns(LABELS, plan.columns(TABLE), 20, (0, 400))))


def check_round_trip(model):
    data = to_bytes(model)
    loaded = from_bytes(data)
    for features in (TABLE, NEW):
        np.testing.assert_array_equal(loaded.predict(features), model.predict(features))
    assert to_bytes(loaded) == data


def test_a_regressor_with_a_ledger_saves_its_model_as_the_refusal_advises(tmp_path_factory):
    folder = tmp_path_factory.mktemp("charged")
    ledger = Ledger.create(folder / "ledger.db")
    ledger.add_dataset("sales", 20)
    model = LabelDPRegressor(epsilon=20, domain=(0, 400), method="sums", ledger=ledger, dataset="sales")
    model.fit(TABLE, LABELS)
    with pytest.raises(InvalidInput, match="save its estimator_"):
        SavedModel(model, {}).save(folder / "model")
    SavedModel(model.estimator_, {"bounds": [0, 400]}).save(folder / "model")
    loaded = SavedModel.load(folder / "model")
    with_an_id = NEW.add_column(0, "order", pa.array([1, 2, 3]))
    np.testing.assert_array_equal(loaded.predict(with_an_id), model.predict(NEW))


def test_a_pair_is_among_the_stored_models(staged):
    assert staged.estimator_.pairs


def test_an_unfitted_regressor_is_not_saved(staged, tmp_path_factory):
    with pytest.raises(InvalidInput, match="not fitted"):
        SavedModel(clone(staged), {}).save(tmp_path_factory.mktemp("unfitted") / "model")


def text(state, change):
    record = json.loads(state["json"])
    change(record)
    state["json"] = json.dumps(record)


def swap(state, one, other):
    state[one], state[other] = state[other], state[one]


CHANGES = {
    "a field too few": ("SumsModel", lambda state: state.pop("rest")),
    "a field too many": ("SumsModel", lambda state: state.update(more=1)),
    "no cells": ("SumsModel", lambda state: state.update(partitions=None)),
    "effects of fewer columns": ("SumsModel", lambda state: state["effects"]["tuple"].pop()),
    "effects of another column": ("SumsModel", lambda state: state["effects"]["tuple"].reverse()),
    "effects that are no arrays": ("SumsModel", lambda state: state["effects"]["tuple"].__setitem__(0, [1.0])),
    "another spread": ("SumsModel", lambda state: state.update(spread=state["effects"]["tuple"].pop())),
    "effects as the spread": ("SumsModel", lambda state: swap(state, "effects", "spread")),
    "a mean that is text": ("SumsModel", lambda state: state.update(mean="1")),
    "a mean that is true": ("SumsModel", lambda state: state.update(mean=True)),
    "bounds in the wrong order": ("SumsModel", lambda state: state["bounds"]["tuple"].reverse()),
    "three bounds": ("SumsModel", lambda state: state["bounds"]["tuple"].append(1.0)),
    "a range that is a pair": ("SumsModel", lambda state: state.update(range=state["pairs"])),
    "a pair of a column that is not there": ("Pair", lambda state: state["columns"]["tuple"].__setitem__(0, 99)),
    "a pair of a negative column": ("Pair", lambda state: state["columns"]["tuple"].__setitem__(0, -1)),
    "a pair of one column": ("Pair", lambda state: state["columns"]["tuple"].pop()),
    "a pair with other maps": ("Pair", lambda state: state["maps"]["tuple"].reverse()),
    "a clip that is text": ("LabelRange", lambda state: state.update(clip="01")),
    "a factor that is text": ("LabelRange", lambda state: state.update(factor="1")),
    "other cut points": (
        "Partitions",
        lambda state: text(state, lambda record: record["numeric"][0]["cuts"].pop()),
    ),
    "more categories": (
        "Partitions",
        lambda state: text(state, lambda record: record["categorical"][0]["categories"].append("more")),
    ),
    "cells that are no JSON": ("Partitions", lambda state: state.update(json="{")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_models_are_refused(staged, change):
    name, do = CHANGES[change]
    structure, arrays, state = inner(to_bytes(staged), name)
    do(state)
    with pytest.raises(InvalidInput):
        from_bytes(put_together(structure, arrays))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("PrivateSums", lambda state: text(state, lambda record: record.update(epsilon="1"))),
        ("LabelDPRegressor", lambda state: state.update(predict=1)),
        ("LabelDPRegressor", lambda state: state.update(estimator_=state["sums_"])),
        ("LabelDPRegressor", lambda state: state.pop("domain")),
    ],
)
def test_changed_regressors_are_refused(staged, name, change):
    structure, arrays, state = inner(to_bytes(staged), name)
    change(state)
    with pytest.raises(InvalidInput):
        from_bytes(put_together(structure, arrays))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_effects_that_are_not_finite_are_refused(staged, value):
    structure, arrays, state = inner(to_bytes(staged), "SumsModel")
    place = state["effects"]["tuple"][0]["array"]
    arrays[place] = np.full_like(arrays[place], value)
    with pytest.raises(InvalidInput, match="finite"):
        from_bytes(put_together(structure, arrays))


def test_maps_of_a_pair_that_point_too_far_are_refused(staged):
    structure, arrays, state = inner(to_bytes(staged), "Pair")
    place = state["maps"]["tuple"][0]["array"]
    arrays[place] = np.full_like(arrays[place], 65_535)
    with pytest.raises(InvalidInput, match="do not fit the cells"):
        from_bytes(put_together(structure, arrays))
