"""Labels that are durations become numbers in the unit that the user names, and the reader of a message learns the unit."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from labeldp import Domain, LabelDPRegressor, LabelRandomizer, LabelSource, Message, SavedModel, apply, privatize
from labeldp.arrays import UNITS
from labeldp.errors import InvalidInput
from labeldp.learn.prediction_files import predictions_beside
from labeldp.learn.train import train
from labeldp.mechanisms import MECHANISMS, Mechanism

HOURS = Domain(0, 48, unit="hours")
WAITS = [timedelta(minutes=minutes) for minutes in range(0, 2880, 3)]
KINDS = {
    "list": WAITS,
    "numpy": np.array(WAITS, "timedelta64[us]"),
    "numpy minutes": np.array(WAITS, "timedelta64[m]"),
    "objects": np.array(WAITS, object),
    "pandas": pd.Series(WAITS),
    "pandas index": pd.TimedeltaIndex(WAITS),
    "pandas on Arrow": pd.Series(WAITS, dtype=pd.ArrowDtype(pa.duration("ms"))),
    "polars": pl.Series(WAITS),
    "Arrow": pa.array(WAITS),
    "Arrow chunks": pa.chunked_array([pa.array(WAITS[:9], pa.duration("s")), pa.array(WAITS[9:], pa.duration("s"))]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_duration_becomes_the_same_hours(kind):
    assert HOURS.check(KINDS[kind]).tolist() == [minutes / 60 for minutes in range(0, 2880, 3)]


@given(
    st.integers(-(2**53), 2**53),
    st.sampled_from(["ns", "us", "ms", "s", "m", "h", "D", "W"]),
    st.sampled_from(sorted(UNITS)),
)
def test_a_duration_is_the_nearest_float_or_its_neighbour(ticks, code, unit):
    length = dict(zip(["ns", "us", "ms", "s", "m", "h", "D", "W"], UNITS, strict=True))[code]
    exact = Fraction(ticks) * UNITS[length] / UNITS[unit]
    (value,) = Domain(-1e32, 1e32, unit=unit).check(np.array([ticks], f"timedelta64[{code}]"))
    assert abs(Fraction(float(value)) - exact) <= 2 * Fraction(float(np.spacing(abs(float(exact)))))


@pytest.mark.parametrize("missing", [None, pd.NaT, np.timedelta64("NaT")])
def test_a_missing_duration_is_named_by_its_row(missing):
    with pytest.raises(InvalidInput, match="index 1 is missing"):
        HOURS.check(pd.Series([WAITS[0], missing], dtype="timedelta64[ns]"))
    if missing is None or missing is pd.NaT:
        with pytest.raises(InvalidInput, match="index 1 is missing"):
            HOURS.check([WAITS[0], missing])


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_unit_the_error_says_how_to_name_one(kind):
    for use in (LabelRandomizer(1, (0, 48)).randomize, Domain(0, 48).check):
        with pytest.raises(InvalidInput, match=r'unit="hours".*--unit hours'):
            use(KINDS[kind])


def test_plain_numbers_are_taken_to_be_in_the_unit():
    assert HOURS.check([1.5, 2.0]).tolist() == [1.5, 2.0]
    assert LabelRandomizer(1, HOURS).randomize(np.linspace(0, 48, 500)).mechanism.domain.unit == "hours"


def test_months_have_no_length():
    with pytest.raises(InvalidInput, match=r"timedelta64\[M\]"):
        HOURS.check(np.array([1, 2], "timedelta64[M]"))


@pytest.mark.parametrize(("unit", "meant"), [("hrs", "hours"), ("ms", "milliseconds")])
def test_an_unknown_unit_gets_a_suggestion(unit, meant):
    with pytest.raises(InvalidInput, match=f"Did you mean '{meant}'"):
        Domain(0, 1, unit=unit)


def test_bounds_may_be_durations():
    assert Domain(timedelta(0), timedelta(days=2), unit="hours") == HOURS
    assert Domain(np.timedelta64(0, "s"), np.timedelta64(2, "D"), unit="hours") == HOURS
    with pytest.raises(InvalidInput, match="unit="):
        Domain(timedelta(0), timedelta(days=2))


@pytest.mark.parametrize("domain", [HOURS, Domain(0, 48, 49, unit="days"), Domain.integers(0, 48, unit="weeks")])
def test_the_unit_survives_json_and_every_grid(domain):
    again = Domain(*json.loads(json.dumps(domain.to_json())))
    assert (again, again.whole, again.unit) == (domain, domain.whole, domain.unit)
    assert domain.resolve(1000, 1).unit == domain.with_cells(7).unit == domain.unit
    assert domain != Domain(domain.lower, domain.upper, domain.cells)


@pytest.mark.parametrize("name", [entry.name for entry in MECHANISMS if entry.exact])
def test_every_mechanism_keeps_the_unit(name):
    private = LabelRandomizer(1, Domain(0, 48, 9, unit="hours"), mechanism=name).randomize(WAITS * 3)
    again = Mechanism.from_json(private.mechanism.to_json())
    assert again == private.mechanism
    assert again.domain.unit == "hours"
    assert len(again.randomize(WAITS)) == len(WAITS)


def test_a_regressor_predicts_and_scores_in_its_unit():
    X, hours = np.linspace(0, 1, len(WAITS))[:, None], [wait / timedelta(hours=1) for wait in WAITS]
    model = LabelDPRegressor(Ridge(alpha=1e-6), epsilon=20, domain=HOURS).fit(X, KINDS["polars"])
    plain = LabelDPRegressor(Ridge(), epsilon=20, domain=(0, 48)).fit(X, hours)
    assert model.predict([[0.5]])[0] == pytest.approx(24, abs=3)
    assert model.mechanism_.domain.unit == "hours"
    for labels in KINDS.values():
        assert model.score(X, labels) == pytest.approx(model.score(X, hours), rel=1e-9)
        assert model.score(X, labels) > 0.9
        with pytest.raises(InvalidInput, match="need a unit"):
            plain.score(X, labels)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    waits = pa.array(WAITS, pa.duration("ms"))
    pq.write_table(pa.table({"order": range(len(WAITS)), "wait": waits}), "monday.parquet")
    pq.write_table(pa.table({"order": range(5000, 5000 + len(WAITS)), "wait": waits}), "tuesday.parquet")
    return tmp_path


def test_a_message_says_the_unit_and_takes_later_batches_in_it(folder):
    monday, tuesday = (LabelSource(f"{day}.parquet", "wait", "order") for day in ("monday", "tuesday"))
    with pytest.raises(InvalidInput, match="--unit hours"):
        privatize(monday, LabelRandomizer(1, (0, 48)), "message")
    privatize(monday, LabelRandomizer(1, HOURS, mechanism="rr-on-bins"), "message", key_file="key")
    apply("message", tuesday, key_file="key")
    message = Message.open("message")
    assert (message.unit, len(message)) == ("hours", 2 * len(WAITS))
    assert "**hours**" in (folder / "message" / "PRIVACY.md").read_text()
    assert json.loads((folder / "message" / "mechanism.json").read_text())["domain"]["unit"] == "hours"
    pq.write_table(pa.table({"order": [9999], "wait": [5.0]}), "plain.parquet")
    assert apply("message", LabelSource("plain.parquet", "wait", "order"), key_file="key").records == 1
    message = Message.open("message")
    features = pa.table({"order": range(len(WAITS)), "x": np.linspace(0, 1, len(WAITS))})
    assert train(message, features, id="order", folds=0).model.facts["unit"] == "hours"


def test_true_labels_that_are_durations_need_a_model_with_a_unit(tmp_path):
    model = Ridge().fit(pd.DataFrame({"x": [0.0, 1.0]}), [0.0, 1.0])
    waits = pa.array([3600, 7200], pa.duration("s"))
    pq.write_table(pa.table({"x": [1.0, 2.0], "wait": waits}), tmp_path / "test.parquet")
    with pytest.raises(InvalidInput, match="the model predicts plain numbers") as refusal:
        predictions_beside(SavedModel(model, {"columns": ["x"]}), tmp_path / "test.parquet", "wait")
    assert "--unit" not in str(refusal.value)
    truth = predictions_beside(
        SavedModel(model, {"columns": ["x"], "unit": "hours"}), tmp_path / "test.parquet", "wait"
    )[1]
    assert truth.tolist() == [1.0, 2.0]


def test_the_source_and_the_domain_agree(folder):
    source = LabelSource("monday.parquet", "wait", "order", unit="days")
    with pytest.raises(InvalidInput, match="source's unit is days, but the unit of the bounds is hours"):
        privatize(source, LabelRandomizer(1, HOURS), "message")
    with pytest.raises(InvalidInput, match="not named"):
        privatize(source, LabelRandomizer(1, (0, 2)), "message")
    (batch,) = source.batches()
    assert batch.labels.tolist() == pytest.approx([minutes / 1440 for minutes in range(0, 2880, 3)])


def test_a_message_of_plain_numbers_has_the_unit_that_the_user_names(folder):
    pq.write_table(pa.table({"y": np.linspace(0, 48, 500)}), "plain.parquet")
    privatize(LabelSource("plain.parquet", "y"), LabelRandomizer(1, (0, 48)), "message")
    assert Message.open("message").unit is None
    assert "hours" not in (folder / "message" / "PRIVACY.md").read_text()
    privatize(LabelSource("plain.parquet", "y"), LabelRandomizer(1, HOURS), "other")
    assert Message.open("other").unit == "hours"
    assert "**hours**" in (folder / "other" / "PRIVACY.md").read_text()


DECIMALS = [Decimal(cents) / 100 for cents in range(0, 40_000, 37)]


@pytest.mark.parametrize(
    "labels",
    [DECIMALS, np.array(DECIMALS, object), pd.Series(DECIMALS), pl.Series(DECIMALS), pa.array(DECIMALS)],
    ids=["list", "objects", "pandas", "polars", "Arrow"],
)
def test_decimals_are_numbers(labels):
    expected = [float(value) for value in DECIMALS]
    assert Domain(0, 400).check(labels) == pytest.approx(expected, rel=1e-14)
