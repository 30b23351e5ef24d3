"""Which ε? Predicted errors of models before anything is released, the ε that a target needs, and what an ε risks.

Reads bounds, a public distribution and a number of records. It never reads labels.
"""

from labeldp.advice.advice import Advice, Outlook, advise
from labeldp.advice.risk import Risk
from labeldp.advice.targets import Target
from labeldp.mechanisms.prediction import Prediction

__all__ = ["Advice", "Outlook", "Prediction", "Risk", "Target", "advise"]
