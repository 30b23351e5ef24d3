"""One thread per process: import this before NumPy is loaded, because forked processes must not wait for threads."""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
