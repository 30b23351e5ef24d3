"""Decompositions succeed where LAPACK's first algorithm fails, and give the same answer."""

import ast
from pathlib import Path

import numpy as np
import pytest

from labeldp import Domain, Prior, estimate_error
from labeldp.linear_algebra import cholesky, eigh, least_squares, solve, svd
from labeldp.mechanisms import PrivateLabels, Unbiased

SOURCE = Path(__file__).parents[1] / "src" / "labeldp"


@pytest.fixture
def failing(monkeypatch):
    """Make NumPy's decompositions fail the way LAPACK does on a matrix where it does not converge."""

    def fail(*_args, **_keywords):
        raise np.linalg.LinAlgError("did not converge")

    for name in ("svd", "eigh", "lstsq", "solve"):
        monkeypatch.setattr(np.linalg, name, fail)


def a_matrix(rows, columns):
    return np.random.default_rng(0).normal(size=(rows, columns))


def test_svd_has_a_second_algorithm(failing):
    matrix = a_matrix(9, 4)
    left, strength, right = svd(matrix)
    assert left.shape == (9, 4)
    np.testing.assert_allclose(left * strength @ right, matrix, atol=1e-12)


def test_eigh_has_a_second_algorithm(failing):
    matrix = a_matrix(5, 5)
    values, vectors = eigh(matrix + matrix.T)
    np.testing.assert_allclose(vectors * values @ vectors.T, matrix + matrix.T, atol=1e-12)
    assert (np.diff(values) > 0).all()


@pytest.mark.parametrize("rcond", [None, 1e-12])
def test_least_squares_has_a_second_algorithm(monkeypatch, failing, rcond):
    matrix, targets = a_matrix(6, 3) @ a_matrix(3, 8), a_matrix(6, 2)
    found = least_squares(matrix, targets, rcond)
    monkeypatch.undo()
    np.testing.assert_allclose(found, np.linalg.lstsq(matrix, targets, rcond=rcond)[0], atol=1e-10)


def test_a_singular_system_is_solved_in_least_squares():
    assert solve(np.ones((2, 2)), np.array([2.0, 2.0])) == pytest.approx([1, 1])


def test_a_covariance_that_rounding_made_indefinite_has_a_factor():
    matrix = np.ones((3, 3)) - 1e-15 * np.eye(3)
    factor = cholesky(matrix)
    np.testing.assert_allclose(factor @ factor.T, matrix, atol=1e-11)


def test_an_indefinite_matrix_has_no_factor():
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(np.diag([1.0, -1.0]))


def test_an_error_is_estimated_where_the_first_algorithm_fails(monkeypatch):
    mechanism = Unbiased.optimal(Prior.uniform(Domain.integers(0, 9)), epsilon=2)
    private = PrivateLabels(np.arange(400, dtype=np.uint32) % mechanism.outputs.size, mechanism)
    predictions = np.full(400, 4.5)
    expected = estimate_error(private, predictions)

    def fail(*_args, **_keywords):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(np.linalg, "svd", fail)
    found = estimate_error(private, predictions)
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-9)


def test_every_decomposition_has_a_second_algorithm():
    """Only `linear_algebra` may call a decomposition that can fail."""
    guarded = {"svd", "eigh", "lstsq", "solve", "inv", "pinv", "cholesky", "eig", "eigvalsh", "matrix_rank", "cond"}
    for path in SOURCE.rglob("*.py"):
        if path.stem == "linear_algebra":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            assert called not in {f"np.linalg.{name}" for name in guarded}, f"{path}: {called}"
            if isinstance(node, ast.ImportFrom) and node.module in {"scipy.linalg", "numpy.linalg"}:
                assert not guarded & {name.name for name in node.names}, path
