"""Errors of scikit-learn without the values that they quote: whoever swapped two arguments gave labels as features."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.base import RegressorMixin

from labeldp.errors import InvalidInput

RESHAPE = (
    "Reshape your data: with array.reshape(-1, 1) if it is one feature, with array.reshape(1, -1) if it is one record. "
    "Are the arguments in the right order? The features X come first, then the labels y"
)


@contextmanager
def without_values(what: str = "the features or the labels") -> Iterator[None]:
    """Say in other words what scikit-learn and NumPy say about wrong arrays where their words quote an array or a value.

    All other errors pass as they are.

    Parameters
    ----------
    what : str
        What may hold text by mistake, for the message.
    """
    try:
        yield
    except InvalidInput:
        raise
    except (TypeError, ValueError) as error:
        said = _said(str(error), what)
        if said is None:
            raise
        raise InvalidInput(said) from None


class QuietScore(RegressorMixin):  # type: ignore[misc]
    """A regressor whose `score` shows no label where it fails."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R² of the predictions.

        Parameters
        ----------
        X : table or array
            The features.
        y : array-like
            The labels to compare with. What comes out depends on them and is not private.
        sample_weight : array-like, optional
            A weight for each row.

        Returns
        -------
        float
            At most 1; 0 is as good as always answering the mean of `y`.

        """
        with without_values():
            return float(super().score(X, y, sample_weight))


def _said(text: str, what: str) -> str | None:
    """What an error that quotes values says without them; None for one that quotes none."""
    if text.startswith("Expected 2D array, got "):  # … 1D array instead: array=[…]
        return f"{text.partition(' instead')[0]} instead. {RESHAPE}"
    if text.startswith("Complex data not supported"):
        return "Complex data not supported: give real numbers"
    if "parameter of r2_score must be" in text:
        return f"the labels and the sample weights must be arrays. {RESHAPE}"
    if text.startswith("Singleton array") or "got scalar" in text:
        return f"a single number stands where an array is needed. {RESHAPE}"
    if "could not convert" in text or "invalid literal" in text or "to be a sequence of float" in text:
        return (
            f"{what} hold text where numbers are needed. Convert it to numbers first. The default estimator reads the text "
            "columns of pandas, polars and Arrow tables as categories"
        )
    return None
