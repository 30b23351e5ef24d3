"""The catalogue of learners that `labeldp train` offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labeldp.catalogue import Catalogue


@dataclass(frozen=True)
class LearnerRequest:
    """What a learner is made for: so many private values, each worth `share` of a true label, and how to read columns."""

    records: int
    share: float = 1.0
    loss: str = "squared"
    categorical: Sequence[str | int] | None = None
    numeric: Sequence[str | int] | None = None
    seed: int | None = None
    epochs: int | None = None
    progress: bool = False


@dataclass(frozen=True)
class Learner:
    """One learner by name.

    Parameters
    ----------
    name : str
        On the command line.
    help : str
        One line for `--help`.
    make : callable
        A scikit-learn regressor for a `LearnerRequest`.
    losses : tuple of str
        Those that it can train with.
    rank : int
        Its place in lists.
    """

    name: str
    help: str
    make: Callable[[LearnerRequest], Any]
    losses: tuple[str, ...] = ("squared",)
    rank: int = 50


LEARNERS: Catalogue[Learner] = Catalogue("model", "labeldp.training")
"""Every learner by name. The paper's network enters itself when `labeldp.paper.network.learner` is imported."""
