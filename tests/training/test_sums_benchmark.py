"""`benchmarks/sums.py` in small: every method gets an error, and the tables and judgement follow from the errors."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import adassp
import sums_tables
from labeldp.paper.data import criteo_like

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def script(name):
    """A benchmark by its file: `training` would also name the folder of these tests."""
    spec = spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def narrow(rows, seed):
    """Criteo-like rows with three columns, which take a second instead of five."""
    whole, numeric, categorical = criteo_like(rows, seed=seed), ("product_price",), ("device_type", "product_gender")
    features = whole.features.select([*numeric, *categorical])
    return replace(whole, features=features, numeric=numeric, categorical=categorical)


def row(errors, seed=0, data="criteo", records=10_000, epsilon=0.5):
    return {"data": data, "records": records, "epsilon": epsilon, "seed": seed, "method": "sums", "errors": errors}


def test_every_method_has_an_error_and_the_plain_call_shares_that_of_the_method_it_chose(monkeypatch, capsys):
    sums = script("sums")
    monkeypatch.setattr(sums.training, "TEST_ROWS", 500)
    monkeypatch.setattr(sums.training, "criteo_like", narrow)
    rows = sums.one_seed("criteo", 300, 0, [1.0], set())
    errors = rows[0]["errors"]
    assert set(errors) == set(sums_tables.METHODS) - {"dp-ebm"}
    assert errors["plain"] == errors[rows[0]["method"]]
    assert all(np.isfinite(error) and error > 0 for error in errors.values())
    sums_tables.show(rows, "criteo", 300)
    assert f"{errors['sums']:,.2f}" in capsys.readouterr().out


def test_an_excess_is_relative_to_the_error_without_privacy():
    rows = [row({"not private": 10, "labels": 20 + i, "sums": 12 + i / 5}, seed=i) for i in range(5)]
    cell = sums_tables.cells_of(rows, "criteo", 10_000)[0.5]
    value, error = sums_tables.excess(cell, "sums", "labels")
    assert value == pytest.approx(0.2)
    assert error == pytest.approx(0)
    assert sums_tables.excess(cell, "plain", "labels") is None


def test_seeds_of_two_files_are_put_together_and_only_those_with_both_methods_are_paired():
    rows = [row({"labels": 4.0}), row({"sums": 2.0}), row({"labels": 8.0}, seed=1)]
    cell = sums_tables.cells_of(rows, "criteo", 10_000)[0.5]
    assert len(cell["labels"]) == 2
    assert sums_tables.ratio(cell, "sums", "labels")[0] == pytest.approx(0.5)


def test_the_judgement_names_the_worst_cell_and_what_was_not_run(capsys):
    rows = [row({"plain": 1.02 if e == 2 else 1.0, "labels": 1.0}, i, epsilon=e) for i in range(2) for e in (1, 2)]
    sums_tables.judge(rows)
    printed = capsys.readouterr().out
    assert "NOT MET  largest error of plain to labels at criteo n = 10,000 ε = 2: 1.0200" in printed
    assert "not run  rand-hie" in printed


@pytest.mark.parametrize("epsilon", [0.25, 1, 8])
def test_gaussian_noise_of_the_peer_has_the_delta_that_it_states(epsilon):
    scale = adassp.gaussian_scale(epsilon, 1e-6)
    # δ = E[max(0, 1 − exp(ε − L))], and the privacy loss L of Gaussian noise is normal with these moments.
    mean, deviation = 1 / (2 * scale**2), 1 / scale
    loss = np.linspace(epsilon, mean + 40 * deviation, 2_000_001)
    density = np.exp(-(((loss - mean) / deviation) ** 2) / 2) / (deviation * np.sqrt(2 * np.pi))
    assert np.trapezoid(-np.expm1(epsilon - loss) * density, loss) == pytest.approx(1e-6, rel=1e-3)


def test_the_peer_learns_a_line_and_categories_if_the_budget_is_large():
    random = np.random.default_rng(0)
    matrix = np.column_stack([random.normal(size=5000), random.integers(0, 3, 5000)])
    labels = 50 + 10 * matrix[:, 0] + 10 * (matrix[:, 1] == 1)
    given = (matrix, np.array([False, True]), labels, matrix, (0, 100))
    for model in adassp.predictions(*given, epsilon=1000).values():
        assert np.mean((model - labels) ** 2) < 0.05 * labels.var()
