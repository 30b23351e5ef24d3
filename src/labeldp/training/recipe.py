"""How a model for a loss is trained on private labels: what to train on, and what to make of the learner."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput, described
from labeldp.losses import Loss, LossLike, Squared, get_loss
from labeldp.mechanisms import FiniteMechanism
from labeldp.mechanisms.decoding import DECODERS, code_values
from labeldp.mechanisms.prediction import label_share
from labeldp.randomizer import check_bounds
from labeldp.training.conditional import ConditionalRegressor


@dataclass(frozen=True, eq=False)
class Recipe:
    """Training for one loss on the private labels of one mechanism.

    For squared loss, and wherever values are named, a learner trains on a number for each code. For every other loss it
    learns the conditional distribution of the label, whose best answer is predicted (`ConditionalRegressor`).

    Attributes
    ----------
    mechanism : FiniteMechanism
        What randomized the labels.
    loss : Loss
        The loss that predictions should keep small.
    decoder : str
        What codes stand for, a name for `code_values`; "distribution" where there is more than one number for a code.

    Examples
    --------
    >>> from labeldp import LabelRandomizer
    >>> from labeldp.training.recipe import Recipe
    >>> mechanism = LabelRandomizer(1, (0, 400)).rehearse(records=1000)
    >>> Recipe.of(mechanism, "squared").decoder, Recipe.of(mechanism, "absolute").decoder
    ('auto', 'distribution')
    """

    mechanism: FiniteMechanism
    loss: Loss
    decoder: str

    @classmethod
    def of(cls, mechanism: FiniteMechanism, loss: LossLike, target_values: str | None = None) -> Recipe:
        """The recipe for a loss, or for values that the user names; an error where it cannot work."""
        measure = get_loss(loss)
        check_target_values(target_values)
        if target_values not in (None, "auto") or isinstance(measure, Squared):
            recipe = cls(mechanism, measure, target_values or "auto")
            _ = recipe.values
            return recipe
        domain = mechanism.domain
        if domain is not None:
            check_bounds(measure, domain)
        if mechanism.prior is None:
            raise InvalidInput(
                f"a model for {measure.name} loss needs to know how the labels are distributed, and the mechanism {mechanism.kind} "
                "carries no prior. Use squared loss, or release the labels with the mechanism auto"
            )
        return cls(mechanism, measure, "distribution")

    @property
    def conditional(self) -> bool:
        """Whether the conditional distribution is learned."""
        return self.decoder == "distribution"

    @cached_property
    def values(self) -> Floats:
        """A number for each code: those to train on, or of a conditional recipe those that a mean is learned from."""
        return code_values(self.mechanism, "auto" if self.conditional else self.decoder)

    @property
    def share(self) -> float:
        """What a private value is worth, to size the learner by."""
        return label_share(self.mechanism, self.values)

    def targets(self, codes: NDArray[Any]) -> NDArray[Any]:
        """What the model's `fit` takes as y."""
        return codes if self.conditional else self.values[codes]

    def model(self, learner: Any) -> Any:
        """The unfitted model, from a regressor that learns means."""
        return ConditionalRegressor(learner, self.mechanism, self.loss) if self.conditional else learner


def check_target_values(target_values: object) -> None:
    """Refuse what names no values to train on."""
    if target_values is not None and not (isinstance(target_values, str) and target_values in DECODERS):
        raise InvalidInput(f"unknown target values {described(target_values)}; choose from {', '.join(DECODERS)}")


def extreme_targets(recipe: Recipe, records: int) -> Floats:
    """Made-up targets that alternate between the least and the greatest value that the mechanism can emit."""
    return np.resize([recipe.values.min(), recipe.values.max()], records)
