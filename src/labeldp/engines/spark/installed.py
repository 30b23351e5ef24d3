"""Whether Spark can be used here. Imports nothing of it, so that asking costs little."""

from __future__ import annotations

from importlib import import_module

from labeldp.errors import MissingExtra

LEAST_PYSPARK = (4, 1)
"""The first with `repartitionById`."""


def require_pyspark() -> None:
    """Refuses to go on without a PySpark that can do it."""
    try:
        found = import_module("pyspark").__version__
        import_module("pandas")  # which PySpark needs to exchange Arrow data with its workers
    except ImportError as error:
        raise MissingExtra("Spark needs pyspark and pandas: pip install 'labeldp[spark]'") from error
    if tuple(int(part) for part in found.split(".")[:2]) < LEAST_PYSPARK:
        raise MissingExtra(f"pyspark {found} is too old: labeldp needs 4.1 or newer, pip install -U 'labeldp[spark]'")
