"""Is it really ε? An exact proof for integer tables (`verify`), a statistical audit of any randomizer (`measure`)."""

from __future__ import annotations

from labeldp.audit.measurement import Measurement, measure, smallest_excess
from labeldp.audit.proof import Proof, log_upper, verify

__all__ = ["Measurement", "Proof", "log_upper", "measure", "smallest_excess", "verify"]
