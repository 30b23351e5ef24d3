"""One thread per test process: the suite runs on as many processes as there are cores, and spinning threads stall it."""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from hypothesis import HealthCheck, settings  # noqa: E402 - after the environment is set

# The first call of a kernel compiles it, and a busy machine may take long over anything.
settings.register_profile("labeldp", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("labeldp")
