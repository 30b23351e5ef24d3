"""Starts and stops Spark for the command line: quiet, on this machine alone unless told otherwise, encrypted on a cluster.

What Java and Spark print goes to a file. It is kept only if something fails, for whoever wants to know why.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from labeldp.engines.spark.places import local_uri
from labeldp.errors import InvalidInput, PrivacyRefused

THIS_MACHINE = "local[*]"
ENCRYPTION = ("spark.io.encryption.enabled", "spark.network.crypto.enabled", "spark.authenticate")
MAKES_ITS_SECRET = ("yarn", "k8s://")
"""The masters under which Spark makes and distributes the secret that encryption needs. Others must be given one."""
NO_JAVA = (
    "Spark needs Java 17 or newer, and there is none: install it (on Debian and Ubuntu, apt install openjdk-17-jre-headless), or "
    "set JAVA_HOME to the folder of one"
)
OLD_JAVA = "Spark needs Java 17 or newer, and this one is older: install a newer one, and set JAVA_HOME to its folder"


@contextmanager
def running(master: str | None, given: Mapping[str, str], *, kept: Callable[[Path], None]) -> Iterator[SparkSession]:
    """A session while the block runs. One that this process has already is used as it is, and left running.

    Parameters
    ----------
    master : str or None
        Where Spark runs. By default on this machine.
    given : mapping
        Settings by their names. They win over ours.
    kept : callable
        Told where Spark's log is if the block fails for another reason than bad input.
    """
    if (active := SparkSession.getActiveSession()) is not None:
        if master is not None or given:
            raise InvalidInput(
                "Spark runs in this process already, with its own settings: leave out --master and --conf"
            )
        yield active
        return
    place = THIS_MACHINE if master is None else master
    _refuse_connect(place, given)
    _require_java()
    folder = Path(tempfile.mkdtemp(prefix="labeldp-spark-"))
    log, failed = folder / "spark.log", False
    try:
        session = _started(place, settings(place, given, folder), log)
        try:
            yield session
        finally:
            _stop(session)
    except Exception as error:
        failed = getattr(error, "exit_code", 1) == 1
        raise
    finally:
        if failed and log.stat().st_size:
            kept(log)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def settings(master: str, given: Mapping[str, str], folder: Path) -> dict[str, str]:
    """All settings of a session, those given and ours. None of ours is a secret."""
    ours = {"spark.app.name": "labeldp", "spark.ui.showConsoleProgress": "false"}
    if _is_local(master):
        ours |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": local_uri(folder / "warehouse"),  # Spark makes one where it starts otherwise
        }
    else:
        # Relative to an executor's own working folder. Others could put code into a folder of /tmp whose name they know.
        ours["spark.executorEnv.NUMBA_CACHE_DIR"] = "labeldp-numba-cache"
    if master.startswith(MAKES_ITS_SECRET):
        ours |= dict.fromkeys(ENCRYPTION, "true")
    return ours | dict(given) | {"spark.master": master}


def parsed_settings(texts: Sequence[str]) -> dict[str, str]:
    """Settings from texts such as "spark.driver.memory=8g". Errors show names and no values, which may be secret."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name.startswith("spark."):
            raise InvalidInput(f"--conf takes a setting of Spark as in spark.driver.memory=8g, got {name!r}")
        if name == "spark.master":
            raise InvalidInput("--conf spark.master: give --master instead")
        if name in found:
            raise InvalidInput(f"--conf {name} is given twice: leave one out")
        found[name] = value.strip()
    return found


def _is_local(master: str) -> bool:
    return master.split("[")[0] == "local"


def _refuse_connect(master: str, given: Mapping[str, str]) -> None:
    mode = given.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))
    if master.startswith("sc://") or "spark.remote" in given or "SPARK_REMOTE" in os.environ or mode == "connect":
        raise PrivacyRefused(
            "Spark Connect sends the release's subkeys inside its plan: give --master of a classic cluster (yarn, k8s://…, "
            "spark://…), and unset SPARK_REMOTE and SPARK_API_MODE"
        )


def _require_java() -> None:
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit started us: its Java runs already
        return
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java" if not home else str(Path(home) / "bin" / "java")) is None:
        raise InvalidInput(NO_JAVA)


def _started(master: str, chosen: Mapping[str, str], log: Path) -> SparkSession:
    conf = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
    try:
        with _environment(master), log.open("wb") as stream:
            # The log has to be named when Java starts, which the builder would do itself and let Java write to the terminal.
            gateway = launch_gateway(conf, {"stdout": stream, "stderr": stream})
            SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001
            return SparkSession.builder.config(conf=conf).getOrCreate()
    except (PySparkException, Py4JError) as error:
        said = log.read_text(errors="replace")
        if "UnsupportedClassVersionError" in said or "Unrecognized option: --add-modules" in said:
            raise InvalidInput(OLD_JAVA) from None
        raise InvalidInput(f"Spark does not start with --master {master}: {_reason(error, said)}") from None


def _reason(error: Exception, said: str) -> str:
    """Why Spark did not start: Java's own text, or what it printed last. No record was read yet that it could show."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.getMessage()).splitlines()[0]
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith(("\tat ", "WARNING:"))]
    return lines[-1] if lines else "Java ended at once"


@contextmanager
def _environment(master: str) -> Iterator[None]:
    """On this machine, workers run this Python, with its caches, and the name of the machine need not be known."""
    wanted = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"} if _is_local(master) else {}
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _stop(session: SparkSession) -> None:
    with suppress(Py4JError, OSError), warnings.catch_warnings():  # if Java is gone, there is nothing to stop
        warnings.simplefilter("ignore")
        session.stop()
