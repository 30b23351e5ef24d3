"""Which ε? Predicted errors of models before anything is released, the ε that a target needs, and what an ε risks.

Reads bounds, a public distribution and a number of records. It never reads labels.
"""

from labeldp.advice.advice import Advice, Outlook
from labeldp.advice.predictions import Prediction
from labeldp.advice.question import advise
from labeldp.advice.targets import Target
from labeldp.advice.words import Risk

__all__ = ["Advice", "Outlook", "Prediction", "Risk", "Target", "advise"]
