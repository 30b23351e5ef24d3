"""Signature matrices: which privacy constraints a mechanism meets with equality, and whether it is RR-on-Bins.

The paper proves optimality by showing that some optimal matrix has the signature of randomized response on bins. Here the
signature of any matrix can be computed, with an explanation of which of the paper's conditions hold.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labeldp.budget import Epsilon, exact_epsilon
from labeldp.errors import InvalidInput


@dataclass(frozen=True, eq=False, repr=False)
class Signature:
    """One letter per label (row) and output (column).

    `0`: never drawn; `U`: as likely as privacy allows; `L`: as unlikely as privacy allows; `S`: neither.
    """

    letters: npt.NDArray[np.str_]

    @property
    def conditions(self) -> dict[str, bool]:
        """The paper's conditions. RR-on-Bins is (1) alone, or (2a), (2b) and (2c) together."""
        letters = self.letters
        used = (letters != "0").any(axis=0)
        upper, lower = letters == "U", letters == "L"
        single = used.sum() == 1 and bool((letters[:, used] == "S").all())
        columns = bool(((upper | lower).all(axis=0) & upper.any(axis=0) & lower.any(axis=0))[used].all())
        rows = bool((upper.sum(axis=1) == 1).all() and not (letters == "S").any())
        increasing = rows and bool((np.diff(upper.argmax(axis=1)) >= 0).all())
        return {"1": single, "2a": columns, "2b": rows, "2c": increasing}

    @property
    def is_rr_on_bins(self) -> bool:
        """Whether the matrix is randomized response on bins with a non-decreasing map."""
        met = self.conditions
        return met["1"] or (met["2a"] and met["2b"] and met["2c"])

    @property
    def bins(self) -> npt.NDArray[np.int64]:
        """The column that each label is mapped to. An error if the matrix is not RR-on-Bins."""
        if not self.is_rr_on_bins:
            raise InvalidInput("this matrix is not randomized response on bins:\n" + self.explain())
        own = self.letters == ("S" if self.conditions["1"] else "U")
        return np.asarray(own.argmax(axis=1), dtype=np.int64)

    def explain(self) -> str:
        """Each condition in words, with whether it holds."""
        words = {
            "1": "one column is all S, every other column all 0 (one output for everybody)",
            "2a": "every column is all 0, or only U and L with at least one of each",
            "2b": "every row has exactly one U and otherwise only L and 0",
            "2c": "the column of the U does not fall as the label grows",
        }
        met = self.conditions
        lines = [f"  ({name:<2}) {'yes' if met[name] else 'no ':<3}  {text}" for name, text in words.items()]
        verdict = "randomized response on bins" if self.is_rr_on_bins else "not randomized response on bins"
        return "\n".join([*lines, f"  so: {verdict}"])

    def __repr__(self) -> str:
        return "\n".join(" ".join(row) for row in self.letters)


def signature(matrix: npt.ArrayLike, epsilon: Epsilon, *, tolerance: float = 1e-9) -> Signature:
    """The signature of a matrix P[output j | label i]. Entries are equal within a relative, and zero within an absolute, `tolerance`."""
    m = np.asarray(matrix, dtype=np.float64)
    if m.ndim != 2 or not m.size or not np.isfinite(m).all() or (m < -tolerance).any():
        raise InvalidInput("a mechanism matrix has a row of probabilities for each label")
    e = math.exp(float(exact_epsilon(epsilon)))
    high, low = m.max(axis=0), m.min(axis=0)
    broken = np.flatnonzero(high > e * low * (1 + tolerance) + tolerance)
    if broken.size:
        raise InvalidInput(
            f"column {broken[0]} breaks ε = {float(exact_epsilon(epsilon)):g}: its probabilities go from {low[broken[0]]} "
            f"to {high[broken[0]]}"
        )
    tight = high >= e * low * (1 - tolerance)
    letters = np.full(m.shape, "S", dtype="<U1")
    letters[tight & (m >= high * (1 - tolerance))] = "U"
    letters[tight & (m <= low * (1 + tolerance))] = "L"
    letters[m <= tolerance] = "0"
    return Signature(letters)
