"""Audits of any randomizer, ours or not: an exact proof where there is a table of integers, statistics elsewhere.

May import `mechanisms` and below.
"""

from labeldp.audit.measurement import Measurement, measure
from labeldp.mechanisms.finite import Proof, verify

__all__ = ["Measurement", "Proof", "measure", "verify"]
