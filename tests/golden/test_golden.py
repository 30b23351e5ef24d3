"""What a change of the code's structure must not change (`values.py` explains how to store new values)."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

_spec = importlib.util.spec_from_file_location("golden_values", Path(__file__).with_name("values.py"))
golden = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(golden)


@pytest.fixture(scope="module")
def now():
    return golden.current()


@pytest.fixture(scope="module")
def stored():
    return json.loads(golden.FILE.read_text(encoding="utf-8"))


def test_keyed_draws_are_always_the_same(now, stored):
    assert now["draws"] == stored["draws"]


@pytest.mark.parametrize("name", golden.MECHANISMS)
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_designs_are_the_same(now, stored, name, epsilon):
    before, after = (values["designs"][f"{name} {epsilon}"] for values in (stored, now))
    np.testing.assert_allclose(after["moments"], before["moments"], rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(after["rows"], before["rows"], rtol=1e-3, atol=1e-5)


def test_predictions_are_the_same_on_the_same_processor(now, stored):
    before, after = stored["predictions"], now["predictions"]
    if before["processor"] != after["processor"]:
        pytest.skip("this processor rounds in another way than the one on which the predictions were stored")
    assert after.keys() == before.keys()
    for name in after.keys() - {"processor"}:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-9, err_msg=name)
