"""Matrix decompositions with a second algorithm for the rare matrices on which the first one fails.

NumPy uses LAPACK's divide-and-conquer drivers. They are fast, but do not converge on a few finite matrices, which
differ between processors. The older QR iteration is slower and converges on these.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_JITTERS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8)
"""Values to add to the diagonal before a Cholesky factorization, relative to its mean. The first that works is used."""


def svd(matrix: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the thin singular value decomposition U, s, Vᵀ of a finite matrix."""
    try:
        left, strength, right = np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        from scipy.linalg import svd as other_svd

        left, strength, right = other_svd(matrix, full_matrices=False, lapack_driver="gesvd")
    return left, strength, right


def eigh(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the eigenvalues of a symmetric matrix, in increasing order, and its eigenvectors as columns."""
    try:
        values, vectors = np.linalg.eigh(matrix)
    except np.linalg.LinAlgError:
        from scipy.linalg import eigh as other_eigh

        values, vectors = other_eigh(matrix, driver="ev")
    return values, vectors


def least_squares(matrix: Floats, targets: Floats, rcond: float | None = None) -> Floats:
    """Return the smallest x that minimises |matrix·x − targets|².

    Singular values below `rcond` times the largest count as zero. The default is the machine precision times the larger
    dimension.
    """
    try:
        return np.asarray(np.linalg.lstsq(matrix, targets, rcond=rcond)[0])
    except np.linalg.LinAlgError:
        left, strength, right = svd(matrix)
        limit = np.finfo(np.float64).eps * max(matrix.shape) if rcond is None else rcond
        kept = strength > limit * strength[0]
        return np.asarray((right[kept].T / strength[kept]) @ (left[:, kept].T @ targets))


def solve(matrix: Floats, targets: Floats) -> Floats:
    """Return the solution of a square system; the least-squares solution if the matrix is singular in floats."""
    try:
        return np.asarray(np.linalg.solve(matrix, targets))
    except np.linalg.LinAlgError:
        return least_squares(matrix, targets)


def cholesky(matrix: Floats) -> Floats:
    """Return the lower Cholesky factor of a positive semidefinite matrix.

    A matrix with tiny eigenvalues can become indefinite by rounding. Then a small multiple of the identity is added.
    """
    from scipy.linalg import cholesky as factorize

    size = float(np.trace(matrix)) / len(matrix)
    for jitter in _JITTERS:
        shifted: Any = matrix + jitter * size * np.eye(len(matrix)) if jitter else matrix
        try:
            return np.asarray(factorize(shifted, lower=True, check_finite=False))
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError("the matrix is not positive semidefinite")
