"""One Spark session for all tests of the engine, on this machine. Without Java they skip and say so."""

from __future__ import annotations

import os
import shutil

import pytest

pytest.importorskip("pyspark", reason="Spark's tests need the extra spark: pip install 'labeldp[spark]'")


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items):
    """All of these run in one process, since each process that needs a session starts a Java machine."""
    for item in items:
        if "engines/spark" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("spark"))
            # PySpark 4.1 leaves sockets to the garbage collector
            sockets = r"ignore:Exception ignored in. <socket\.socket:pytest.PytestUnraisableExceptionWarning"
            item.add_marker(pytest.mark.filterwarnings(sockets))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        pytest.skip("Spark's tests need Java 17: install openjdk-17-jre-headless")
    from spark_session import local_session

    folder = tmp_path_factory.mktemp("spark")
    (folder / "events").mkdir()
    log = {"enabled": "true", "dir": (folder / "events").as_uri(), "compress": "false", "rolling.enabled": "false"}
    settings = {f"spark.eventLog.{name}": value for name, value in log.items()}
    session = local_session(folder, "local[2,2]", **settings)  # a task that fails is tried once more
    yield session
    session.stop()


@pytest.fixture
def place(tmp_path):
    """A folder with a ledger, to see what a refusal leaves."""
    from spark_scenes import Place

    from labeldp import Ledger

    (tmp_path / "party").mkdir()
    Ledger.create(tmp_path / "party" / "ledger.db").add_dataset("sales", 3)
    return Place(tmp_path / "party")
