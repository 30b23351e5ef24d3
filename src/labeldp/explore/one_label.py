"""What one label is reported as: its probabilities, and the same in a sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from labeldp.advice.words import percent
from labeldp.arrays import Floats
from labeldp.formatting import plain
from labeldp.mechanisms.finite import FiniteMechanism


@dataclass(frozen=True, eq=False)
class Reported:
    """The distribution of the private version of one label.

    Attributes
    ----------
    label : float
        The true label.
    outputs, probabilities : arrays
        What it can become, in increasing order, and how often.
    mean, deviation : float
        Of the private label.
    """

    label: float
    outputs: Floats
    probabilities: Floats
    mean: float
    deviation: float

    @property
    def likeliest(self) -> int:
        """The place of the output with the largest probability."""
        return int(np.argmax(self.probabilities))

    def sentence(self) -> str:
        """What happens to this label, as one would say it."""
        often, value = float(self.probabilities[self.likeliest]), self.outputs[self.likeliest]
        if self.outputs.size == 1:
            return f"Every label is reported as {plain(value)}, so the report says nothing about it."
        return (
            f"A label of {plain(self.label)} is reported as one of {self.outputs.size:,} values, most often as {plain(value)} ({percent(often)}). "
            f"Its reports are {plain(self.mean)} on average, with a standard deviation of {plain(self.deviation)}."
        )


def reported(mechanism: FiniteMechanism, label: float) -> Reported:
    """What a mechanism makes of one label, from the integers that it samples with."""
    order = np.argsort(mechanism.outputs, kind="stable")
    outputs, row = mechanism.outputs[order], mechanism.matrix([label])[0][order]
    mean = float(row @ outputs)
    return Reported(label, outputs, row, mean, math.sqrt(float(row @ np.square(outputs - mean))))


def apart(first: Reported, second: Reported) -> str:
    """How far one report can tell two labels apart, in a sentence."""
    ratios = first.probabilities / second.probabilities
    most = max(float(ratios.max()), float(1 / ratios.min()))
    return (
        f"No report is more than {plain(most, 3)} times as likely for a label of {plain(first.label)} as for one of {plain(second.label)}, or the "
        "other way round."
    )
