"""The engine for a cluster: Apache Spark reads, draws, shuffles and writes. It needs the extra `spark`.

`spark_input` implements the passes of a release, and `spark_sums` the passes for exact sums. Tasks of the workers are in
`worker` (before the shuffle) and `shuffle`. `writing` draws and writes a message, `jobs` runs Spark jobs, `frames`
makes frames from files, and `session` starts sessions and checks that they encrypt. This module does not import Spark,
so importing it is cheap.
"""

from __future__ import annotations

from importlib import import_module

from labeldp.errors import MissingExtra

LEAST_PYSPARK = (4, 1)
"""The first version with `repartitionById`."""


def require_pyspark() -> None:
    """Raise `MissingExtra` unless PySpark is installed and new enough."""
    try:
        found = import_module("pyspark").__version__
        import_module("pandas")  # PySpark needs it to exchange Arrow data with its workers
    except ImportError as error:
        raise MissingExtra("Spark needs pyspark and pandas: pip install 'labeldp[spark]'") from error
    if tuple(int(part) for part in found.split(".")[:2]) < LEAST_PYSPARK:
        raise MissingExtra(f"pyspark {found} is too old: labeldp needs 4.1 or newer, pip install -U 'labeldp[spark]'")
