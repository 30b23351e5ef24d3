"""Evaluation of models and mechanisms: predicted errors, estimates with intervals, comparisons, and statistical audits.

| file | content |
|---|---|
| `advice`, `foreseen`, `risk`, `shapes` | before a release: the choice of ε, its expected errors and its risks |
| `comparison` | mechanisms side by side |
| `estimates`, `scoring` | errors, gains and means of a model, from private labels only |
| `intervals`, `constraints` | the intervals of these estimates |
| `held_out`, `held_out_sums` | the error of a model from noisy sums of held-out labels |
| `class_sums` | log loss, AUC and calibration of probabilities of classes from noisy sums |
| `score`, `groups` | the same as a release to another party, by group |
| `report` | means and quantiles of labels by group |
| `measurement` | a statistical audit of any randomizer |
"""

from labeldp.evaluate.advice import Advice, Outlook, advise
from labeldp.evaluate.class_sums import CalibrationBin, ClassError
from labeldp.evaluate.comparison import Comparison, compare
from labeldp.evaluate.estimates import (
    ErrorEstimate,
    Estimate,
    cross_validated_error,
    estimate_classes,
    estimate_error,
    estimate_gain,
    estimate_mean,
    estimate_r2,
)
from labeldp.evaluate.foreseen import Foreseen, Target
from labeldp.evaluate.held_out import held_out_error
from labeldp.evaluate.held_out_sums import HeldOutError
from labeldp.evaluate.measurement import Measurement, measure
from labeldp.evaluate.report import GroupRow, Report
from labeldp.evaluate.risk import Risk
from labeldp.evaluate.score import Difference, Score, ScoreOutcome, score
from labeldp.evaluate.scoring import LossEstimate, estimate_loss, noise_corrected_scorer

__all__ = [
    "Advice",
    "CalibrationBin",
    "ClassError",
    "Comparison",
    "Difference",
    "ErrorEstimate",
    "Estimate",
    "Foreseen",
    "GroupRow",
    "HeldOutError",
    "LossEstimate",
    "Measurement",
    "Outlook",
    "Report",
    "Risk",
    "Score",
    "ScoreOutcome",
    "Target",
    "advise",
    "compare",
    "cross_validated_error",
    "estimate_classes",
    "estimate_error",
    "estimate_gain",
    "estimate_loss",
    "estimate_mean",
    "estimate_r2",
    "held_out_error",
    "measure",
    "noise_corrected_scorer",
    "score",
]
