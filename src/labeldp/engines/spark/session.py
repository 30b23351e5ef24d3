"""Spark sessions: which ones may process a release, how the command line starts one, and how paths are written for them.

A session of the command line is quiet, runs on this machine by default, and encrypts on a cluster. The output of Java
and Spark goes to a file, which is kept only if something fails.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from labeldp.errors import InvalidInput, PrivacyRefused, why_unreadable

_WILDCARDS = frozenset("\\{}[]*?")
ENCRYPTED = {
    "disks": ("spark.io.encryption.enabled",),
    "network": ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled"),
}
"""Required settings: one of each row must be on."""
SCRATCH, ALLOW_UNENCRYPTED = "spark.labeldp.scratch", "spark.labeldp.allowUnencrypted"
"""labeldp's own settings on the command line, named like the settings of Spark packages."""
SUBKEYS = "subkeys that undo the noise of this release"
THIS_MACHINE = "local[*]"
ENCRYPTION = ("spark.io.encryption.enabled", "spark.network.crypto.enabled", "spark.authenticate")
MAKES_ITS_SECRET = ("yarn", "k8s://")
"""The masters under which Spark creates and distributes the secret for encryption. Others must be given one."""
NO_JAVA = (
    "Spark needs Java 17 or newer, and there is none: install it (on Debian and Ubuntu, apt install openjdk-17-jre-headless), or "
    "set JAVA_HOME to the folder of one"
)
LAST_SECONDS = 20
"""The time limit for Java to end."""
_CHATTER = re.compile(r"WARNING:|NOTE:|Using Spark's|Setting default|To adjust|Picked up|[0-9/]+ [0-9:]+ (INFO|WARN)")
OLD_JAVA = "Spark needs Java 17 or newer, and this one is older: install a newer one, and set JAVA_HOME to its folder"


def file_uri(path: str | os.PathLike[str]) -> str:
    """Return the URI under which Spark writes to a path. Hadoop does not decode it, so nothing in it is percent-encoded."""
    return f"file:///{Path(path).absolute().as_posix().lstrip('/')}"


def file_pattern(path: str | os.PathLike[str]) -> str:
    """Return the URI under which Spark reads a path, with wildcards escaped."""
    return "".join(f"\\{sign}" if sign in _WILDCARDS else sign for sign in file_uri(path))


def is_local(master: str) -> bool:
    """Return whether everything runs inside the driver, on one machine."""
    return master.split("[", maxsplit=1)[0] == "local"


def check_is_frame(frame: Any) -> None:
    """Raise `InvalidInput` unless `frame` is a frame of a running session."""
    if not isinstance(frame, DataFrame):
        kind = f"{type(frame).__module__}.{type(frame).__name__}"
        raise InvalidInput(f"frame must be a Spark DataFrame, got {kind}: make one with spark.read.parquet(…)")
    if isinstance(frame, ClassicFrame) and frame.sparkSession.sparkContext._jsc is None:  # noqa: SLF001 - None after it was stopped
        raise InvalidInput("the Spark session of this frame was stopped: start one, and read the frame again")


def check_frame(frame: Any) -> None:
    """Raise an error unless `frame` belongs to a classic session and can be read more than once."""
    check_is_frame(frame)
    if not isinstance(frame, ClassicFrame):
        raise PrivacyRefused(
            "this frame belongs to a Spark Connect session, which sends the release's subkeys inside its plan: use a classic "
            "session, made with SparkSession.builder.master(…)"
        )
    if frame.isStreaming:
        raise InvalidInput("this frame is a stream, and a release reads its input twice: save a batch of it first")
    if not frame._jdf.queryExecution().analyzed().deterministic():  # noqa: SLF001 - only available there
        raise InvalidInput(
            "this frame gives other rows each time it is read: something in it is random or depends on the partitioning, such "
            "as rand(), uuid() or monotonically_increasing_id(). Save it first, and read it back"
        )


def check_encryption(spark: SparkSession, *, allow_unencrypted: bool, secret: str = SUBKEYS) -> None:
    """Raise `PrivacyRefused` if a cluster writes or sends a secret in plain text, unless that is allowed. `secret` is a name for what workers get.

    Spark may keep the data for workers in temporary folders of driver and executors, where they stay if a process is killed.
    """
    context = spark.sparkContext
    if allow_unencrypted or is_local(str(context.master)):
        return
    settings = context.getConf()
    missing = [names[0] for names in ENCRYPTED.values() if not any(is_on(settings.get(name)) for name in names)]
    if missing:
        raise PrivacyRefused(
            f"the workers of this cluster get {secret}, and Spark would keep or send this in plain text. Set "
            f"{' and '.join(f'{name}=true' for name in missing)} when the session starts (network encryption needs "
            "spark.authenticate=true too). If disks and network are encrypted otherwise, give allow_unencrypted=True "
            f"(--conf {ALLOW_UNENCRYPTED}=true)"
        )


def is_on(value: str | None) -> bool:
    """Return whether Spark treats the text of a setting as true."""
    return value is not None and value.strip().lower() == "true"


class NotStarted(InvalidInput):
    """Spark cannot start with these settings."""


@contextmanager
def running(given: Mapping[str, str], *, kept: Callable[[Path], None]) -> Iterator[SparkSession]:
    """Run a session during the block. An existing session of this process is used unchanged and left running.

    Parameters
    ----------
    given : mapping
        Settings by their names, which override ours. By default Spark runs on this machine.
    kept : callable
        Called with the path of Spark's log if the block fails for a reason other than invalid input.
    """
    if (active := SparkSession.getActiveSession()) is not None:
        if given:
            raise InvalidInput(
                "Spark runs in this process already, with its own settings: leave out --spark-conf and --conf"
            )
        yield active
        return
    place = given.get("spark.master", THIS_MACHINE)
    _refuse_connect(place, given)
    _require_java()
    folder = Path(tempfile.mkdtemp(prefix="labeldp-spark-"))
    log, failed = folder / "spark.log", False
    try:
        with _session(place, settings(place, given, folder), log) as session:
            yield session
    except Exception as error:
        failed = isinstance(error, NotStarted) or getattr(error, "exit_code", 1) == 1
        raise
    finally:
        for name in ("local", "warehouse"):
            shutil.rmtree(folder / name, ignore_errors=True)
        if failed:
            kept(log)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def settings(master: str, given: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return all settings of a session, the given ones and ours. Ours contain no secrets."""
    ours = {"spark.app.name": "labeldp", "spark.ui.showConsoleProgress": "false"}
    if is_local(master):
        ours |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": file_uri(
                folder / "warehouse"
            ),  # otherwise Spark creates one in the current folder
        }
    else:
        # Relative to an executor's own working folder. Others could put code into a folder with a known name in /tmp.
        ours["spark.executorEnv.NUMBA_CACHE_DIR"] = "labeldp-numba-cache"
    if master.startswith(MAKES_ITS_SECRET):
        ours |= dict.fromkeys(ENCRYPTION, "true")
    return ours | dict(given) | {"spark.master": master}


def parsed_settings(file: Path | None, texts: Sequence[str]) -> dict[str, str]:
    """Return settings from a file like spark-defaults.conf and from texts such as "spark.driver.memory=8g", which override it.

    Errors show names but no values, which may be secret.
    """
    try:
        lines = [] if file is None else file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read --spark-conf {file}: {why_unreadable(error)}") from None
    written = [line.strip() for line in lines if line.strip()[:1] not in ("", "#")]
    in_file = [re.split(r"\s*[=:]\s*|\s+", line, maxsplit=1) for line in written]
    found: dict[str, str] = {}
    for option, pairs in ((f"--spark-conf {file}", in_file), ("--conf", [text.split("=", 1) for text in texts])):
        names = [pair[0].strip() for pair in pairs]
        for name, pair in zip(names, pairs, strict=True):
            if len(pair) < 2 or not name.startswith("spark."):
                raise InvalidInput(f"{option} takes settings of Spark such as spark.driver.memory=8g, got {name!r}")
            if names.count(name) > 1:
                raise InvalidInput(f"{option} has {name} twice: leave one out")
            found[name] = pair[1].strip()
    return found


def _refuse_connect(master: str, given: Mapping[str, str]) -> None:
    mode = given.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))
    if master.startswith("sc://") or "spark.remote" in given or "SPARK_REMOTE" in os.environ or mode == "connect":
        raise PrivacyRefused(
            "Spark Connect sends the release's subkeys inside its plan: give --conf spark.master of a classic cluster (yarn, "
            "k8s://…, spark://…), and unset SPARK_REMOTE and SPARK_API_MODE"
        )


def _require_java() -> None:
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit started us: its Java runs already
        return
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java" if not home else str(Path(home) / "bin" / "java")) is None:
        raise InvalidInput(NO_JAVA)


@contextmanager
def _session(master: str, chosen: Mapping[str, str], log: Path) -> Iterator[SparkSession]:
    conf = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
    with ExitStack() as stack:
        try:
            stack.enter_context(_without_py4j_logs())
            stack.enter_context(_environment(master))
            stack.enter_context(_java(conf, log))
            session = _started(conf)
        except (PySparkException, Py4JError) as error:
            said = log.read_text(errors="replace")
            if "UnsupportedClassVersionError" in said or "Unrecognized option: --add-modules" in said:
                raise InvalidInput(OLD_JAVA) from None
            raise NotStarted(f"Spark does not start with spark.master={master}: {_reason(error, said)}") from None
        stack.callback(_stop, session)
        yield session


@contextmanager
def _java(conf: SparkConf, log: Path) -> Iterator[None]:
    """Run Java during the block. Spark's builder would also start it, but would let it write to the terminal and never end it."""
    with log.open("wb") as stream:
        gateway: Any = launch_gateway(conf, {"stdout": stream, "stderr": stream})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001
    try:
        yield
    finally:
        if gateway.proc is not None:  # it is None if spark-submit started both
            SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
            gateway.shutdown()
            gateway.proc.stdin.close()  # the signal for Java to end and to remove its temporary files
            try:
                gateway.proc.wait(LAST_SECONDS)
            except TimeoutExpired:
                gateway.proc.kill()


def _started(conf: SparkConf) -> SparkSession:
    with warnings.catch_warnings():  # PySpark warns of pandas 3, which it imports and Arrow batches never meet
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        session = SparkSession.builder.config(conf=conf).getOrCreate()
        session.range(0)  # reads the settings of SQL
        return session


def _reason(error: PySparkException | Py4JError, said: str) -> str:
    """Return why Spark did not start: Java's own message, or its output. It cannot show a record, because none was read yet."""
    thrown: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if thrown is not None:
        while (cause := thrown.getCause()) is not None:
            thrown = cause
        lines = str(thrown.getMessage()).splitlines()
    elif found := re.search(r'Exception in thread "main" [\w.$]+: (.+)', said):
        lines = [found[1]]
    else:
        lines = [line for line in said.splitlines() if line.strip() and not _CHATTER.match(line)]
    return lines[0] if lines else type(error).__name__


@contextmanager
def _without_py4j_logs() -> Iterator[None]:
    """Silence Py4J, which prints a traceback on Ctrl-C and whenever Java is gone. Our errors report both."""

    def is_ours(record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts

    loggers = [logging.getLogger(name) for name in (None, "py4j", "py4j.java_gateway", "py4j.clientserver")]
    for logger in loggers:
        logger.addFilter(is_ours)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_ours)


@contextmanager
def _environment(master: str) -> Iterator[None]:
    """Let workers on this machine run this Python, with its caches, without resolving the machine's name."""
    wanted = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"} if is_local(master) else {}
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
