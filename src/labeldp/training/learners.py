"""The catalogue of learners that `labeldp train` offers.

To add a learner, write a module in this folder that ends with `LEARNERS.add(Learner(...))`. The catalogue finds it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labeldp.catalogue import Catalogue


@dataclass(frozen=True)
class LearnerRequest:
    """What a learner is to be made for.

    Attributes
    ----------
    records : int
        The number of private values to train on.
    share : float
        The share of a true label that each is worth, see `label_share`.
    loss : str
        The loss to train with.
    categorical, numeric : sequence of str or int, optional
        Columns to read as categories or as numbers whatever their type.
    seed : int, optional
        The seed of the learner.
    epochs : int, optional
        The number of passes over the data, for learners that count them.
    progress : bool
        Whether to show progress while training.
    """

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
        Its name on the command line.
    help : str
        One line for `--help`.
    make : callable
        Makes an unfitted scikit-learn regressor from a `LearnerRequest`.
    losses : tuple of str
        The losses that it can train with.
    rank : int
        Its place in lists: a lower rank comes first.
    own_progress : bool
        Whether it shows a bar of its own while it trains, if `LearnerRequest.progress` is set.
    """

    name: str
    help: str
    make: Callable[[LearnerRequest], Any]
    losses: tuple[str, ...] = ("squared",)
    rank: int = 50
    own_progress: bool = False


LEARNERS: Catalogue[Learner] = Catalogue("model", "labeldp.training")
"""Every learner by name. The paper's network enters itself when `labeldp.paper.network` is imported."""
