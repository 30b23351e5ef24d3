"""Audits of any randomizer, ours or not: the exact proof where there is a table of integers, statistics elsewhere.

May import `mechanisms` and below.
"""

from __future__ import annotations

from labeldp.audit.measurement import Measurement, measure, smallest_excess
from labeldp.mechanisms.proof import Proof, log_upper, verify

__all__ = ["Measurement", "Proof", "log_upper", "measure", "smallest_excess", "verify"]
