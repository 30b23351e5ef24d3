"""The features party and the team with both sides: features to numbers, join by id, learners, estimators, `train`, saved models.

| file | what it does |
|---|---|
| `feature_tables`, `feature_columns` | tables of any kind as Arrow columns, and columns as the arrays that models take |
| `joined_features` | joins features and private labels by id |
| `learners`, `boosting` | learners by name, and trees sized for noisy labels |
| `conditional`, `class_rates`, `cross_fitting` | models of other losses than the squared one, of classes, and what the two share |
| `score_model` | best answers for any loss, from normal scores; models of other losses from noisy sums |
| `sums/` | the model from noisy sums |
| `regressor`, `classifier`, `method` | `LabelDPRegressor`, `LabelDPClassifier`, and their choice between noisy labels and noisy sums |
| `train`, `verdict` | `labeldp.train`, and its report in words |
| `saved`, `prediction_files`, `stored/` | models as files |
"""

from labeldp.learn.boosting import boosting_settings
from labeldp.learn.conditional import ConditionalRegressor
from labeldp.learn.joined_features import Joined, join
from labeldp.learn.learners import BoostingRegressor, StackedRegressor
from labeldp.learn.train import TrainingResult

__all__ = [
    "LEARNERS",
    "BoostingRegressor",
    "ConditionalRegressor",
    "Joined",
    "StackedRegressor",
    "TrainingResult",
    "boosting_settings",
    "join",
]
