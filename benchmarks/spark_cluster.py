"""A standalone Spark cluster on this machine's loopback: one master, two workers. For tests, benchmarks and first trials.

Run: python benchmarks/spark_cluster.py [--encrypted] [--cores 1] [--memory 1g]

It prints the folder to set as SPARK_CONF_DIR and runs until Ctrl-C. A driver that is started with that variable finds the master
and, with --encrypted, a secret that was drawn for this cluster:

    SPARK_CONF_DIR=/tmp/labeldp-cluster-…/conf labeldp privatize sales.parquet --engine spark …

The workers are on 127.0.0.1 and 127.0.0.2, because Spark runs a speculative copy of a task on another host only. Nothing
listens on any other network. All files, those of executors included, lie in one temporary folder, which is removed at the end.
Linux only: other systems have no 127.0.0.2 unless it is set up.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

HOSTS = ("127.0.0.1", "127.0.0.2")
MOST_SECONDS = 120
ENCRYPTION = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}


@dataclass
class Cluster:
    """A cluster that runs. `spark_cluster` starts and stops it.

    Attributes
    ----------
    folder : Path
        Everything that master, workers and executors write.
    conf : Path
        The settings for drivers. It holds the secret, and only its owner can read it.
    master : str
        The address.
    processes : list of subprocess.Popen
        The master and the workers, each the leader of its own group of processes.
    """

    folder: Path
    conf: Path
    master: str = ""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        """What a driver on this cluster needs in its environment."""
        return os.environ | {
            "SPARK_CONF_DIR": str(self.conf),
            "SPARK_LOCAL_IP": HOSTS[0],
            "PYSPARK_PYTHON": sys.executable,
        }


@contextmanager
def spark_cluster(
    folder: Path, *, encrypted: bool = False, cores: int = 1, memory: str = "1g", settings: dict[str, str] | None = None
) -> Iterator[Cluster]:
    """A cluster whose files lie in `folder`. It is stopped when the block ends; the files stay.

    Parameters
    ----------
    folder : Path
        Where everything is written: a new folder, or one that holds nothing but `conf`, say with a `log4j2.properties`.
    encrypted : bool, default False
        Whether processes authenticate each other and encrypt what they send and what they write to disk.
    cores, memory
        What each of the two workers offers.
    settings : dict, optional
        More of Spark's settings, for all its processes.
    """
    conf = folder / "conf"
    conf.mkdir(parents=True, mode=0o700, exist_ok=True)
    cluster = Cluster(folder, conf)
    try:
        common = {
            "spark.ui.enabled": "false",
            "spark.master.rest.enabled": "false",
            "spark.driver.host": HOSTS[0],
            "spark.local.dir": str(folder / "local"),
        }
        if encrypted:
            common |= ENCRYPTION | {"spark.authenticate.secret": secrets.token_hex(32)}
        common |= settings or {}
        _write_settings(conf, common)
        log = _start(
            cluster, "master", HOSTS[0], "master.Master", "--host", HOSTS[0], "--port", "0", "--webui-port", "0"
        )
        cluster.master = _wait_for(cluster, log, r"Starting Spark master at (spark://[0-9.]+:\d+)")
        for number, host in enumerate(HOSTS, 1):
            work = str(folder / f"worker-{number}")
            offer = ["--host", host, "--webui-port", "0", "--cores", str(cores), "--memory", memory, "--work-dir", work]
            log = _start(cluster, f"worker-{number}", host, "worker.Worker", *offer, cluster.master)
            _wait_for(cluster, log, "Successfully registered with (master)")
        _write_settings(conf, {"spark.master": cluster.master} | common)
        yield cluster
    finally:
        _stop(cluster)


def _write_settings(conf: Path, settings: dict[str, str]) -> None:
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    copy = conf / "new"
    copy.touch(mode=0o600)  # before the secret is in it
    copy.write_text(text)
    copy.replace(conf / "spark-defaults.conf")


def _start(cluster: Cluster, name: str, host: str, kind: str, *arguments: str) -> Path:
    """Starts a master or a worker; returns the file of its log."""
    log = cluster.folder / f"{name}.log"
    environment = cluster.environment() | {
        "SPARK_LOCAL_IP": host,  # web pages listen on it too
        "SPARK_LOCAL_DIRS": str(cluster.folder / f"{name}-local"),
        "SPARK_NO_DAEMONIZE": "1",
    }
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with log.open("wb") as output:
        cluster.processes.append(
            subprocess.Popen(
                [program, f"org.apache.spark.deploy.{kind}", *arguments],
                env=environment,
                cwd=cluster.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that its executors can be stopped with it
            )
        )
    return log


def _wait_for(cluster: Cluster, log: Path, line: str) -> str:
    """What the first group of `line` matches in a log, once it is there."""
    end = time.monotonic() + MOST_SECONDS
    while time.monotonic() < end:
        text = log.read_text(errors="replace")
        if found := re.search(line, text):
            return found[1]
        if cluster.processes[-1].poll() is not None:
            raise RuntimeError(f"Spark's {log.stem} did not start:\n{text[-2000:]}")
        time.sleep(0.1)
    raise TimeoutError(f"Spark's {log.stem} did not start within {MOST_SECONDS} seconds: see {log}")


def _stop(cluster: Cluster) -> None:
    """Ends what was started, workers first, and what these have started."""
    for process in reversed(cluster.processes):
        for kind, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, kind)  # also if the leader is gone: executors may not be
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encrypted", action="store_true", help="authenticate, and encrypt network and disks")
    parser.add_argument("--cores", type=int, default=1, help="cores of each worker")
    parser.add_argument("--memory", default="1g", help="memory of each worker")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="labeldp-cluster-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with (
            spark_cluster(folder, encrypted=options.encrypted, cores=options.cores, memory=options.memory) as cluster,
            contextlib.suppress(KeyboardInterrupt),
        ):
            print(f"master: {cluster.master}\nSPARK_CONF_DIR={cluster.conf}\nCtrl-C stops it", flush=True)
            cluster.processes[0].wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
