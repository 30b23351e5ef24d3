"""A process that forks runs of a release and kills them: at a moment in time, or at their n-th system event.

Commands come as JSON lines on standard input, one answer for each on standard output. It is a process of its own so that
forks are cheap (everything is imported and compiled) and so that nothing of pytest is forked.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path

from labeldp.domain import Domain
from labeldp.engines.arrow.source import LabelSource
from labeldp.priors import Prior
from labeldp.release.apply import apply
from labeldp.release.labels import privatize
from labeldp.release.ledger import Ledger
from labeldp.release.randomizer import LabelRandomizer

EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "sqlite3.connect", "fcntl.flock"}


def run(command: dict) -> None:
    """One run of `privatize` or `apply` in `folder`."""
    folder = Path(command["folder"])
    sign_key = folder / "sender-private.pem" if (folder / "sender-private.pem").exists() else None
    if command["job"] == "apply":
        later = LabelSource(folder / "later.parquet", "y", "id")
        apply(
            folder / "message", later, key_file=folder / "key", ledger=Ledger(folder / "ledger.db"), sign_key=sign_key
        )
        return
    prior = Prior.uniform(Domain(0, 100, cells=11)) if command["public_prior"] else None
    privatize(
        LabelSource(folder / "labels.parquet", "y", "id"),
        LabelRandomizer(2, Domain(0, 100, cells=11), mechanism="rr-on-bins", prior=prior),
        folder / "message",
        ledger=Ledger(folder / "ledger.db"),
        dataset="data",
        key_file=folder / "key",
        sign_key=sign_key,
    )


def child(command: dict) -> int:
    """Runs and says how it ended: 0 done, 1 refused. With `event`, the process kills itself at that system event."""
    if command.get("event"):
        count = 0

        def watch(name: str, arguments: tuple) -> None:
            nonlocal count
            if name not in EVENTS or (name == "open" and not str(arguments[0]).startswith(command["folder"])):
                return
            count += 1
            if count == command["event"]:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
    try:
        run(command)
    except Exception as error:  # noqa: BLE001 - told to the test, which judges it
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def answer(command: dict) -> dict:
    """Forks the run, or several `together`, and waits for them."""
    started = time.perf_counter()
    processes = []
    for _ in range(command.get("together", 1)):
        process = os.fork()
        if process == 0:
            os._exit(child(command))
        processes.append(process)
    if (moment := command.get("kill_after")) is not None:
        time.sleep(moment)
        for process in processes:
            os.kill(process, signal.SIGKILL)  # our child and not waited for yet: the number is still its own
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    return {"codes": codes, "seconds": time.perf_counter() - started}


def main() -> None:
    warnings.simplefilter("ignore")
    sys.stderr = (Path(sys.argv[1]) / "errors.txt").open("w")
    run({"job": "privatize", "public_prior": False, "folder": sys.argv[1]})  # loads and compiles whatever is lazy
    run({"job": "apply", "folder": sys.argv[1]})
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
