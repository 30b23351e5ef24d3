"""One thread per test process: the suite runs on as many processes as there are cores, and spinning threads stall it.

All tests that need Spark share one session in one process, since each session starts a Java machine. Without Java they skip.
"""

from __future__ import annotations

import os
import shutil

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import pytest  # noqa: E402 - after the environment is set
from hypothesis import HealthCheck, settings  # noqa: E402

# The first call of a kernel compiles it, and a busy machine may take long over anything.
settings.register_profile("labeldp", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("labeldp")


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items):
    for item in items:
        if {"java", "spark"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group("spark"))
            # PySpark 4.1 leaves sockets to the garbage collector
            sockets = r"ignore:Exception ignored in. <socket\.socket:pytest.PytestUnraisableExceptionWarning"
            item.add_marker(pytest.mark.filterwarnings(sockets))


@pytest.fixture(scope="session")
def java():
    pytest.importorskip("pyspark", reason="Spark's tests need the extra spark: pip install 'labeldp[spark]'")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        pytest.skip("Spark's tests need Java 17: install openjdk-17-jre-headless")


@pytest.fixture(scope="session")
def spark(java, tmp_path_factory):
    from spark_session import local_session

    folder = tmp_path_factory.mktemp("spark")
    (folder / "events").mkdir()
    log = {"enabled": "true", "dir": (folder / "events").as_uri(), "compress": "false", "rolling.enabled": "false"}
    settings = {f"spark.eventLog.{name}": value for name, value in log.items()}
    session = local_session(folder, "local[2,2]", **settings)  # a task that fails is tried once more
    yield session
    session.stop()
